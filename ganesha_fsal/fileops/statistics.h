/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Space of a file. */
#pragma once

#include "dataset.h"

#include <time.h>

struct fileops_statistics {
    uint64_t total;     /* bytes: its size */
    uint64_t allocated; /* bytes of its blocks as st_blocks counts them: compressed, with all copies, shared ones in full */
    uint64_t unique;    /* of these, bytes that block cloning shares with no other file or zvol */
    bool unique_exact;  /* false: `unique` is an upper bound, because the module is missing, the count is not complete, or a change happened meanwhile */
    uint64_t snapshot;  /* of the allocated: a snapshot also holds them */
    uint64_t deduplicated; /* of the allocated: deduplicated, with unknown other owners */
    uint64_t reserved;     /* its size in a thick dataset, else 0 */
    uint64_t as_of;        /* UNIX seconds: the pool had these figures at this time or later */
};

/* Reads them for an open file. Waits for the count until `until` of the monotonic clock.
 * The figures are of the last synced state of the pool. If the file has newer changes, the call first ends their transaction group,
 * once in 5 s for each dataset. Otherwise the figures are those before the changes. A longer count continues in the background, and callers for the same file join it.
 * Until its end `unique` is an upper bound.
 * EISDIR: not a regular file. */
int fileops_statistics(struct fileops_dataset *dataset, int file, const struct timespec *until,
                       struct fileops_statistics *statistics);

/* The same without counting: `unique` is an upper bound. */
int fileops_sizes(struct fileops_dataset *dataset, int file, struct fileops_statistics *statistics);
