#include "clone.h"

#include "clone_internal.h"
#include "clone_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PIECE (UINT64_C(4) << 30) /* shared by one call, between two reports of progress */

const char *fileops_fallback_name(enum fileops_fallback reason)
{
    static const char *const names[FILEOPS_FALLBACK_COUNT] = {
        [FILEOPS_FALLBACK_OTHER_FILE_SYSTEM] = "other_file_system",
        [FILEOPS_FALLBACK_NOT_SUPPORTED] = "not_supported",
        [FILEOPS_FALLBACK_MISALIGNED] = "misaligned",
        [FILEOPS_FALLBACK_RECORD_SIZE] = "record_size",
        [FILEOPS_FALLBACK_SOURCE_DIRTY] = "source_dirty",
        [FILEOPS_FALLBACK_NO_RESERVATION] = "no_reservation",
        [FILEOPS_FALLBACK_UNPROVEN] = "unproven",
    };
    return (unsigned)reason < FILEOPS_FALLBACK_COUNT ? names[reason] : "unknown";
}

const char *fileops_clone_busy_text(enum fileops_clone_busy busy)
{
    static const char *const texts[FILEOPS_CLONE_BUSY_COUNT] = {
        [FILEOPS_CLONE_SOURCE_CHANGES] = "the source kept changing",
        [FILEOPS_CLONE_SOURCE_FILLED] = "another clone comes into the source, or failed and it is not empty yet",
        [FILEOPS_CLONE_DESTINATION_FILLED] = "another clone comes into the destination, or failed and it is not empty yet",
        [FILEOPS_CLONE_DESTINATION_CLONED] = "the destination is being cloned itself",
        [FILEOPS_CLONE_DESTINATION_WRITES] = "the destination is being written too much",
        [FILEOPS_CLONE_NOT_SETTLED] = "what was written or freed last is not in the pool yet, and it could not be waited for",
    };
    return (unsigned)busy < FILEOPS_CLONE_BUSY_COUNT && texts[busy] ? texts[busy] : "something else is being done with the files";
}

int clone_is_busy(struct clone *clone, enum fileops_clone_busy why)
{
    clone->result->busy = why;
    return EBUSY;
}

bool clone_goes_on(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    return !request->progress || request->progress(request->progress_context, clone->result->done, clone->length);
}

/* What tells that a file changed: each change of data sets ctime to the kernel's coarse clock. */
static bool same(const struct stat *one, const struct stat *other)
{
    return one->st_size == other->st_size && one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* Reads the status so that any later change shows: not within the tick of the clock in which it changed last. */
static int read_mark(int source, struct stat *status)
{
    for (;;) {
        struct timespec now;
        if (fstat(source, status) || clock_gettime(CLOCK_REALTIME_COARSE, &now))
            return errno;
        if (now.tv_sec != status->st_ctim.tv_sec || now.tv_nsec > status->st_ctim.tv_nsec)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
}

/* Whether what was found at the beginning is still so. */
static int unchanged(struct clone *clone)
{
    struct stat now;
    if (fstat(clone->source, &now))
        return errno;
    if (space_is_unfinished(clone->request->source_space, now.st_ino))
        return clone_is_busy(clone, FILEOPS_CLONE_SOURCE_FILLED);
    return same(&clone->source_status, &now) ? 0 : clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES);
}

static int refused(struct clone *clone)
{
    if (clone->reason == FILEOPS_FALLBACK_NO_RESERVATION)
        return ENOSPC;
    if (clone->reason == FILEOPS_FALLBACK_SOURCE_DIRTY)
        return clone_is_busy(clone, FILEOPS_CLONE_NOT_SETTLED);
    return clone->reason == FILEOPS_FALLBACK_OTHER_FILE_SYSTEM ? EXDEV : EOPNOTSUPP;
}

/* What can't be shared is copied. */
static int share_then_copy(struct clone *clone, uint64_t piece, const struct space_segment *counted, size_t count)
{
    int error = clone->only_copies ? EAGAIN : clone_by_sharing(clone, piece, counted, count);
    if (error != EAGAIN)
        return error;
    if (clone->request->mode == FILEOPS_CLONE_FAST)
        return refused(clone);
    if (clone->fresh && !clone->result->done) {
        if (ftruncate(clone->destination, 0))
            return errno;
        space_share_undo(&clone->share); /* copied is not shared */
    }
    error = clone_by_copying(clone, clone->result->done, clone->length - clone->result->done);
    return error;
}

static void begin_again(struct clone *clone)
{
    *clone->result = (struct fileops_clone_result){0};
    clone->reason = FILEOPS_FALLBACK_NOT_SUPPORTED;
}

/* All of a file was counted before it was shared, as its holes could have been filled until then. Those of the destination, which nobody
 * else can write, are the source's of that moment. In the source's books it stays counted: another clone may share what was filled since. (Asking ends a transaction
 * group on ZFS: not where no holes were seen.) */
static void give_back_holes(struct clone *clone, struct space_segment *data)
{
    struct space_share made = clone->share;
    if (!made.length || !made.destination_space)
        return;
    made.source_space = NULL;
    space_share_holes(&made, data, clone_find_data(clone->destination, 0, clone->length, data));
}

/* Where files are thick by default. */
static bool is_promised(const struct fileops_clone_request *request)
{
    return request->mode == FILEOPS_CLONE_FULL || (request->flags & FILEOPS_CLONE_PROMISED);
}

static bool on_zfs(int file)
{
    struct statfs file_system;
    return !fstatfs(file, &file_system) && file_system.f_type == ZFS_SUPER_MAGIC;
}

/* A whole file: as it is at the beginning, or, when it changes, as it is when it is shared in one call. */
static int clone_whole(struct clone *clone)
{
    struct space_segment *data = calloc(CLONE_MOST_SEGMENTS, sizeof *data);
    int error = data ? read_mark(clone->source, &clone->source_status) : ENOMEM;
    bool holes = false;
    clone->length = (uint64_t)clone->source_status.st_size;
    if (!error && clone->length) {
        const size_t count = clone_find_data(clone->source, 0, clone->length, data);
        holes = count != 1 || data[0].length != clone->length;
        error = share_then_copy(clone, PIECE, data, count);
    }
    if (!error)
        error = unchanged(clone);
    if (error == EBUSY) {
        const bool copied = clone->result->copied || clone->reason != FILEOPS_FALLBACK_NOT_SUPPORTED;
        const bool emptied = !ftruncate(clone->destination, 0);
        if (emptied)
            space_share_undo(&clone->share);
        else
            error = errno;
        if (emptied && !copied) {
            /* The source is locked for reading throughout one call (zfs_clone_range, xfs_file_remap_range): one moment of it. */
            struct stat after;
            begin_again(clone);
            /* Freed blocks must be on disk before others take their place, here too. Else it can only be copied, and that is no moment. */
            if (on_zfs(clone->destination) && space_settle(clone->request->destination_space))
                error = clone_is_busy(clone, FILEOPS_CLONE_NOT_SETTLED);
            else
                error = 0;
            if (!error && fstat(clone->source, &clone->source_status))
                error = errno;
            clone->length = (uint64_t)clone->source_status.st_size;
            const struct space_segment whole = {0, clone->length};
            if (!error && clone->length)
                error = clone_by_sharing(clone, UINT64_MAX, &whole, 1);
            if (error == EAGAIN)
                error = clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES);
            if (!error && (fstat(clone->source, &after) || after.st_size != clone->source_status.st_size))
                error = clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES);
            if (!error && holes && clone->length)
                give_back_holes(clone, data);
        }
    }
    /* Setting a size writes the last block, which is then no longer shared: only where it is needed. */
    struct stat made;
    if (!error && (fstat(clone->destination, &made) ||
                   ((uint64_t)made.st_size != clone->length && ftruncate(clone->destination, (off_t)clone->length))))
        error = errno;
    free(data);
    return error;
}

/* A part of a range; the result's counters go on from what was done before. */
static int clone_part(struct clone *clone, uint64_t from, uint64_t length, bool share)
{
    struct clone part = *clone;
    struct fileops_clone_result result = {0};
    int error = 0;
    if (!length)
        return 0;
    part.result = &result;
    part.source_offset += from;
    part.destination_offset += from;
    part.length = length;
    if (share) {
        struct space_segment *data = calloc(CLONE_MOST_SEGMENTS, sizeof *data);
        const size_t count = data ? clone_find_data(part.source, part.source_offset, length, data) : 0;
        /* What is shared here stays, should the source have changed since data was found: so all of it is counted. */
        const struct space_segment all = {part.source_offset, length};
        error = data ? share_then_copy(&part, PIECE, &all, 1) : ENOMEM;
        if (!error && part.share.length && !unchanged(&part))
            space_share_holes(&part.share, data, count);
        free(data);
    } else if (clone->request->mode == FILEOPS_CLONE_FAST) {
        error = EOPNOTSUPP;
    } else {
        part.reason = FILEOPS_FALLBACK_MISALIGNED;
        error = clone_by_copying(&part, 0, length);
    }
    clone->result->done += result.done;
    clone->result->cloned += result.cloned;
    clone->result->copied += result.copied;
    clone->result->holes += result.holes;
    for (int i = 0; i < FILEOPS_FALLBACK_COUNT; i++)
        clone->result->fallback[i] += result.fallback[i];
    if (result.left != FILEOPS_CLONE_UNTOUCHED)
        clone->result->left = result.left;
    if (result.busy != FILEOPS_CLONE_NOT_BUSY)
        clone->result->busy = result.busy;
    return error;
}

/* Aligned middle shared, head and tail copied. */
static int clone_range(struct clone *clone)
{
    int error = read_mark(clone->source, &clone->source_status);
    if (error)
        return error;
    const uint64_t unit = (uint64_t)clone->source_status.st_blksize, end = clone->source_offset + clone->length;
    const uint64_t size = (uint64_t)clone->source_status.st_size;
    if (end > size)
        return EINVAL;
    if (clone->source_offset % unit != clone->destination_offset % unit)
        return clone_part(clone, 0, clone->length, false) ?: unchanged(clone);
    uint64_t head = (unit - clone->source_offset % unit) % unit;
    head = head > clone->length ? clone->length : head;
    const bool to_the_end = end == size && clone->destination_offset + clone->length >= (uint64_t)clone->destination_status.st_size;
    const uint64_t tail = to_the_end ? 0 : (clone->length - head) % unit;
    if (clone->request->mode == FILEOPS_CLONE_FAST && (head || tail))
        return EOPNOTSUPP;
    /* The last record, should it not be whole: a client may append to it in the destination meanwhile, and OpenZFS looks at the size
     * only once. Shared with the destination's writers kept away. */
    const uint64_t last = tail ? 0 : (clone->length - head) % unit;
    error = clone_part(clone, 0, head, false);
    if (!error)
        error = clone_part(clone, head, clone->length - head - tail - last, true);
    clone->alone = true;
    if (!error)
        error = clone_part(clone, clone->length - last, last, true);
    clone->alone = false;
    if (!error)
        error = clone_part(clone, clone->length - tail, tail, false);
    return error ? error : unchanged(clone);
}

/* Shares one block with a file that is removed at once: whether it works is not to be known otherwise. */
static int try_sharing(struct clone *clone)
{
    const uint64_t unit = (uint64_t)clone->source_status.st_blksize;
    struct clone_place place;
    struct fileops_clone_request request = *clone->request;
    int error = clone_place_make(&request, &place);
    if (error)
        return error;
    clone->destination = place.file;
    clone->fresh = true;
    clone->source_offset = clone->source_offset / unit * unit;
    clone->destination_offset = 0;
    clone->length = clone->length < unit ? clone->length : unit;
    error = clone->length ? clone_by_sharing(clone, UINT64_MAX, NULL, 0) : 0;
    if (clone_place_end(&request, &place))
        space_share_undo(&clone->share);
    *clone->result = (struct fileops_clone_result){.busy = clone->result->busy};
    return error;
}

static int dry_run(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    struct stat status;
    struct statvfs file_system;
    const uint64_t needed = (uint64_t)clone->source_status.st_blocks * 512, size = clone->destination_offset + clone->length;
    if (request->destination < 0 && (request->flags & FILEOPS_CLONE_GUARDED) &&
        !fstatat(request->directory, request->name, &status, AT_SYMLINK_NOFOLLOW))
        return EEXIST;
    int error = request->destination_space ? try_sharing(clone) : EOPNOTSUPP;
    if (error == EAGAIN && request->mode == FILEOPS_CLONE_FAST)
        return refused(clone);
    const bool copies = error == EAGAIN;
    if (error && !copies)
        return error;
    const bool promised = is_promised(request) && request->destination_space;
    if (!copies && !promised)
        return 0;
    const int place = request->destination < 0 ? request->directory : request->destination;
    if (fstatvfs(place, &file_system))
        return errno;
    const uint64_t available = (uint64_t)file_system.f_bavail * file_system.f_frsize;
    const bool fits = !copies || available >= needed;
    return fits && (!promised || space_may_promise(request->destination_space, size, available)) ? 0 : ENOSPC;
}

static bool is_read_only(int file)
{
    struct statvfs file_system;
    return !fstatvfs(file, &file_system) && (file_system.f_flag & ST_RDONLY);
}

static int check(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    struct stat directory;
    const bool by_name = request->destination < 0;
    if (by_name && (!request->whole || !request->name || !request->name[0]))
        return EINVAL;
    if ((by_name || request->whole) && !request->destination_space) /* what can't be written has no books */
        return is_read_only(by_name ? request->directory : request->destination) ? EROFS : EINVAL;
    if (fstat(request->source, &clone->source_status))
        return errno;
    if (!S_ISREG(clone->source_status.st_mode))
        return EISDIR;
    if (space_is_unfinished(request->source_space, clone->source_status.st_ino))
        return clone_is_busy(clone, FILEOPS_CLONE_SOURCE_FILLED);
    if (by_name) {
        if (fstat(request->directory, &directory))
            return errno;
        if (!S_ISDIR(directory.st_mode))
            return ENOTDIR;
        clone->same_dataset = directory.st_dev == clone->source_status.st_dev;
    } else {
        if (fstat(request->destination, &clone->destination_status))
            return errno;
        if (!S_ISREG(clone->destination_status.st_mode))
            return EISDIR;
        clone->same_dataset = clone->destination_status.st_dev == clone->source_status.st_dev;
        const bool one_file = clone->same_dataset && clone->destination_status.st_ino == clone->source_status.st_ino;
        if (one_file && request->whole)
            return EINVAL;
        if (!request->whole &&
            (request->source_offset > INT64_MAX - request->length || request->destination_offset > INT64_MAX - request->length))
            return EINVAL;
        if (one_file && request->source_offset < request->destination_offset + request->length &&
            request->destination_offset < request->source_offset + request->length)
            return EINVAL;
    }
    if (request->whole) {
        clone->length = (uint64_t)clone->source_status.st_size;
        return 0;
    }
    if (space_is_unfinished(request->destination_space, clone->destination_status.st_ino))
        return clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_FILLED);
    clone->source_offset = request->source_offset;
    clone->destination_offset = request->destination_offset;
    clone->length = request->length;
    return request->source_offset + request->length > (uint64_t)clone->source_status.st_size ? EINVAL : 0;
}

static int into_name(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    struct clone_place place = {.file = -1};
    struct stat status;
    int error = 0;
    if ((request->flags & FILEOPS_CLONE_GUARDED) && !fstatat(request->directory, request->name, &status, AT_SYMLINK_NOFOLLOW))
        return EEXIST;
    error = clone_place_make(request, &place);
    if (error)
        return error;
    clone->destination = place.file;
    clone->fresh = true;
    if (fstat(place.file, &clone->destination_status))
        error = errno;
    if (!error)
        error = clone_whole(clone);
    if (!error && is_promised(request))
        error = space_promise_clone(request->destination_space, place.file, clone->length, true);
    if (!error)
        error = clone_place_put(request, &place, &clone->source_status);
    if (error && !place.name[0]) /* it has its name already */
        clone->result->left = FILEOPS_CLONE_UNKNOWN;
    if (clone_place_end(request, &place))
        space_share_undo(&clone->share);
    return error;
}

/* All of an open file. It is empty until it is whole. */
static int into_file(struct clone *clone)
{
    const struct fileops_clone_request *request = clone->request;
    const uint64_t inode = clone->destination_status.st_ino;
    int error = 0;
    if (request->mode == FILEOPS_CLONE_FAST) {
        /* What is refused anyway need not empty the file before. */
        struct clone trial = *clone;
        if (clone->destination_status.st_size && on_zfs(clone->destination) && !atomic_load(&request->destination_space->has_holder))
            return clone_is_busy(clone, FILEOPS_CLONE_NOT_SETTLED); /* what is freed could not be waited for (below) */
        error = try_sharing(&trial);
        if (error)
            return error == EAGAIN ? refused(&trial) : error;
        const uint64_t data = (uint64_t)clone->source_status.st_blocks * 512;
        if (is_promised(request) && clone->destination_status.st_size)
            error = space_check_promise(request->destination_space, clone->destination, clone->length, data < clone->length ? data : clone->length);
        if (error)
            return error;
    }
    error = space_unfinished_begin(request->destination_space, clone->destination);
    if (error)
        return error == EBUSY ? clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_FILLED) : error;
    /* A thick file stays thick as large as it becomes, as one does that is to be thick by default, or all stays as it is. */
    if (request->mode == FILEOPS_CLONE_FULL)
        error = space_promise_clone(request->destination_space, clone->destination, clone->length, true);
    if (!error)
        error = space_grow_promise(request->destination_space, inode, clone->length);
    if (!error)
        error = space_empty(request->destination_space, clone->destination, inode);
    if (error) {
        struct stat now;
        const bool untouched = !fstat(clone->destination, &now) && now.st_size == clone->destination_status.st_size;
        if (space_unfinished_end(request->destination_space, inode, untouched) || !untouched)
            clone->result->left = FILEOPS_CLONE_UNKNOWN;
        return error == EBUSY ? clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_CLONED) : error;
    }
    /* Freed blocks must be on disk before others take their place (clone_share.c). Copies need not that. */
    if (clone->destination_status.st_size && on_zfs(clone->destination) && space_settle(request->destination_space)) {
        clone->only_copies = true;
        clone->reason = FILEOPS_FALLBACK_SOURCE_DIRTY;
    }
    clone->fresh = true;
    error = clone_whole(clone);
    /* The source may have grown. What only shares is promised now: before, what it shares would be needed twice for a while. */
    if (!error && is_promised(request))
        error = space_promise_clone(request->destination_space, clone->destination, clone->length, true);
    if (!error)
        error = space_grow_promise(request->destination_space, inode, clone->length);
    if (!error && fsync(clone->destination))
        error = errno;
    const bool right = !error || !space_empty(request->destination_space, clone->destination, inode);
    if (error && right)
        space_share_undo(&clone->share);
    const int finished = space_unfinished_end(request->destination_space, inode, right);
    clone->result->left = right && !finished ? FILEOPS_CLONE_EMPTY : FILEOPS_CLONE_UNKNOWN;
    return error ? error : finished;
}

static int into_range(struct clone *clone)
{
    struct fileops_space *space = clone->request->destination_space;
    int error = 0;
    /* A thick file that becomes larger, or one that is to be thick by default. */
    const uint64_t end = clone->destination_offset + clone->length;
    if (is_promised(clone->request) && end > (uint64_t)clone->destination_status.st_size)
        error = space_promise_clone(space, clone->destination, end, false);
    if (!error && space)
        error = space_grow_promise(space, clone->destination_status.st_ino, end);
    if (!error && clone->length)
        error = clone_range(clone);
    if (!error && fsync(clone->destination))
        error = errno;
    if (space)
        space_note_growth(space, clone->destination_status.st_ino);
    return error;
}

int fileops_clone(const struct fileops_clone_request *request, struct fileops_clone_result *result)
{
    struct clone clone = {.request = request, .result = result, .source = request->source, .destination = request->destination,
                          .reason = FILEOPS_FALLBACK_NOT_SUPPORTED};
    *result = (struct fileops_clone_result){0};
    int error = check(&clone);
    if (!error && (request->flags & FILEOPS_CLONE_DRY_RUN))
        error = dry_run(&clone);
    else if (!error && request->destination < 0)
        error = into_name(&clone);
    else if (!error)
        error = request->whole ? into_file(&clone) : into_range(&clone);
    if (!error)
        result->left = FILEOPS_CLONE_UNTOUCHED;
    if (error != EBUSY)
        result->busy = FILEOPS_CLONE_NOT_BUSY;
    return error;
}
