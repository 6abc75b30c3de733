/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <pthread.h>
#include <time.h>

#include "jobs.h"

/* Shared by jobs.c (requests), job_table.c and job_run.c (lanes and their threads). */

#define WORKERS_MAX 16u

struct job {
    struct job *older;       /* in the table, newest first */
    struct job *queued_next; /* in its lane, oldest first */
    struct vaai_nas_jobs *jobs;
    struct lane *lane;
    struct vaai_nas_order *order; /* NULL after its end */
    struct vaai_nas_clone clone;
    dev_t device; /* of the destination: the file, or the directory of the name */
    ino_t inode;
    uid_t owner;
    struct timespec began;
    bool cancelled;
    bool given_up; /* cancelled because its caller cannot wait longer */
    uint16_t source_export_id;
    struct vaai_nas_job shown;
};

/* Clones between two pools, in one direction. Lanes exist as long as the service: pools are few. */
struct lane {
    struct lane *next;
    struct vaai_nas_jobs *jobs;
    char source[VAAI_NAS_POOL_SIZE], destination[VAAI_NAS_POOL_SIZE];
    struct job *head;    /* waiting, oldest first */
    pthread_cond_t work; /* a job may be startable, or the service ends */
    size_t active;       /* jobs waiting and running */
    size_t callers;      /* calls that wait for jobs of this lane */
    size_t running[2];   /* by clone.fast */
    unsigned int threads, idle;
    pthread_t thread[2 * WORKERS_MAX];
};

struct vaai_nas_jobs {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_counters *counters;
    uint32_t do_milliseconds, cancel_milliseconds;
    unsigned int workers; /* of a lane, for each of the two kinds of clones */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a job has ended */
    struct job *newest;
    struct lane *lanes;
    size_t known;
    size_t callers;             /* of all lanes */
    uint64_t first_id, next_id; /* begin with the time of the start: ids of earlier daemons are smaller */
    bool stopping;
};

static inline bool job_is_active(const struct job *job)
{
    return job->shown.state == VAAI_NAS_WAITING || job->shown.state == VAAI_NAS_RUNNING;
}

bool job_has_request_id(const struct vaai_nas_clone *clone);

/* Compares all but the request id. */
bool job_is_same_request(const struct vaai_nas_clone *clone, const struct vaai_nas_clone *other);

/* The functions below need the lock. */

/* The latest job, or NULL. */
struct job *jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone);
struct job *jobs_find_id(struct vaai_nas_jobs *jobs, uint64_t id);
struct job *jobs_find_destination(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, const char *name);

size_t jobs_active_of_host(const struct vaai_nas_jobs *jobs, const struct lane *lane, const char *host);

/* A new job in the table and in the lane's queue. Removes the oldest ended job if the table is full. NULL: no memory or no thread. */
struct job *jobs_enter(struct vaai_nas_jobs *jobs, struct lane *lane, struct vaai_nas_order *order);

/* The order's lane, made if needed. NULL: no memory. */
struct lane *lane_find(struct vaai_nas_jobs *jobs, const struct vaai_nas_order *order);

/* Queues the job for its lane's threads. false: the lane has no thread, and none can be started. */
bool lane_enqueue(struct lane *lane, struct job *job);

/* Cancels the job. A waiting job ends immediately: the lock is released meanwhile. */
void job_cancel(struct job *job);

/* Does not need the lock. */
void jobs_free_order(const struct vaai_nas_adapter *adapter, struct vaai_nas_order *order);
