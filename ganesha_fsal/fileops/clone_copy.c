/* Copies by reading and writing, holes kept. */
#include "clone_internal.h"
#include "growth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (UINT64_C(1) << 20)

size_t clone_find_data(int source, uint64_t offset, uint64_t length, struct space_segment *segments)
{
    const uint64_t end = offset + length;
    size_t count = 0;
    while (offset < end) {
        const off_t data = lseek(source, (off_t)offset, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        const off_t hole = data < 0 ? -1 : lseek(source, data, SEEK_HOLE);
        const uint64_t from = data < 0 ? offset : (uint64_t)data;
        if (from >= end)
            break;
        uint64_t to = hole < 0 || (uint64_t)hole <= from ? end : (uint64_t)hole;
        to = to > end || count == CLONE_MOST_SEGMENTS - 1 ? end : to;
        segments[count++] = (struct space_segment){from, to - from};
        offset = to;
    }
    return count;
}

/* One change of the destination, told to its books, and done again where a thick file meets a pool that is busy. */
static int change(struct clone *clone, enum fileops_change_kind kind, uint64_t at, const char *data, uint64_t length)
{
    struct fileops_space *space = clone->request->destination_space;
    struct fileops_change told;
    uint64_t done = 0;
    int error = space ? space_change_begin(space, clone->destination_status.st_ino, kind, at, length, clone->fresh, &told) : 0;
    if (error)
        return error == EBUSY ? clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_CLONED) : error;
    clone_touches(clone);
    for (unsigned attempt = 0;; attempt++) {
        error = 0;
        if (kind == FILEOPS_DEALLOCATE)
            error = fallocate(clone->destination, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)length) ? errno : 0;
        while (kind == FILEOPS_WRITE && done < length && !error) {
            fileops_growth_begin(clone->destination_status.st_dev, clone->destination_status.st_ino, false);
            const ssize_t written = pwrite(clone->destination, data + done, length - done, (off_t)(at + done));
            const int failed = errno;
            fileops_growth_end(clone->destination_status.st_dev, clone->destination_status.st_ino);
            if (written > 0)
                done += (uint64_t)written;
            else if (written == 0 || failed != EINTR)
                error = written ? failed : EIO;
        }
        if (error != ENOSPC || !space || fileops_change_retry(space, &told, attempt))
            break;
    }
    if (space)
        fileops_change_end(space, &told, error);
    return error;
}

static int copy_data(struct clone *clone, char *buffer, uint64_t from, uint64_t length)
{
    for (uint64_t at = from; at < from + length;) {
        const uint64_t wanted = from + length - at < CHUNK ? from + length - at : CHUNK;
        const ssize_t got = pread(clone->source, buffer, wanted, (off_t)(clone->source_offset + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            return clone_is_busy(clone, FILEOPS_CLONE_SOURCE_CHANGES); /* it became shorter */
        const int error = change(clone, FILEOPS_WRITE, clone->destination_offset + at, buffer, (uint64_t)got);
        if (error)
            return error;
        at += (uint64_t)got;
        clone->result->copied += (uint64_t)got;
        clone->result->fallback[clone->reason] += (uint64_t)got;
        clone->result->done += (uint64_t)got;
        if (!clone_goes_on(clone))
            return ECANCELED;
    }
    return 0;
}

static int keep_hole(struct clone *clone, char *buffer, uint64_t from, uint64_t length)
{
    int error = 0;
    if (!clone->fresh) {
        error = change(clone, FILEOPS_DEALLOCATE, clone->destination_offset + from, NULL, length);
        if (error == EOPNOTSUPP) {
            error = 0;
            memset(buffer, 0, CHUNK);
            for (uint64_t at = from; at < from + length && !error; at += CHUNK)
                error = change(clone, FILEOPS_WRITE, clone->destination_offset + at, buffer,
                               from + length - at < CHUNK ? from + length - at : CHUNK);
        }
    }
    if (!error) {
        clone->result->holes += length;
        clone->result->done += length;
        if (!clone_goes_on(clone))
            error = ECANCELED;
    }
    return error;
}

int clone_by_copying(struct clone *clone, uint64_t from, uint64_t length)
{
    const uint64_t end = from + length;
    char *buffer = malloc(CHUNK);
    int error = buffer ? 0 : ENOMEM;

    while (from < end && !error) {
        const off_t data = lseek(clone->source, (off_t)(clone->source_offset + from), SEEK_DATA);
        uint64_t next = data < 0 ? (errno == ENXIO ? end : from) : (uint64_t)data - clone->source_offset;
        next = next > end ? end : next;
        if (next > from) {
            error = keep_hole(clone, buffer, from, next - from);
            from = next;
            continue;
        }
        const off_t hole = lseek(clone->source, (off_t)(clone->source_offset + from), SEEK_HOLE);
        uint64_t to = hole < 0 ? end : (uint64_t)hole - clone->source_offset;
        to = to > end || to <= from ? end : to;
        error = copy_data(clone, buffer, from, to - from);
        from = to;
    }
    free(buffer);
    /* A range that ends in a hole beyond the destination's end makes it longer too. A whole file gets its size in the end. */
    if (error || clone->fresh)
        return error;
    error = fileops_extend(clone->request->destination_space, clone->destination, clone->destination_offset + end);
    return error == EBUSY ? clone_is_busy(clone, FILEOPS_CLONE_DESTINATION_WRITES) : error;
}
