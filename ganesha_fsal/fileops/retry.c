/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "retry.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define MOST_MILLISECONDS 10000
#define PAUSE_MILLISECONDS 100
#define MOST_WAITING 32u /* each keeps a thread of the server */

static atomic_uint waiting;

bool fileops_may_retry(const struct fileops_dataset *dataset, int error, struct fileops_retry *retry)
{
    struct timespec now;

    if ((error != ENOSPC && error != EDQUOT) || !fileops_dataset_is_thick(dataset))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t milliseconds = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (retry->begun == 0)
        retry->begun = milliseconds;
    retry->exhausted = milliseconds - retry->begun >= MOST_MILLISECONDS;
    if (retry->exhausted)
        return false;
    retry->exhausted = atomic_fetch_add(&waiting, 1) >= MOST_WAITING;
    if (!retry->exhausted)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MILLISECONDS * 1000 * 1000}, NULL);
    atomic_fetch_sub(&waiting, 1);
    return !retry->exhausted;
}
