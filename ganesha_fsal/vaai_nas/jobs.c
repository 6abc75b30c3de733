/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The table of jobs, and requests about them. */
#include "jobs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WORKERS 4u
/* A waiting call occupies one of ganesha's threads (RPC_Ioq_ThrdMax). */
#define CALLERS_MAX 128u
#define CALLERS_LANE_MAX 48u
#define CALLERS_HOST_MAX 16u /* of a lane */

struct vaai_nas_jobs *vaai_nas_jobs_new(const struct vaai_nas_service_options *options, struct vaai_nas_counters *counters)
{
    struct vaai_nas_jobs *jobs = calloc(1, sizeof(*jobs));
    pthread_condattr_t monotonic;
    struct timespec now;

    if (jobs == NULL)
        return NULL;
    jobs->adapter = options->adapter;
    jobs->do_milliseconds = options->do_milliseconds != 0 ? options->do_milliseconds : VAAI_NAS_DO_MAX_MILLISECONDS;
    jobs->cancel_milliseconds =
        options->cancel_milliseconds != 0 ? options->cancel_milliseconds : VAAI_NAS_CANCEL_MAX_MILLISECONDS;
    jobs->workers = options->workers != 0 ? options->workers : DEFAULT_WORKERS;
    if (jobs->workers > WORKERS_MAX)
        jobs->workers = WORKERS_MAX;
    jobs->counters = counters;
    clock_gettime(CLOCK_REALTIME, &now);
    jobs->first_id = jobs->next_id = ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) << 20;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&jobs->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
    for (struct lane *lane = jobs->lanes; lane != NULL; lane = lane->next)
        pthread_cond_broadcast(&lane->work);
    pthread_mutex_unlock(&jobs->lock);
    while (jobs->lanes != NULL) {
        struct lane *lane = jobs->lanes;
        for (unsigned int i = 0; i < lane->threads; i++)
            pthread_join(lane->thread[i], NULL);
        jobs->lanes = lane->next;
        pthread_cond_destroy(&lane->work);
        free(lane);
    }
    while (jobs->newest != NULL) {
        struct job *job = jobs->newest;
        jobs->newest = job->older;
        free(job);
    }
    pthread_cond_destroy(&jobs->ended);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
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

/* From here to "These take the lock" the lock is held. */

static struct job *jobs_refuse(enum vaai_nas_status with, const char *text, enum vaai_nas_status *status,
                               char reason[VAAI_NAS_REASON_SIZE])
{
    snprintf(reason, VAAI_NAS_REASON_SIZE, "%s", text);
    *status = with;
    return NULL;
}

/* The order's job. NULL with *status. *entered: the job owns the order now. */
static struct job *jobs_find_or_enter(struct vaai_nas_jobs *jobs, struct lane *lane, struct vaai_nas_order *order,
                                      enum vaai_nas_status *status, char reason[VAAI_NAS_REASON_SIZE], bool *entered)
{
    struct job *job = jobs_find_request(jobs, &order->clone);

    if (job != NULL)
        return job_is_same_request(&job->clone, &order->clone)
                   ? job
                   : jobs_refuse(VAAI_NAS_EXISTS, "the request id belongs to another request; nothing was changed: use a new id",
                                 status, reason);
    job = jobs_find_destination(jobs, order->destination.device, order->destination.inode, order->clone.name);
    if (job != NULL && job_is_active(job)) {
        if (!job_has_request_id(&order->clone) && job_is_same_request(&job->clone, &order->clone))
            return job;
        return jobs_refuse(VAAI_NAS_BUSY, "another clone writes the destination; nothing was changed: wait for it or cancel it",
                           status, reason);
    }
    if (jobs->stopping || lane->active >= VAAI_NAS_LANE_ACTIVE_MAX ||
        jobs_active_of_host(jobs, lane, order->host) >= VAAI_NAS_HOST_ACTIVE_MAX)
        return jobs_refuse(VAAI_NAS_BUSY, "too many clones wait in this pool; nothing was changed: try again", status, reason);
    if (jobs->adapter->is_ending(&order->source) || jobs->adapter->is_ending(&order->destination))
        return jobs_refuse(VAAI_NAS_STALE, "the export is being removed; nothing was changed", status, reason);
    job = jobs_enter(jobs, lane, order);
    *entered = job != NULL;
    return job != NULL ? job
                       : jobs_refuse(VAAI_NAS_FAULT, "the server has no memory or threads; nothing was changed", status, reason);
}

static bool jobs_take_place(struct vaai_nas_jobs *jobs, struct lane *lane)
{
    if (jobs->callers >= CALLERS_MAX || lane->callers >= CALLERS_LANE_MAX)
        return false;
    jobs->callers++;
    lane->callers++;
    return true;
}

static void jobs_release_place(struct vaai_nas_jobs *jobs, struct lane *lane)
{
    jobs->callers--;
    lane->callers--;
}

/* The caller has a place. NULL: the job was removed meanwhile. */
static struct job *jobs_wait_in_place(struct vaai_nas_jobs *jobs, uint64_t id, uint32_t milliseconds)
{
    const struct timespec until = vaai_nas_moment_in(milliseconds);
    struct job *job = jobs_find_id(jobs, id);

    while (job != NULL && job_is_active(job) && pthread_cond_timedwait(&jobs->ended, &jobs->lock, &until) == 0)
        job = jobs_find_id(jobs, id);
    return jobs_find_id(jobs, id);
}

/* Reports the job after at most `milliseconds`, or immediately if too many callers wait. */
static void jobs_wait_and_show(struct vaai_nas_jobs *jobs, struct job *job, uint32_t milliseconds, struct vaai_nas_job *shown)
{
    struct lane *lane = job->lane;

    *shown = job->shown;
    if (!job_is_active(job) || milliseconds == 0 || !jobs_take_place(jobs, lane))
        return;
    job = jobs_wait_in_place(jobs, shown->id, milliseconds);
    jobs_release_place(jobs, lane);
    if (job != NULL)
        *shown = job->shown;
}

/* Waits in a place for the job's end. Cancels the job after the limit. */
static struct job *jobs_wait_or_give_up(struct vaai_nas_jobs *jobs, uint64_t id)
{
    struct job *job = jobs_wait_in_place(jobs, id, jobs->do_milliseconds);

    if (job == NULL || !job_is_active(job))
        return job;
    job->given_up = !job->cancelled;
    job_cancel(job);
    return jobs_wait_in_place(jobs, id, jobs->cancel_milliseconds);
}

static enum vaai_nas_status jobs_cancel(struct vaai_nas_jobs *jobs, struct job *job, struct vaai_nas_job *shown)
{
    if (job == NULL)
        return VAAI_NAS_NOT_FOUND;
    const uint64_t id = job->shown.id;
    *shown = job->shown;
    if (job_is_active(job))
        job_cancel(job);
    job = jobs_find_id(jobs, id);
    if (job != NULL)
        jobs_wait_and_show(jobs, job, jobs->cancel_milliseconds, shown);
    return VAAI_NAS_OK;
}

static struct job *jobs_find_in_export(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, enum vaai_nas_status *status)
{
    struct job *job = jobs_find_id(jobs, id);

    *status = id < jobs->first_id || id >= jobs->next_id ? VAAI_NAS_INTERRUPTED : VAAI_NAS_NOT_FOUND;
    if (job == NULL || job->shown.export_id != export_id)
        return NULL;
    *status = VAAI_NAS_OK;
    return job;
}

/* These take the lock. */

enum vaai_nas_status vaai_nas_jobs_submit(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *shown, char reason[VAAI_NAS_REASON_SIZE])
{
    enum vaai_nas_status status = VAAI_NAS_FAULT;
    bool entered = false;

    pthread_mutex_lock(&jobs->lock);
    struct lane *lane = lane_find(jobs, order);
    struct job *job = lane == NULL ? NULL : jobs_find_or_enter(jobs, lane, order, &status, reason, &entered);
    if (job != NULL) {
        jobs_wait_and_show(jobs, job, wait_milliseconds, shown);
        status = VAAI_NAS_OK;
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!entered)
        jobs_free_order(jobs->adapter, order);
    return status;
}

/* Makes the clone in a place of `lane`. */
static enum vaai_nas_status jobs_do_in_place(struct vaai_nas_jobs *jobs, struct lane *lane, struct vaai_nas_order *order,
                                             struct vaai_nas_job *shown, char reason[VAAI_NAS_REASON_SIZE], bool *entered)
{
    enum vaai_nas_status status = VAAI_NAS_FAULT;
    struct job *job = jobs_find_or_enter(jobs, lane, order, &status, reason, entered);

    if (job == NULL)
        return status;
    *shown = job->shown;
    job = jobs_wait_or_give_up(jobs, shown->id);
    if (job == NULL)
        return VAAI_NAS_FAULT;
    *shown = job->shown;
    if (shown->state == VAAI_NAS_COMPLETE)
        return VAAI_NAS_OK;
    const bool active = job_is_active(job);
    snprintf(reason, VAAI_NAS_REASON_SIZE, "%s", active ? "the clone was cancelled and has not ended yet" : shown->reason);
    return active ? VAAI_NAS_BUSY : shown->status;
}

enum vaai_nas_status vaai_nas_jobs_do(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, struct vaai_nas_job *shown,
                                      char reason[VAAI_NAS_REASON_SIZE])
{
    enum vaai_nas_status status = VAAI_NAS_BUSY;
    bool entered = false;

    pthread_mutex_lock(&jobs->lock);
    struct lane *lane = lane_find(jobs, order);
    if (lane == NULL || jobs_active_of_host(jobs, lane, order->host) >= CALLERS_HOST_MAX || !jobs_take_place(jobs, lane)) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "too many callers wait for clones; nothing was changed: try again");
    } else {
        status = jobs_do_in_place(jobs, lane, order, shown, reason, &entered);
        jobs_release_place(jobs, lane);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!entered)
        jobs_free_order(jobs->adapter, order);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get_of_paths(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone,
                                                uint16_t export_id, struct vaai_nas_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_request(jobs, clone);
    if (job != NULL) {
        const bool same = job->shown.export_id == export_id && strcmp(job->clone.source_path, clone->source_path) == 0 &&
                          strcmp(job->clone.destination_path, clone->destination_path) == 0 && job->clone.fast == clone->fast;
        status = same ? VAAI_NAS_OK : VAAI_NAS_EXISTS;
        if (same)
            *shown = job->shown;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *shown)
{
    enum vaai_nas_status status;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_in_export(jobs, id, export_id, &status);
    if (job != NULL)
        *shown = job->shown;
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                               struct vaai_nas_listed_job *listed)
{
    pthread_mutex_lock(&jobs->lock);
    const struct job *job = jobs_find_destination(jobs, device, inode, "");
    if (job != NULL) {
        listed->job = job->shown;
        listed->destination = job->clone.destination;
        listed->owner = job->owner;
    }
    pthread_mutex_unlock(&jobs->lock);
    return job != NULL ? VAAI_NAS_OK : VAAI_NAS_NOT_FOUND;
}

enum vaai_nas_status vaai_nas_jobs_cancel_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                                  struct vaai_nas_job *shown)
{
    pthread_mutex_lock(&jobs->lock);
    const enum vaai_nas_status status = jobs_cancel(jobs, jobs_find_destination(jobs, device, inode, ""), shown);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_cancel(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *shown)
{
    enum vaai_nas_status status;

    pthread_mutex_lock(&jobs->lock);
    struct job *job = jobs_find_in_export(jobs, id, export_id, &status);
    if (job != NULL)
        status = jobs_cancel(jobs, job, shown);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

/* An active job of the export; `cancelled`: also cancelled ones. */
static struct job *jobs_find_active(struct vaai_nas_jobs *jobs, uint16_t export_id, bool cancelled)
{
    struct job *job = jobs->newest;

    while (job != NULL && (!job_is_active(job) || (job->cancelled && !cancelled) ||
                           (job->shown.export_id != export_id && job->source_export_id != export_id)))
        job = job->older;
    return job;
}

bool vaai_nas_jobs_cancel_export(struct vaai_nas_jobs *jobs, uint16_t export_id, const struct timespec *until)
{
    struct job *job;

    pthread_mutex_lock(&jobs->lock);
    while ((job = jobs_find_active(jobs, export_id, false)) != NULL)
        job_cancel(job);
    while (jobs_find_active(jobs, export_id, true) != NULL && pthread_cond_timedwait(&jobs->ended, &jobs->lock, until) == 0)
        ;
    job = jobs_find_active(jobs, export_id, true);
    pthread_mutex_unlock(&jobs->lock);
    return job == NULL;
}
