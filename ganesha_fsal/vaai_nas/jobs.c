/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* What is asked of the jobs: to be submitted, waited for, shown, cancelled. */
#include "jobs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WORKERS 4u
/* Calls that wait keep a thread of the NFS server each, of which ntirpc has 200 (RPC_Ioq_ThrdMax). */
#define WAITING_FAST_MAX 64u /* for fast clones that they asked for */
#define WAITING_ANY_MAX 32u  /* for others that they asked for */
#define WAITING_LATER_MAX 32u /* for jobs that they ask about or cancel */

struct vaai_nas_jobs *vaai_nas_jobs_new(const struct vaai_nas_service_options *options, struct vaai_nas_counters *counters)
{
    struct vaai_nas_jobs *jobs = calloc(1, sizeof(*jobs));
    pthread_condattr_t monotonic;
    struct timespec now;

    if (jobs == NULL)
        return NULL;
    jobs->adapter = options->adapter;
    jobs->do_milliseconds = options->do_milliseconds != 0 ? options->do_milliseconds : VAAI_NAS_DO_MAX_MILLISECONDS;
    jobs->cancel_milliseconds = options->cancel_milliseconds != 0 ? options->cancel_milliseconds : VAAI_NAS_WAIT_MAX_MILLISECONDS;
    jobs->counters = counters;
    jobs->fast.tail = &jobs->fast.head;
    jobs->any.tail = &jobs->any.head;
    clock_gettime(CLOCK_REALTIME, &now);
    jobs->first_id = jobs->next_id = ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) << 20;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&jobs->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    jobs_start_workers(jobs, options->workers != 0 ? options->workers : DEFAULT_WORKERS);
    if (jobs->workers == 0) {
        vaai_nas_jobs_free(jobs);
        return NULL;
    }
    return jobs;
}

void vaai_nas_jobs_free(struct vaai_nas_jobs *jobs)
{
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->stopping = true;
    for (struct job *job = jobs->newest; job != NULL; job = job->older)
        job->cancelled = true;
    pthread_cond_broadcast(&jobs->work);
    pthread_mutex_unlock(&jobs->lock);
    for (unsigned int i = 0; i < jobs->workers; i++)
        pthread_join(jobs->threads[i], NULL);
    while (jobs->newest != NULL) {
        struct job *job = jobs->newest;
        jobs->newest = job->older;
        free(job);
    }
    pthread_cond_destroy(&jobs->work);
    pthread_cond_destroy(&jobs->ended);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

/* The functions below to the next comment of this kind want the lock held. */

static bool is_of_another_daemon(const struct vaai_nas_jobs *jobs, uint64_t id)
{
    return id < jobs->first_id || id >= jobs->next_id;
}

struct timespec vaai_nas_moment_in(uint32_t milliseconds)
{
    struct timespec moment;

    clock_gettime(CLOCK_MONOTONIC, &moment);
    moment.tv_sec += milliseconds / 1000;
    moment.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (moment.tv_nsec >= 1000000000) {
        moment.tv_sec++;
        moment.tv_nsec -= 1000000000;
    }
    return moment;
}

enum place { PLACE_FAST, PLACE_ANY, PLACE_LATER };

static const size_t places[PLACES] = {
    [PLACE_FAST] = WAITING_FAST_MAX,
    [PLACE_ANY] = WAITING_ANY_MAX,
    [PLACE_LATER] = WAITING_LATER_MAX,
};

static enum place place_of(const struct vaai_nas_clone *clone)
{
    return clone->fast ? PLACE_FAST : PLACE_ANY;
}

static bool take_place(struct vaai_nas_jobs *jobs, enum place place)
{
    if (jobs->waiting[place] >= places[place])
        return false;
    jobs->waiting[place]++;
    return true;
}

/* In a place. A job that others wait for may be forgotten meanwhile: it is looked up anew after every wait. */
static struct job *wait_in_place(struct vaai_nas_jobs *jobs, uint64_t id, uint32_t milliseconds)
{
    const struct timespec until = vaai_nas_moment_in(milliseconds);
    struct job *job = jobs_find_id(jobs, id);

    while (job != NULL && job_is_active(job) && pthread_cond_timedwait(&jobs->ended, &jobs->lock, &until) == 0)
        job = jobs_find_id(jobs, id);
    return jobs_find_id(jobs, id);
}

/* Does not wait where all places are taken. */
static struct job *wait_for(struct vaai_nas_jobs *jobs, uint64_t id, enum place place, uint32_t milliseconds)
{
    struct job *job = jobs_find_id(jobs, id);

    if (job == NULL || !job_is_active(job) || milliseconds == 0 || !take_place(jobs, place))
        return job;
    job = wait_in_place(jobs, id, milliseconds);
    jobs->waiting[place]--;
    return job;
}

/* The job to wait for; NULL with *status. *entered: the order is the job's now. */
static struct job *find_or_enter(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, enum vaai_nas_status *status,
                                 char reason[VAAI_NAS_REASON_SIZE], bool *entered)
{
    struct job *job = jobs_find_request(jobs, &order->clone);

    *entered = false;
    if (job != NULL) {
        if (job_is_same_request(&job->clone, &order->clone))
            return job;
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the request id was used for another request; nothing was done: use a new one");
        *status = VAAI_NAS_EXISTS;
        return NULL;
    }
    job = jobs_find_destination(jobs, order->destination.device, order->destination.inode, order->clone.name);
    if (job != NULL && job_is_active(job)) {
        if (!job_has_request_id(&order->clone) &&
            job_is_same_request(&job->clone, &order->clone))
            return job;
        snprintf(reason, VAAI_NAS_REASON_SIZE, "job %llu writes the destination; nothing was done: wait for it or cancel it",
                 (unsigned long long)job->shown.id);
        *status = VAAI_NAS_BUSY;
        return NULL;
    }
    if (jobs->active >= VAAI_NAS_JOBS_ACTIVE_MAX || jobs->stopping) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "too many jobs wait; nothing was done: try again");
        *status = VAAI_NAS_BUSY;
        return NULL;
    }
    if (jobs->adapter->is_ending(&order->source) || jobs->adapter->is_ending(&order->destination)) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the export is being removed; nothing was done");
        *status = VAAI_NAS_STALE;
        return NULL;
    }
    job = jobs_enter(jobs, order);
    *entered = job != NULL;
    if (job == NULL)
        *status = VAAI_NAS_FAULT;
    return job;
}

static void show_listed(const struct job *job, struct vaai_nas_listed_job *listed)
{
    job_show(job, &listed->job);
    listed->destination = job->clone.destination;
    listed->owner = job->owner;
}

/* These take the lock. */

enum vaai_nas_status vaai_nas_jobs_submit(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *shown, char reason[VAAI_NAS_REASON_SIZE])
{
    enum vaai_nas_status status = VAAI_NAS_OK;
    bool entered;

    pthread_mutex_lock(&jobs->lock);
    struct job *job = find_or_enter(jobs, order, &status, reason, &entered);
    if (job != NULL) {
        job_show(job, shown); /* should it be forgotten while it is waited for */
        job = wait_for(jobs, shown->id, place_of(&job->clone), wait_milliseconds);
        if (job != NULL)
            job_show(job, shown);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!entered)
        jobs_free_order(jobs->adapter, order);
    return status;
}

/* Waits for the end of a job in a place; takes the job back when that lasts too long. */
static struct job *wait_or_give_up(struct vaai_nas_jobs *jobs, uint64_t id)
{
    struct job *job = wait_in_place(jobs, id, jobs->do_milliseconds);

    if (job == NULL || !job_is_active(job))
        return job;
    job->given_up = !job->cancelled;
    job->cancelled = true;
    return wait_in_place(jobs, id, jobs->cancel_milliseconds < VAAI_NAS_GIVE_UP_MAX_MILLISECONDS ? jobs->cancel_milliseconds
                                                                                                : VAAI_NAS_GIVE_UP_MAX_MILLISECONDS);
}

enum vaai_nas_status vaai_nas_jobs_do(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, struct vaai_nas_job *shown,
                                      char reason[VAAI_NAS_REASON_SIZE])
{
    enum vaai_nas_status status = VAAI_NAS_BUSY;
    bool entered = false;

    pthread_mutex_lock(&jobs->lock);
    enum place place = place_of(&order->clone);
    if (!take_place(jobs, place)) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "too many wait for clones; nothing was done: try again");
    } else {
        struct job *job = find_or_enter(jobs, order, &status, reason, &entered);
        if (job != NULL) {
            job = wait_or_give_up(jobs, job->shown.id);
            status = job == NULL ? VAAI_NAS_FAULT : VAAI_NAS_OK; /* forgotten: 1024 others have ended since */
        }
        if (job != NULL) {
            job_show(job, shown);
            if (shown->state != VAAI_NAS_COMPLETE) {
                status = job_is_active(job) ? VAAI_NAS_BUSY : shown->status;
                snprintf(reason, VAAI_NAS_REASON_SIZE, "%s",
                         job_is_active(job) ? "it was told to end, and has not yet" : shown->reason);
            }
        }
        jobs->waiting[place]--;
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!entered)
        jobs_free_order(jobs->adapter, order);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone, uint64_t *id)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_request(jobs, clone);
    if (job != NULL) {
        status = job_is_same_request(&job->clone, clone) ? VAAI_NAS_OK : VAAI_NAS_EXISTS;
        *id = job->shown.id;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get_of_paths(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone, uint16_t export_id,
                                                struct vaai_nas_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_request(jobs, clone);
    if (job != NULL) {
        const bool same = job->shown.export_id == export_id && strcmp(job->clone.source_path, clone->source_path) == 0 &&
                          strcmp(job->clone.destination_path, clone->destination_path) == 0 && job->clone.fast == clone->fast;
        status = same ? VAAI_NAS_OK : VAAI_NAS_EXISTS;
        if (same)
            job_show(job, shown);
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, uint32_t wait_milliseconds,
                                       struct vaai_nas_listed_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = wait_for(jobs, id, PLACE_LATER, wait_milliseconds);
    if (job != NULL && job->shown.export_id == export_id) {
        show_listed(job, shown);
        status = VAAI_NAS_OK;
    } else if (is_of_another_daemon(jobs, id)) {
        status = VAAI_NAS_INTERRUPTED;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                               struct vaai_nas_listed_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_destination(jobs, device, inode, "");
    if (job != NULL) {
        show_listed(job, shown);
        status = VAAI_NAS_OK;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

void vaai_nas_jobs_list(struct vaai_nas_jobs *jobs, uint16_t export_id, struct vaai_nas_listed_job *list, uint32_t *count)
{
    uint32_t used = 0;

    pthread_mutex_lock(&jobs->lock);
    for (const struct job *job = jobs->newest; job != NULL && used < *count; job = job->older)
        if (job->shown.export_id == export_id)
            show_listed(job, &list[used++]);
    pthread_mutex_unlock(&jobs->lock);
    *count = used;
}

/* With the lock held. `job` may be NULL: there is none with this id. */
static enum vaai_nas_status cancel(struct vaai_nas_jobs *jobs, struct job *job, uint64_t id, struct vaai_nas_job *shown)
{
    if (job == NULL)
        return id != 0 && is_of_another_daemon(jobs, id) ? VAAI_NAS_INTERRUPTED : VAAI_NAS_NOT_FOUND;
    job->cancelled = true;
    job_show(job, shown);
    job = wait_for(jobs, shown->id, PLACE_LATER, jobs->cancel_milliseconds);
    if (job != NULL)
        job_show(job, shown);
    return VAAI_NAS_OK;
}

enum vaai_nas_status vaai_nas_jobs_cancel(struct vaai_nas_jobs *jobs, uint64_t id, dev_t device, ino_t inode,
                                          struct vaai_nas_job *shown)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = id != 0 ? jobs_find_id(jobs, id) : jobs_find_destination(jobs, device, inode, "");
    const bool is_it = job != NULL && job->device == device && job->inode == inode;
    const enum vaai_nas_status status = cancel(jobs, is_it ? job : NULL, id, shown);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_cancel_id(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *shown)
{
    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_find_id(jobs, id);
    const bool is_it = job != NULL && job->shown.export_id == export_id;
    const enum vaai_nas_status status = cancel(jobs, is_it ? job : NULL, id, shown);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

bool vaai_nas_jobs_cancel_export(struct vaai_nas_jobs *jobs, uint16_t export_id, const struct timespec *until)
{
    bool active, in_time = true;

    pthread_mutex_lock(&jobs->lock);
    do {
        active = false;
        for (struct job *job = jobs->newest; job != NULL; job = job->older)
            if (job_is_active(job) && (job->shown.export_id == export_id || job->source_export_id == export_id)) {
                job->cancelled = true;
                active = true;
            }
        if (active)
            in_time = pthread_cond_timedwait(&jobs->ended, &jobs->lock, until) == 0;
    } while (active && in_time);
    pthread_mutex_unlock(&jobs->lock);
    return !active;
}
