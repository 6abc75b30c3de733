/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "retry.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define MOST_MILLISECONDS 10000
#define PAUSE_MILLISECONDS 100
#define LEAST_MILLISECONDS 5 /* of a group that was waited for */
#define MOST_WAITING 32u     /* each keeps a thread of the server */

static atomic_uint waiting;

static int64_t retry_milliseconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* SEEK_HOLE in a file with changes ends their transaction group (zfs_dmu_offset_next_sync); in another file it costs nothing. */
static void retry_wait_for_group(int file)
{
    const int64_t begun = retry_milliseconds_now();

    if (file >= 0)
        lseek(file, 0, SEEK_HOLE);
    if (retry_milliseconds_now() - begun < LEAST_MILLISECONDS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MILLISECONDS * 1000 * 1000}, NULL);
}

bool fileops_may_retry(const struct fileops_dataset *dataset, int error, int file, struct fileops_retry *retry)
{
    if ((error != ENOSPC && error != EDQUOT) || !fileops_dataset_is_thick(dataset))
        return false;
    const int64_t now = retry_milliseconds_now();
    if (retry->begun == 0)
        retry->begun = now;
    retry->exhausted = now - retry->begun >= MOST_MILLISECONDS;
    if (retry->exhausted)
        return false;
    retry->exhausted = atomic_fetch_add(&waiting, 1) >= MOST_WAITING;
    if (!retry->exhausted)
        retry_wait_for_group(file);
    atomic_fetch_sub(&waiting, 1);
    return !retry->exhausted;
}
