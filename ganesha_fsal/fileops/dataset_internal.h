/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Internals of a dataset, shared by the files of fileops. */
#pragma once

#include "admission.h"
#include "count.h"
#include "dataset.h"

#include <pthread.h>
#include <stdatomic.h>

/* Transaction groups, for statistics. */
struct dataset_groups {
    uint64_t seen;     /* the latest, */
    int64_t seen_at;   /* and when it was seen first: UNIX seconds */
    int64_t requested; /* time of the last request to end one: seconds of the monotonic clock */
    bool syncing;      /* such a request is running */
};

#define INTERLOCK_PLACES 64u /* 2^6 */

/* interlock.c */
struct interlock_place {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned int freeing, waiting_to_free, steps;
};

/* Counts of shared blocks. */
struct shared_counts {
    uint64_t number;      /* of the latest count; older ones end and store nothing */
    unsigned int running; /* with older ones */
    bool counting;        /* the latest one */
    int error;
    struct fileops_dataset_shared result;
};

struct fileops_dataset {
    char *root;
    dev_t device;
    atomic_uint references, background; /* those of threads in the background are in both */
    atomic_uint_least64_t thick_size; /* 0: thin */
    pthread_rwlock_t sharing;         /* read: while a step of a clone shares; write: while it becomes thick */
    struct interlock_place places[INTERLOCK_PLACES];
    struct admission admission;
    /* Bytes, counted up: cloned into it, of these on disk, and those after which the available space is read again. */
    atomic_uint_least64_t shared_by_clones, synced_of_clones, pace_next_check;

    pthread_mutex_t lock; /* of the members below; held for no blocking system call */
    uint64_t count;       /* number of the latest count of files for admission; older ones end */
    int count_error;      /* result of the count */
    struct shared_counts shared;
    struct dataset_groups groups;
    struct count counts[COUNTS_KNOWN];
    pthread_cond_t changed; /* of `lock`: a count or a transaction group has ended */
};

/* Runs `work` in a new thread, with a reference; `work` calls dataset_end_background() at its end. 0, or the error of pthread_create(3). */
int dataset_run_in_background(struct fileops_dataset *dataset, void *(*work)(void *argument), void *argument);
void dataset_end_background(struct fileops_dataset *dataset);

/* Only background work still has references: it must end. */
bool dataset_is_unused(struct fileops_dataset *dataset);

/* interlock.c */
void interlock_init(struct fileops_dataset *dataset);
void interlock_destroy(struct fileops_dataset *dataset);
