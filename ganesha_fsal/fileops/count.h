/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Counts the space of single files' blocks, in the background. A count holds no lock while it queries the kernel module. */
#pragma once

#include "space_query.h"

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct fileops_dataset;

#define COUNTS_RUNNING 8 /* of a dataset, at most */
#define COUNTS_KNOWN 16  /* running, and ended ones that took long */

/* Guarded by the dataset's lock; the thread of a running count alone uses `file`. */
struct count {
    struct fileops_dataset *dataset;
    ino_t inode;
    bool running, cancelled;
    bool exact; /* it ended, and its figures are all of one state of the pool */
    unsigned int waiting;
    int file, error;
    struct timespec changed; /* the file, before the count began */
    uint64_t size;
    uint64_t table;             /* changes of the pools' reference tables, when it began */
    uint64_t began, took;       /* nanoseconds of the monotonic clock */
    int64_t as_of;              /* UNIX seconds; 0: nothing is counted yet */
    struct space_figures total; /* so far */
};

struct count_result {
    struct space_figures figures;
    int64_t as_of;
    bool exact;
};

/* Joins the running count of an open file, or begins one, and waits for its end until `until` of the monotonic clock. A count that took more than a second is
 * used again for ten times its duration; it is then exact only if neither the file nor a reference table has changed after its begin.
 * Errors: EOPNOTSUPP as space_query(); EAGAIN: too many counts run, or the count was cancelled; the kernel's errors. */
int count_file(struct fileops_dataset *dataset, int file, const struct stat *status, const struct timespec *until,
               struct count_result *result);

/* Cancels all running counts. With the dataset's lock. */
void count_cancel_all(struct fileops_dataset *dataset);
bool count_is_any_running(const struct fileops_dataset *dataset);

void count_add(struct space_figures *sum, const struct space_figures *more);
