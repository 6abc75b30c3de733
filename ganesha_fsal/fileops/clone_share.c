/* Sharing of blocks: FICLONERANGE within a dataset, copy_file_range(2) across datasets of a pool. */
#include "clone_internal.h"
#include "growth.h"
#include "sharing_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DIRTY_WAITS 3
#define LEAST_PIECE (UINT64_C(64) << 20)
#define FIRST_PIECE (UINT64_C(16) << 20)
#define MOST_ACROSS (UINT64_C(1) << 30) /* a call of 2 GiB would be cut to what is no multiple of a record, and then be a copy */

static int share_in_dataset(const struct clone *clone, uint64_t at, uint64_t size)
{
    const struct file_clone_range range = {.src_fd = clone->source, .src_offset = clone->source_offset + at, .src_length = size,
                                           .dest_offset = clone->destination_offset + at};
    return ioctl(clone->destination, FICLONERANGE, &range) ? errno : 0;
}

/* So much of the pool may be cloned in one transaction group that it is not full for others meanwhile; 0: no matter. */
static uint64_t available_to(const struct clone *clone)
{
    const struct fileops_space *space = clone->request->destination_space;
    struct statvfs file_system;
    if (!space || !space->has_holder || fstatvfs(clone->destination, &file_system))
        return 0;
    return (uint64_t)file_system.f_bavail * file_system.f_frsize;
}

/* One call, which may do less than asked: Linux takes 2 GiB at most from 6.11 on, and OpenZFS says only then why it ended when nothing
 * was done. `proven`: what was done was shared for certain. */
static int share_across(struct clone *clone, struct sharing_proof *proof, uint64_t at, uint64_t size, uint64_t *done, bool *proven)
{
    off_t source = (off_t)(clone->source_offset + at), destination = (off_t)(clone->destination_offset + at);
    sharing_proof_before(proof);
    const ssize_t bytes = copy_file_range(clone->source, &source, clone->destination, &destination, size, 0);
    if (bytes < 0)
        return errno;
    if (bytes == 0)
        return clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES); /* it became shorter */
    *done = (uint64_t)bytes;
    *proven = sharing_proof_after(proof, *done);
    return 0;
}

static enum fileops_fallback reason_of(const struct clone *clone, int error)
{
    const uint64_t unit = (uint64_t)clone->source_status.st_blksize, end = clone->source_offset + clone->length;
    switch (error) {
    case EXDEV:
        return clone->same_dataset && clone->source_status.st_blksize != clone->destination_status.st_blksize
                   ? FILEOPS_FALLBACK_RECORD_SIZE
                   : FILEOPS_FALLBACK_OTHER_FILE_SYSTEM;
    case EAGAIN:
        return FILEOPS_FALLBACK_SOURCE_DIRTY;
    case EINVAL:
        return clone->source_offset % unit || clone->destination_offset % unit ||
                       (clone->length % unit && end < (uint64_t)clone->source_status.st_size)
                   ? FILEOPS_FALLBACK_MISALIGNED
                   : FILEOPS_FALLBACK_RECORD_SIZE;
    default:
        return FILEOPS_FALLBACK_NOT_SUPPORTED;
    }
}

/* Errors that mean "not this way". */
static bool steps_down(int error)
{
    return error == EXDEV || error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS || error == EINVAL || error == EAGAIN ||
           error == ETXTBSY;
}

/* Whether sharing up to there may make a file larger that others may change. */
static bool may_grow(const struct clone *clone, uint64_t to)
{
    struct stat status;
    if (clone->fresh)
        return false;
    return clone->alone || fstat(clone->destination, &status) || (uint64_t)status.st_size < clone->destination_offset + to;
}

/* `done`: so much of it. */
static int share_piece(struct clone *clone, struct sharing_proof *proof, uint64_t at, uint64_t size, uint64_t *done, bool *proven)
{
    struct fileops_space *space = clone->request->destination_space;
    const bool zfs = space && space->has_holder;
    const enum fileops_clone_left before = clone->result->left;
    bool partly = false;
    int error;
    *proven = true;
    *done = size;
    clone_touches(clone);
    for (int wait = 0;; wait++) {
        const bool grows = may_grow(clone, at + size);
        if (grows && fileops_growth_begin(clone->destination_status.st_dev, clone->destination_status.st_ino, clone->alone)) {
            clone->result->left = before;
            return clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_WRITES);
        }
        error = clone->same_dataset ? share_in_dataset(clone, at, size) : share_across(clone, proof, at, size, done, proven);
        if (grows)
            fileops_growth_end(clone->destination_status.st_dev, clone->destination_status.st_ino);
        partly = partly || error == EINVAL;
        /* Dirty blocks are EAGAIN, or EINVAL where the kernel shared a part (zpl_remap_file_range). Asking for a hole of a dirty
         * file ends its transaction group. ENOSPC comes, with much space, when more was cloned within one transaction group than the
         * pool has left: what a clone takes counts before what it saves. */
        if ((error != EAGAIN && error != EINVAL && (error != ENOSPC || !zfs)) || wait == DIRTY_WAITS || (error == EINVAL && wait))
            break;
        if (error == EAGAIN || !zfs)
            lseek(clone->source, (off_t)(clone->source_offset + at), SEEK_HOLE);
        else if (space_settle(space))
            break;
    }
    /* These say that nothing was done, but for EINVAL. */
    if (steps_down(error) && !partly)
        clone->result->left = before;
    return error;
}

bool clone_kernel_settles(void)
{
    char setting = 0;
    const int parameter = open("/sys/module/zfs/parameters/zfs_dmu_offset_next_sync", O_RDONLY | O_CLOEXEC);
    if (parameter >= 0 && read(parameter, &setting, 1) < 1)
        setting = 0;
    if (parameter >= 0)
        close(parameter);
    return setting == '1';
}

/* What was freed of both files is on disk when this returns: OpenZFS up to 2.3.9 clones blocks that are about to be freed, and frees
 * them twice (openzfs#16012, #18853). The books keep new ones away until the clone ends. */
static int settle_frees(const struct clone *clone)
{
    const uint64_t end = clone->destination_offset + clone->length;
    struct stat status;
    if (!clone_kernel_settles() || fstat(clone->destination, &status))
        return space_settle(clone->request->source_space);
    if (lseek(clone->source, (off_t)clone->source_offset, SEEK_HOLE) < 0 && errno != ENXIO)
        return errno;
    /* The same where blocks are replaced; beyond the end it is not asked for, and blocks may have been there. */
    if (clone->fresh)
        return 0;
    if ((uint64_t)status.st_size < end)
        return space_settle(clone->request->source_space);
    return lseek(clone->destination, (off_t)clone->destination_offset, SEEK_HOLE) < 0 && errno != ENXIO ? errno : 0;
}

int clone_by_sharing(struct clone *clone, uint64_t piece, const struct space_segment *counted, size_t count)
{
    struct sharing_proof proof;
    struct space_share *share = &clone->share;
    uint64_t at = 0, size = piece;
    struct statfs file_system;
    int error = 0;

    const bool zfs = !fstatfs(clone->source, &file_system) && file_system.f_type == ZFS_SUPER_MAGIC;
    if (zfs && !clone->request->source_space) {
        clone->reason = FILEOPS_FALLBACK_NOT_SUPPORTED; /* nobody keeps others from freeing blocks of it */
        return EAGAIN;
    }
    if (!clone->same_dataset) {
        sharing_proof_init(&proof, clone->source, clone->destination);
        /* A small one first: when it copies, little was lost. */
        if (piece != UINT64_MAX) {
            piece = piece > MOST_ACROSS ? MOST_ACROSS : piece;
            size = FIRST_PIECE;
        }
    }
    *share = (struct space_share){.source_space = clone->request->source_space, .destination_space = clone->request->destination_space,
                                  .filler = clone->fresh,
                                  .destination_offset = clone->destination_offset, .length = clone->length};
    error = space_share_begin(share, clone->source, clone->destination, clone->source_offset, counted, count);
    if (error == ENOSPC) {
        clone->reason = FILEOPS_FALLBACK_NO_RESERVATION;
        return EAGAIN;
    }
    if (error == EBUSY) {
        clone->reason = FILEOPS_FALLBACK_SOURCE_DIRTY;
        return EAGAIN;
    }
    if (error == ETXTBSY)
        return clone_is_busy(clone, space_is_unfinished(share->source_space, clone->source_status.st_ino)
                                        ? FILEOPS_CLONE_SOURCE_FILLED
                                        : FILEOPS_CLONE_DESTINATION_FILLED);
    if (error)
        return error;
    if (zfs)
        error = settle_frees(clone);
    uint64_t data = 0;
    for (size_t i = 0; i < count; i++)
        data += counted[i].length;
    const uint64_t available = available_to(clone);
    /* Of one moment or not: what is cloned in one call can't be spread. */
    if (available && piece != UINT64_MAX && piece > available / 4)
        piece = available / 4 > LEAST_PIECE ? available / 4 / LEAST_PIECE * LEAST_PIECE : LEAST_PIECE;
    size = size > piece ? piece : size;
    while (at < clone->length && !error) {
        bool proven = false;
        uint64_t done = 0;
        if (size > clone->length - at)
            size = clone->length - at;
        /* its share of the data, as it were spread evenly */
        const uint64_t turn = (uint64_t)((double)data * (double)size / (double)clone->length);
        if (available)
            space_turn_begin(share->destination_space, turn, available);
        error = share_piece(clone, &proof, at, size, &done, &proven);
        if (available)
            space_turn_end(share->destination_space, turn);
        if (error && steps_down(error)) {
            clone->reason = reason_of(clone, error);
            error = EAGAIN;
            break;
        }
        if (error)
            break;
        if (!proven && (at == 0 || clone->request->mode == FILEOPS_CLONE_FAST || piece == UINT64_MAX)) {
            clone->reason = FILEOPS_FALLBACK_OTHER_FILE_SYSTEM;
            error = EAGAIN;
            break;
        }
        if (piece == UINT64_MAX && done < size) {
            error = clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES); /* another call would be another moment */
            break;
        }
        if (proven) {
            clone->result->cloned += done;
        } else {
            clone->result->copied += done;
            clone->result->fallback[FILEOPS_FALLBACK_UNPROVEN] += done;
        }
        at += done;
        clone->result->done += done;
        size = piece;
        if (!clone_goes_on(clone))
            error = ECANCELED;
    }
    space_share_end(share, !error);
    return error;
}
