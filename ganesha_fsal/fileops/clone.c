/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "clone.h"

#include "clone_internal.h"
#include "clone_place.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

const char *fileops_fallback_name(enum fileops_fallback reason)
{
    static const char *const names[FILEOPS_FALLBACK_COUNT] = {
        [FILEOPS_FALLBACK_OTHER_FILE_SYSTEM] = "other_file_system",
        [FILEOPS_FALLBACK_NOT_SUPPORTED] = "not_supported",
        [FILEOPS_FALLBACK_MISALIGNED] = "misaligned",
        [FILEOPS_FALLBACK_RECORD_SIZE] = "record_size",
        [FILEOPS_FALLBACK_SOURCE_DIRTY] = "source_dirty",
        [FILEOPS_FALLBACK_THICK] = "thick",
        [FILEOPS_FALLBACK_UNPROVEN] = "unproven",
    };
    return (unsigned int)reason < FILEOPS_FALLBACK_COUNT ? names[reason] : "unknown";
}

bool clone_continues(const struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;

    return request->progress == NULL || request->progress(request->progress_context, clone->result->done, clone->length);
}

static bool clone_is_time(const struct timespec *time, const struct timespec *other)
{
    return time->tv_sec == other->tv_sec && time->tv_nsec == other->tv_nsec;
}

/* Reads the status so that any later change shows. Changes set ctime to the kernel's coarse clock, so a change within one tick would not. */
static int clone_read_mark(int source, struct stat *status)
{
    for (;;) {
        struct timespec now;
        if (fstat(source, status) != 0 || clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
            return errno;
        if (!clone_is_time(&now, &status->st_ctim))
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
}

int clone_check_source(const struct clone *clone)
{
    const struct stat *before = &clone->source_status;
    struct stat now;

    if (fstat(clone->request->source, &now) != 0)
        return errno;
    return now.st_size == before->st_size && clone_is_time(&now.st_ctim, &before->st_ctim) &&
                   clone_is_time(&now.st_mtim, &before->st_mtim)
               ? 0
               : EBUSY;
}

static int clone_refusal(const struct clone *clone)
{
    clone->result->refused = clone->reason;
    return clone->reason == FILEOPS_FALLBACK_OTHER_FILE_SYSTEM ? EXDEV : EOPNOTSUPP;
}

/* Clones into an empty destination. */
static int clone_fill(struct clone *clone)
{
    int error = clone->length == 0 ? 0 : clone_by_sharing(clone);

    if (error == EAGAIN && clone->request->mode == FILEOPS_CLONE_FAST)
        return clone_refusal(clone);
    if (error == EAGAIN)
        error = clone_by_copying(clone, clone->result->done);
    /* Setting a size writes the last block, which is then no longer shared. So only if the source ends in a hole. */
    struct stat made;
    if (error == 0 && (fstat(clone->destination, &made) != 0 ||
                       ((uint64_t)made.st_size != clone->length && ftruncate(clone->destination, (off_t)clone->length) != 0)))
        error = errno;
    return error != 0 ? error : clone_check_source(clone);
}

/* Admits all of it to a thick dataset before the first byte, or does nothing. The destination is empty. */
static int clone_fill_admitted(struct clone *clone)
{
    struct admission *admission = &clone->request->destination_dataset->admission;
    const uint64_t inode = clone->destination_status.st_ino;
    struct admission_change change;
    struct stat made;

    int error = admission_begin(admission, inode, clone->length, &change);
    if (error == ENODATA) {
        error = admission_count(admission, inode, 0);
        if (error == 0)
            error = admission_begin(admission, inode, clone->length, &change);
    }
    if (error != 0)
        return error;
    error = clone_fill(clone);
    if (error == 0 && !change.entered && fileops_dataset_is_thick(clone->request->destination_dataset))
        error = EAGAIN; /* it became thick meanwhile, and the rest is not counted */
    if (change.entered)
        admission_end(admission, &change, fstat(clone->destination, &made) == 0 ? (uint64_t)made.st_size : UINT64_MAX);
    return error;
}

static int clone_check(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    struct stat directory;
    int error = clone_read_mark(request->source, &clone->source_status);

    if (error != 0)
        return error;
    if (!S_ISREG(clone->source_status.st_mode))
        return EISDIR;
    clone->length = (uint64_t)clone->source_status.st_size;
    if (request->destination < 0)
        return fstat(request->directory, &directory) != 0 ? errno : S_ISDIR(directory.st_mode) ? 0 : ENOTDIR;
    if (fstat(request->destination, &clone->destination_status) != 0)
        return errno;
    if (!S_ISREG(clone->destination_status.st_mode))
        return EISDIR;
    return clone->destination_status.st_dev == clone->source_status.st_dev &&
                   clone->destination_status.st_ino == clone->source_status.st_ino
               ? EINVAL
               : 0;
}

static int clone_into_name(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    struct clone_place place;
    struct stat status;

    if (fstatat(request->directory, request->name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    int error = clone_place_make(request, &place);
    if (error != 0)
        return error;
    clone->destination = place.file;
    if (fstat(place.file, &clone->destination_status) != 0)
        error = errno;
    if (error == 0)
        error = clone_fill_admitted(clone);
    if (error == 0)
        error = clone_place_put(request, &place, clone->length);
    const bool has_name = place.name[0] == 0;
    if (error != 0 && has_name)
        clone->result->left = FILEOPS_CLONE_UNKNOWN;
    clone_place_end(&place);
    if (error != 0 && !has_name)
        admission_forget(&request->destination_dataset->admission, clone->destination_status.st_ino);
    return error;
}

/* EEXIST if the file holds data. A file with a length but without data is empty: plug-ins set the length before they clone. */
static int clone_check_empty(int file, const struct stat *status)
{
    if (status->st_size == 0)
        return 0;
    if (lseek(file, 0, SEEK_DATA) >= 0)
        return EEXIST;
    return errno == ENXIO ? 0 : errno;
}

/* After a failure. */
static void clone_empty(struct clone *clone)
{
    struct admission *admission = &clone->request->destination_dataset->admission;
    struct admission_change change;

    clone->result->left = FILEOPS_CLONE_UNKNOWN;
    const int error = admission_begin(admission, clone->destination_status.st_ino, 0, &change);
    if (error != 0 && error != ENODATA) /* ENODATA: not counted yet */
        return;
    const bool emptied = ftruncate(clone->destination, 0) == 0;
    if (emptied)
        clone->result->left = FILEOPS_CLONE_EMPTY;
    admission_end(admission, &change, emptied ? 0 : UINT64_MAX);
}

static int clone_into_file(struct clone *clone)
{
    const int file = clone->destination = clone->request->destination;
    int error = clone_check_empty(file, &clone->destination_status);

    if (error != 0)
        return error;
    /* A length gave the file blocks of a size that may differ from the source's. */
    if (clone->destination_status.st_size != 0 && ftruncate(file, 0) != 0)
        return errno;
    error = clone_fill_admitted(clone);
    if (error == 0 && fsync(file) != 0)
        error = errno;
    if (error != 0)
        clone_empty(clone);
    return error;
}

int fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result)
{
    struct clone clone = {.request = request, .result = result, .reason = FILEOPS_FALLBACK_NOT_SUPPORTED};

    *result = (struct fileops_clone_result){0};
    int error = clone_check(&clone);
    if (error == 0)
        error = request->destination < 0 ? clone_into_name(&clone) : clone_into_file(&clone);
    return error == EDQUOT ? ENOSPC : error; /* a thin datastore's refquota: nobody has set hosts a quota */
}
