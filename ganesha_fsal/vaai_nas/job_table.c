/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The table of the jobs, newest first: what is in it, entered and forgotten. All with the lock held. */
#include "jobs_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t milliseconds_between(const struct timespec *from, const struct timespec *to)
{
    int64_t milliseconds = (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;

    return milliseconds < 0 ? 0 : milliseconds > UINT32_MAX ? UINT32_MAX : (uint32_t)milliseconds;
}

void job_show(const struct job *job, struct vaai_nas_job *shown)
{
    struct timespec now = job->ended;

    if (job_is_active(job))
        clock_gettime(CLOCK_MONOTONIC, &now);
    *shown = job->shown;
    shown->elapsed_milliseconds = milliseconds_between(&job->began, &now);
}

bool job_has_request_id(const struct vaai_nas_clone *clone)
{
    static const uint8_t none[VAAI_NAS_REQUEST_ID_SIZE];

    return memcmp(clone->request_id, none, sizeof(none)) != 0;
}

/* All but the request id. */
bool job_is_same_request(const struct vaai_nas_clone *one, const struct vaai_nas_clone *other)
{
    return one->source.length == other->source.length &&
           memcmp(one->source.bytes, other->source.bytes, one->source.length) == 0 &&
           one->destination.length == other->destination.length &&
           memcmp(one->destination.bytes, other->destination.bytes, one->destination.length) == 0 &&
           strcmp(one->name, other->name) == 0 && one->fast == other->fast && one->guarded == other->guarded &&
           one->range == other->range &&
           (!one->range || (one->source_offset == other->source_offset && one->length == other->length &&
                            one->destination_offset == other->destination_offset));
}

struct job *jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone)
{
    struct job *job = jobs->newest;

    if (!job_has_request_id(clone))
        return NULL;
    while (job != NULL && memcmp(job->shown.request_id, clone->request_id, VAAI_NAS_REQUEST_ID_SIZE) != 0)
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

struct job *jobs_find_destination(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, const char *name)
{
    struct job *job = jobs->newest;

    while (job != NULL && (job->device != device || job->inode != inode || strcmp(job->clone.name, name) != 0))
        job = job->older;
    return job;
}

/* Forgets the oldest job that has ended. */
static void forget_one(struct vaai_nas_jobs *jobs)
{
    struct job **link = &jobs->newest, **oldest_ended = NULL;

    for (; *link != NULL; link = &(*link)->older)
        if (!job_is_active(*link))
            oldest_ended = link;
    if (oldest_ended == NULL)
        return;
    struct job *job = *oldest_ended;
    *oldest_ended = job->older;
    free(job);
    jobs->known--;
}

struct job *jobs_enter(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->jobs = jobs;
    job->order = order;
    job->clone = order->clone;
    job->device = order->destination.device;
    job->inode = order->destination.inode;
    clock_gettime(CLOCK_MONOTONIC, &job->began);
    job->shown.id = jobs->next_id++;
    job->shown.state = VAAI_NAS_WAITING;
    job->shown.total_bytes = order->total_bytes;
    job->shown.export_id = order->destination.export_id;
    job->source_export_id = order->source.export_id;
    job->owner = order->destination.owner;
    memcpy(job->shown.request_id, order->clone.request_id, VAAI_NAS_REQUEST_ID_SIZE);
    memcpy(job->shown.host, order->host, sizeof(job->shown.host));
    memcpy(job->shown.name, order->clone.name, sizeof(job->shown.name));
    if (jobs->known >= VAAI_NAS_JOBS_KNOWN_MAX)
        forget_one(jobs);
    job->older = jobs->newest;
    jobs->newest = job;
    jobs->known++;
    jobs->active++;
    jobs_enqueue(jobs, job);
    return job;
}
