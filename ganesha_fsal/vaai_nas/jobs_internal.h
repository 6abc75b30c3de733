/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_JOBS_INTERNAL_H
#define VAAI_NAS_JOBS_INTERNAL_H

#include <pthread.h>
#include <time.h>

#include "jobs.h"

/* What jobs.c (what is asked), job_table.c and job_run.c (the threads) share. */

#define PLACES 3
#define WORKERS_MAX 64u /* of each of the two kinds */

struct job {
    struct job *older;       /* in the table, newest first */
    struct job *queued_next; /* in its queue, oldest first */
    struct vaai_nas_jobs *jobs;
    struct vaai_nas_order *order; /* NULL once it has ended */
    struct vaai_nas_clone clone;
    dev_t device; /* of the destination: a file, or the directory the name is in */
    ino_t inode;
    uid_t owner; /* who asked, squashed */
    struct timespec began, ended;
    bool cancelled;
    bool given_up; /* cancelled because nobody may wait for it longer */
    uint16_t source_export_id;
    struct vaai_nas_job shown;
};

struct queue {
    struct job *head, **tail;
};

struct vaai_nas_jobs {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_counters *counters;
    uint32_t do_milliseconds, cancel_milliseconds;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a queue is not empty, or it ends */
    pthread_cond_t ended; /* some job has ended */
    struct job *newest;
    struct queue fast, any;                     /* clones that never copy, and those that may */
    size_t known, active;
    size_t waiting[PLACES]; /* calls, by what they wait for */
    uint64_t first_id, next_id; /* from the time of the start on: another daemon's are others */
    bool stopping;
    unsigned int workers;
    pthread_t threads[2 * WORKERS_MAX];
};

static inline bool job_is_active(const struct job *job)
{
    return job->shown.state == VAAI_NAS_WAITING || job->shown.state == VAAI_NAS_RUNNING;
}

bool job_has_request_id(const struct vaai_nas_clone *clone);

/* The same in all but the request id. */
bool job_is_same_request(const struct vaai_nas_clone *one, const struct vaai_nas_clone *other);

/* These want the lock held. */

/* The job as it is at this moment. */
void job_show(const struct job *job, struct vaai_nas_job *shown);

/* NULL for none. By request id: also where the clone has none. By destination: the latest. */
struct job *jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone);
struct job *jobs_find_id(struct vaai_nas_jobs *jobs, uint64_t id);
struct job *jobs_find_destination(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, const char *name);

/* A new job in the table and in its queue; the oldest that has ended makes room. NULL without memory. */
struct job *jobs_enter(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order);

void jobs_enqueue(struct vaai_nas_jobs *jobs, struct job *job);

/* Starts `workers` threads for all clones, and as many for fast ones alone. Their number is jobs->workers then. */
void jobs_start_workers(struct vaai_nas_jobs *jobs, unsigned int workers);

void jobs_free_order(const struct vaai_nas_adapter *adapter, struct vaai_nas_order *order);

#endif
