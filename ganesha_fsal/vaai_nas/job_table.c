/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The table of jobs, newest first. All functions need the lock. */
#include "jobs_internal.h"

#include <stdlib.h>
#include <string.h>

bool job_has_request_id(const struct vaai_nas_clone *clone)
{
    static const uint8_t none[VAAI_NAS_REQUEST_ID_SIZE];

    return memcmp(clone->request_id, none, sizeof(none)) != 0;
}

static bool jobs_is_same_handle(const struct vaai_nas_handle *clone, const struct vaai_nas_handle *other)
{
    return clone->length == other->length && memcmp(clone->bytes, other->bytes, clone->length) == 0;
}

/* Compares all but the request id. */
bool job_is_same_request(const struct vaai_nas_clone *clone, const struct vaai_nas_clone *other)
{
    return jobs_is_same_handle(&clone->source, &other->source) && jobs_is_same_handle(&clone->destination, &other->destination) &&
           strcmp(clone->name, other->name) == 0 && clone->fast == other->fast;
}

struct job *jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone)
{
    struct job *job = job_has_request_id(clone) ? jobs->newest : NULL;

    while (job != NULL && memcmp(job->clone.request_id, clone->request_id, VAAI_NAS_REQUEST_ID_SIZE) != 0)
        job = job->older;
    return job;
}

struct job *jobs_find_id(struct vaai_nas_jobs *jobs, uint64_t id)
{
    struct job *job = jobs->newest;

    while (job != NULL && job->shown.id != id)
        job = job->older;
    return job;
}

/* The latest one. */
struct job *jobs_find_destination(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, const char *name)
{
    struct job *job = jobs->newest;

    while (job != NULL && (job->device != device || job->inode != inode || strcmp(job->clone.name, name) != 0))
        job = job->older;
    return job;
}

size_t jobs_active_of_host(const struct vaai_nas_jobs *jobs, const struct lane *lane, const char *host)
{
    size_t count = 0;

    for (const struct job *job = jobs->newest; job != NULL; job = job->older)
        count += job->lane == lane && job_is_active(job) && strcmp(job->shown.host, host) == 0;
    return count;
}

/* Removes the oldest ended job. */
static void jobs_forget_oldest(struct vaai_nas_jobs *jobs)
{
    struct job **oldest_ended = NULL;

    for (struct job **link = &jobs->newest; *link != NULL; link = &(*link)->older)
        if (!job_is_active(*link))
            oldest_ended = link;
    if (oldest_ended == NULL)
        return;
    struct job *job = *oldest_ended;
    *oldest_ended = job->older;
    free(job);
    jobs->known--;
}

/* NULL: no memory or no thread. */
struct job *jobs_enter(struct vaai_nas_jobs *jobs, struct lane *lane, struct vaai_nas_order *order)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->jobs = jobs;
    job->lane = lane;
    job->order = order;
    job->clone = order->clone;
    job->device = order->destination.device;
    job->inode = order->destination.inode;
    job->owner = order->destination.owner;
    job->source_export_id = order->source.export_id;
    clock_gettime(CLOCK_MONOTONIC, &job->began);
    job->shown = (struct vaai_nas_job){.id = jobs->next_id,
                                       .state = VAAI_NAS_WAITING,
                                       .total_bytes = order->total_bytes,
                                       .export_id = order->destination.export_id};
    memcpy(job->shown.host, order->host, sizeof(job->shown.host));
    if (!lane_enqueue(lane, job)) {
        free(job);
        return NULL;
    }
    jobs->next_id++;
    if (jobs->known >= VAAI_NAS_JOBS_KNOWN_MAX)
        jobs_forget_oldest(jobs);
    job->older = jobs->newest;
    jobs->newest = job;
    jobs->known++;
    return job;
}
