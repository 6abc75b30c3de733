/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A dataset from inside: what the files of fileops share. */
#ifndef FILEOPS_DATASET_INTERNAL_H
#define FILEOPS_DATASET_INTERNAL_H

#include "admission.h"
#include "dataset.h"

#include <pthread.h>
#include <stdatomic.h>

struct fileops_dataset {
    char *root;
    dev_t device;
    atomic_uint references;
    atomic_uint_least64_t thick_size; /* 0: thin */
    pthread_rwlock_t sharing;         /* read: while a step of a clone shares; write: while it becomes thick */
    struct admission admission;
    atomic_uint_least64_t shared_by_clones, synced_of_clones; /* bytes, counted up: cloned into it, and of these on disk */

    pthread_mutex_t lock; /* of what follows; held for no system call that waits */
    uint64_t count;       /* number of the latest count of files for admission; older ones end */
    int count_error;      /* with which it ended */
    bool counting_shared;
    int shared_error;
    struct fileops_dataset_shared shared;
    uint64_t synced_group;     /* the latest transaction group that statistics have seen, */
    int64_t synced_group_seen; /* and when they saw it first: UNIX seconds */
    int64_t sync_requested;    /* when statistics last hastened one: seconds of the monotonic clock */
    bool syncing;              /* they do now, by this descriptor */
    int sync_file;
    pthread_cond_t synced; /* of `lock`: no longer */
};

/* Runs `work` in a thread of its own, which has a reference and puts it. 0, or what pthread_create(3) says. */
int dataset_run_in_background(struct fileops_dataset *dataset, void *(*work)(void *dataset));

/* Nobody but work in the background has a reference: it ends. */
bool dataset_is_unused(struct fileops_dataset *dataset);

#endif
