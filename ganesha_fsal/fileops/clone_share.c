/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Sharing of blocks in steps: FICLONERANGE within a dataset, copy_file_range(2) across datasets of a pool. */
#include "clone_internal.h"

#include "interlock.h"
#include "sharing_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Limits of a call: writers of the source wait for it, and it is one transaction of ZFS, which clones at most 1022 blocks. If a second
 * transaction finds no space, FICLONERANGE ends with EINVAL. Both limits are multiples of the record size. */
#define STEP (UINT64_C(64) << 20)
#define STEP_BLOCKS UINT64_C(512)
#define FIRST_ACROSS (UINT64_C(16) << 20) /* a small step first: if the kernel copies, little is lost */
#define WAITS 3 /* for transaction groups: for changes of the source, or after other writers have filled the pool for a moment */

struct step {
    uint64_t at, length;
    bool proven; /* the range is certainly shared */
};

static bool share_is_same_dataset(const struct clone *clone)
{
    return clone->source_status.st_dev == clone->destination_status.st_dev;
}

static int share_in_dataset(const struct clone *clone, struct step *step)
{
    const struct file_clone_range range = {
        .src_fd = clone->request->source, .src_offset = step->at, .src_length = step->length, .dest_offset = step->at};

    step->proven = true;
    return ioctl(clone->destination, FICLONERANGE, &range) != 0 ? errno : 0;
}

/* One call, which may do less than step->length and then lowers it. */
static int share_across(const struct clone *clone, struct sharing_proof *proof, struct step *step)
{
    off_t source = (off_t)step->at, destination = source;

    sharing_proof_before(proof);
    const ssize_t bytes = copy_file_range(clone->request->source, &source, clone->destination, &destination, step->length, 0);
    if (bytes < 0)
        return errno;
    if (bytes == 0)
        return EBUSY; /* the file became shorter */
    step->length = (uint64_t)bytes;
    step->proven = sharing_proof_after(proof, step->length);
    return 0;
}

static enum fileops_fallback share_reason_of(const struct clone *clone, int error, const struct step *step)
{
    const uint64_t record = (uint64_t)clone->source_status.st_blksize;

    switch (error) {
    case EXDEV:
        return share_is_same_dataset(clone) ? FILEOPS_FALLBACK_RECORD_SIZE : FILEOPS_FALLBACK_OTHER_FILE_SYSTEM;
    case EAGAIN:
        return FILEOPS_FALLBACK_SOURCE_DIRTY;
    case EINVAL:
        return step->at % record != 0 ? FILEOPS_FALLBACK_MISALIGNED : FILEOPS_FALLBACK_RECORD_SIZE;
    default:
        return FILEOPS_FALLBACK_NOT_SUPPORTED;
    }
}

/* Errors that mean: use another method. */
static bool share_steps_down(int error)
{
    return error == EXDEV || error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS || error == EINVAL || error == EAGAIN ||
           error == ETXTBSY;
}

/* Waits until changes of the source are in the pool, if the kernel offers that: SEEK_HOLE in a file with changes ends its transaction group
 * (zfs_dmu_offset_next_sync). No other call waits for freed blocks, which must not be cloned (interlock.h). */
static void share_wait_for_source(const struct clone *clone, uint64_t at)
{
    lseek(clone->request->source, (off_t)at, SEEK_HOLE);
}

/* Other file systems do not need it. */
static bool share_kernel_syncs_on_seek(void)
{
    char setting = '0';
    const int parameter = open("/sys/module/zfs/parameters/zfs_dmu_offset_next_sync", O_RDONLY | O_CLOEXEC);

    if (parameter < 0)
        return true; /* no OpenZFS */
    const bool syncs = read(parameter, &setting, 1) == 1 && setting == '1';
    close(parameter);
    return syncs;
}

/* During a sync OpenZFS counts the space of clones before their savings: if a transaction group clones more than is available, the pool is full for all
 * writers at that moment. So a group ends when clones into the dataset have shared three quarters of the available space, in that group and in the
 * syncing one. The available space is read again after a sixteenth of it was shared. */
static void share_pace(const struct clone *clone, uint64_t bytes)
{
    struct fileops_dataset *dataset = clone->request->destination_dataset;
    const uint64_t shared = atomic_fetch_add(&dataset->shared_by_clones, bytes) + bytes;
    struct statvfs file_system;

    if (shared < atomic_load(&dataset->pace_next_check) || fstatvfs(clone->destination, &file_system) != 0)
        return;
    const uint64_t available = (uint64_t)file_system.f_bavail * file_system.f_frsize;
    atomic_store(&dataset->pace_next_check, shared + available / 16);
    uint64_t synced = atomic_load(&dataset->synced_of_clones);
    if (synced >= shared || shared - synced <= available - available / 4)
        return;
    lseek(clone->destination, 0, SEEK_HOLE);
    while (synced < shared && !atomic_compare_exchange_weak(&dataset->synced_of_clones, &synced, shared))
        ;
}

/* With the interlock, and neither dataset thick. */
static int share_synced(const struct clone *clone, struct sharing_proof *proof, struct step *step)
{
    const uint64_t length = step->length;
    int error = EAGAIN;

    for (int wait = 0; (error == EAGAIN || error == ENOSPC) && wait <= WAITS; wait++) {
        if (step->at == 0 || wait != 0) /* an unchanged source stays clean */
            share_wait_for_source(clone, step->at);
        if (error == ENOSPC)
            lseek(clone->destination, 0, SEEK_HOLE);
        step->length = length;
        error = share_is_same_dataset(clone) ? share_in_dataset(clone, step) : share_across(clone, proof, step);
    }
    return error;
}

/* EAGAIN: one of the datasets is thick. */
static int share_thin(struct clone *clone, struct sharing_proof *proof, struct step *step)
{
    struct fileops_dataset *source = clone->request->source_dataset, *destination = clone->request->destination_dataset;
    struct fileops_dataset *first = source < destination ? source : destination,
                           *second = source < destination ? destination : source;
    int error;

    pthread_rwlock_rdlock(&first->sharing);
    if (second != first)
        pthread_rwlock_rdlock(&second->sharing);
    const bool thick = fileops_dataset_is_thick(source) || fileops_dataset_is_thick(destination);
    error = thick ? EAGAIN : share_synced(clone, proof, step);
    if (second != first)
        pthread_rwlock_unlock(&second->sharing);
    pthread_rwlock_unlock(&first->sharing);
    if (thick)
        clone->reason = FILEOPS_FALLBACK_THICK;
    else if (error != 0 && share_steps_down(error))
        clone->reason = share_reason_of(clone, error, step);
    return error != 0 && share_steps_down(error) ? EAGAIN : error;
}

static int share_step(struct clone *clone, struct sharing_proof *proof, struct step *step)
{
    const struct interlock_file source = {clone->request->source_dataset, clone->source_status.st_ino};
    const struct interlock_file destination = {clone->request->destination_dataset, clone->destination_status.st_ino};
    int error = interlock_step_begin(&source, &destination);

    if (error != 0)
        return error;
    if (step->at != 0)
        error = clone_check_source(clone);
    if (error == 0)
        error = share_thin(clone, proof, step);
    interlock_step_end(&source, &destination);
    return error;
}

/* An unproven step may be a copy. At the start, and if sharing is required, it is discarded. */
static bool share_is_no_clone(struct clone *clone, const struct step *step)
{
    if (step->proven || (step->at != 0 && clone->request->mode == FILEOPS_CLONE_FULL))
        return false;
    clone->reason = FILEOPS_FALLBACK_OTHER_FILE_SYSTEM;
    return true;
}

static void share_count(struct fileops_clone_result *result, const struct step *step)
{
    result->done += step->length;
    result->cloned += step->proven ? step->length : 0;
    result->copied += step->proven ? 0 : step->length;
    result->fallback[FILEOPS_FALLBACK_UNPROVEN] += step->proven ? 0 : step->length;
}

int clone_by_sharing(struct clone *clone)
{
    struct sharing_proof proof;
    const uint64_t blocks = STEP_BLOCKS * (uint64_t)clone->source_status.st_blksize, most = blocks < STEP ? blocks : STEP;
    uint64_t at = 0, size = most;
    int error = 0;

    if (!share_kernel_syncs_on_seek()) {
        clone->reason = FILEOPS_FALLBACK_SOURCE_DIRTY;
        return EAGAIN;
    }
    if (!share_is_same_dataset(clone)) {
        sharing_proof_init(&proof, clone->request->source, clone->destination);
        size = FIRST_ACROSS;
    }
    while (at < clone->length && error == 0) {
        struct step step = {.at = at, .length = size < clone->length - at ? size : clone->length - at};
        error = share_step(clone, &proof, &step);
        if (error == 0 && share_is_no_clone(clone, &step))
            error = ftruncate(clone->destination, (off_t)at) != 0 ? errno : EAGAIN;
        if (error != 0)
            break;
        share_count(clone->result, &step);
        at += step.length;
        size = most;
        share_pace(clone, step.length);
        error = clone_continues(clone) ? 0 : ECANCELED;
    }
    return error;
}
