/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Copies by reading and writing. Holes stay holes. */
#include "clone_internal.h"

#include "retry.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK (UINT64_C(1) << 20)

static int copy_write_all(struct clone *clone, const char *data, uint64_t length, uint64_t at)
{
    const struct fileops_dataset *dataset = clone->request->destination_dataset;
    struct fileops_retry retry = {0};

    for (uint64_t done = 0; done < length;) {
        const ssize_t written = pwrite(clone->destination, data + done, length - done, (off_t)(at + done));
        const int error = written < 0 ? errno : written == 0 ? EIO : 0;
        if (written > 0)
            done += (uint64_t)written;
        else if (error != EINTR && !fileops_may_retry(dataset, error, clone->destination, &retry))
            return error;
    }
    return 0;
}

static int copy_data(struct clone *clone, char *buffer, uint64_t from, uint64_t to)
{
    struct fileops_clone_result *result = clone->result;

    for (uint64_t at = from; at < to;) {
        const ssize_t got = pread(clone->request->source, buffer, to - at < CHUNK ? to - at : CHUNK, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EBUSY; /* the file became shorter */
        const int error = copy_write_all(clone, buffer, (uint64_t)got, at);
        if (error != 0)
            return error;
        at += (uint64_t)got;
        result->copied += (uint64_t)got;
        result->fallback[clone->reason] += (uint64_t)got;
        result->done += (uint64_t)got;
        if (!clone_continues(clone))
            return ECANCELED;
    }
    return 0;
}

/* The next data from `from` on ends at *end. Returns its start, or `length`. A file system without hole information has none. */
static uint64_t copy_find_data(int source, uint64_t from, uint64_t length, uint64_t *end)
{
    const off_t data = lseek(source, (off_t)from, SEEK_DATA);
    const uint64_t begin = data >= 0 ? (uint64_t)data : errno == ENXIO ? length : from;
    const off_t hole = begin < length ? lseek(source, (off_t)begin, SEEK_HOLE) : -1;

    *end = hole > (off_t)begin && (uint64_t)hole < length ? (uint64_t)hole : length;
    return begin < length ? begin : length;
}

int clone_by_copying(struct clone *clone, uint64_t from)
{
    char *buffer = malloc(CHUNK);
    int error = buffer == NULL ? ENOMEM : 0;

    while (from < clone->length && error == 0) {
        uint64_t end;
        const uint64_t begin = copy_find_data(clone->request->source, from, clone->length, &end);
        clone->result->holes += begin - from;
        clone->result->done += begin - from;
        if (begin < clone->length)
            error = copy_data(clone, buffer, begin, end);
        else if (!clone_continues(clone))
            error = ECANCELED;
        from = begin < clone->length ? end : clone->length;
    }
    free(buffer);
    return error;
}
