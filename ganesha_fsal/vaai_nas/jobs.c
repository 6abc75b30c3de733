/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../fileops/clone.h"

#define DEFAULT_WORKERS 4u
#define WORKERS_MAX 64u
#define WAITING_MAX 32u /* calls that wait for a job keep a thread of the NFS server each */

struct job {
    struct job *older;       /* in the table, newest first */
    struct job *queued_next; /* in the queue, oldest first */
    struct vaai_nas_jobs *jobs;
    struct vaai_nas_order *order; /* NULL once it has ended */
    struct vaai_nas_clone clone;
    dev_t device; /* of the destination: a file, or the directory the name is in */
    ino_t inode;
    struct timespec began, ended;
    bool cancelled;
    bool holds_files; /* until they are closed, a moment after its end */
    uint16_t source_export_id;
    struct vaai_nas_job shown;
};

struct vaai_nas_jobs {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_counters *counters;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* the queue is not empty, or it ends */
    pthread_cond_t ended; /* some job has ended */
    struct job *newest;
    struct job *queue_head, **queue_tail;
    size_t known, active, waiting;
    uint64_t first_id, next_id; /* from the time of the start on: another daemon's are others */
    bool stopping;
    unsigned int workers;
    pthread_t threads[WORKERS_MAX];
};

static const uint8_t no_request_id[VAAI_NAS_REQUEST_ID_SIZE];

static bool is_active(const struct job *job)
{
    return job->shown.state == VAAI_NAS_WAITING || job->shown.state == VAAI_NAS_RUNNING;
}

static uint32_t milliseconds_between(const struct timespec *from, const struct timespec *to)
{
    int64_t milliseconds = (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;

    return milliseconds < 0 ? 0 : milliseconds > UINT32_MAX ? UINT32_MAX : (uint32_t)milliseconds;
}

static void show(const struct job *job, struct vaai_nas_job *shown)
{
    struct timespec now = job->ended;

    if (is_active(job))
        clock_gettime(CLOCK_MONOTONIC, &now);
    *shown = job->shown;
    shown->elapsed_milliseconds = milliseconds_between(&job->began, &now);
}

static void free_order(const struct vaai_nas_adapter *adapter, struct vaai_nas_order *order)
{
    adapter->close(&order->source);
    adapter->close(&order->destination);
    free(order);
}

/* All but the request id. */
static bool same_request(const struct vaai_nas_clone *one, const struct vaai_nas_clone *other)
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

static bool progress(void *context, uint64_t done, uint64_t total)
{
    struct job *job = context;
    struct vaai_nas_jobs *jobs = job->jobs;

    pthread_mutex_lock(&jobs->lock);
    job->shown.done_bytes = done;
    job->shown.total_bytes = total;
    bool go_on = !job->cancelled;
    pthread_mutex_unlock(&jobs->lock);
    if (job->order->clone.name[0] == 0)
        jobs->adapter->changed(&job->order->destination);
    return go_on;
}

/* Why bytes were copied, the most frequent reason. */
static void describe_fallback(const struct fileops_clone_result *result, char reason[VAAI_NAS_REASON_SIZE])
{
    size_t most = 0;

    for (size_t i = 1; i < FILEOPS_FALLBACK_COUNT; i++)
        if (result->fallback[i] > result->fallback[most])
            most = i;
    if (result->fallback[most] > 0)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "copied: %s", fileops_fallback_name((enum fileops_fallback)most));
}

void vaai_nas_describe_failure(const struct vaai_nas_clone *clone, int error, bool begun, char reason[VAAI_NAS_REASON_SIZE])
{
    const char *left = !begun                 ? "nothing was changed"
                       : clone->range         ? "the range of the destination has old or new bytes"
                       : clone->name[0] != 0 ? "the destination was not made"
                                              : "the destination is empty";
    const char *what = strerrordesc_np(error);

    if (error == EXDEV)
        what = "source and destination can't share blocks: other pool, file system or encryption key";
    else if (error == EOPNOTSUPP)
        what = "the file system can't share these blocks";
    else if (error == EBUSY)
        what = "the source kept changing";
    snprintf(reason, VAAI_NAS_REASON_SIZE, "%s; %s", what != NULL ? what : "unknown error", left);
}

enum vaai_nas_status vaai_nas_status_of_clone(int error)
{
    return error == EXDEV ? VAAI_NAS_NOT_SUPPORTED : vaai_nas_status_of_errno(error);
}

void vaai_nas_order_to_request(const struct vaai_nas_order *order, struct fileops_clone_request *request)
{
    const struct vaai_nas_clone *clone = &order->clone;
    bool by_name = clone->name[0] != 0;

    *request = (struct fileops_clone_request){
        .mode = clone->fast ? FILEOPS_CLONE_FAST : FILEOPS_CLONE_FULL,
        /* What is there has handles and caches of its own: never replaced by name. */
        .flags = by_name ? FILEOPS_CLONE_GUARDED : 0,
        .source = order->source.fd,
        .whole = !clone->range,
        .source_offset = clone->source_offset,
        .destination_offset = clone->destination_offset,
        .length = clone->length,
        .destination = by_name ? -1 : order->destination.fd,
        .directory = by_name ? order->destination.fd : -1,
        .name = by_name ? clone->name : NULL,
        .owner = order->destination.owner,
        .group = order->destination.group,
        .mode_bits = (mode_t)-1,
        .source_space = order->source.space,
        .destination_space = order->destination.space,
    };
}

static void run(struct job *job)
{
    struct vaai_nas_jobs *jobs = job->jobs;
    struct vaai_nas_order *order = job->order;
    struct fileops_clone_result result = {0};
    struct fileops_clone_request request;
    struct timespec ended;
    int error = ECANCELED;

    pthread_mutex_lock(&jobs->lock);
    bool begin = !job->cancelled;
    pthread_mutex_unlock(&jobs->lock);
    if (begin) {
        vaai_nas_order_to_request(order, &request);
        request.progress = progress;
        request.progress_context = job;
        error = fileops_clone(&request, &result);
    }

    jobs->adapter->changed(&order->destination);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    enum vaai_nas_status status = vaai_nas_status_of_clone(error);
    vaai_nas_count_clone(jobs->counters, order->host, order->destination.export_path, &result);
    vaai_nas_count(jobs->counters, order->host, order->destination.export_path,
                   order->clone.fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE, status,
                   (uint64_t)(ended.tv_sec - job->began.tv_sec) * 1000000u +
                       (uint64_t)((ended.tv_nsec - job->began.tv_nsec) / 1000));

    pthread_mutex_lock(&jobs->lock);
    job->shown.cloned_bytes = result.cloned;
    job->shown.copied_bytes = result.copied;
    job->shown.status = status;
    if (error == 0) {
        job->shown.state = VAAI_NAS_COMPLETE;
        job->shown.done_bytes = job->shown.total_bytes = result.done;
        describe_fallback(&result, job->shown.reason);
    } else {
        job->shown.state = VAAI_NAS_FAILED;
        vaai_nas_describe_failure(&order->clone, error, begin, job->shown.reason);
    }
    job->ended = ended;
    job->order = NULL;
    jobs->active--;
    pthread_cond_broadcast(&jobs->ended);
    pthread_mutex_unlock(&jobs->lock);
    free_order(jobs->adapter, order);

    pthread_mutex_lock(&jobs->lock);
    job->holds_files = false;
    pthread_cond_broadcast(&jobs->ended);
    pthread_mutex_unlock(&jobs->lock);
}

static void *work(void *argument)
{
    struct vaai_nas_jobs *jobs = argument;

    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        while (jobs->queue_head == NULL && !jobs->stopping)
            pthread_cond_wait(&jobs->work, &jobs->lock);
        if (jobs->queue_head == NULL)
            break;
        struct job *job = jobs->queue_head;
        jobs->queue_head = job->queued_next;
        if (jobs->queue_head == NULL)
            jobs->queue_tail = &jobs->queue_head;
        job->shown.state = VAAI_NAS_RUNNING;
        pthread_mutex_unlock(&jobs->lock);
        run(job);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

struct vaai_nas_jobs *vaai_nas_jobs_new(const struct vaai_nas_adapter *adapter, struct vaai_nas_counters *counters,
                                        unsigned int workers)
{
    struct vaai_nas_jobs *jobs = calloc(1, sizeof(*jobs));
    pthread_condattr_t monotonic;

    if (jobs == NULL)
        return NULL;
    jobs->adapter = adapter;
    jobs->counters = counters;
    jobs->queue_tail = &jobs->queue_head;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    jobs->first_id = jobs->next_id = ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) << 20;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&jobs->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (workers == 0)
        workers = DEFAULT_WORKERS;
    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    while (jobs->workers < workers && pthread_create(&jobs->threads[jobs->workers], NULL, work, jobs) == 0)
        jobs->workers++;
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

static struct job *find_request(struct vaai_nas_jobs *jobs, const uint8_t id[VAAI_NAS_REQUEST_ID_SIZE])
{
    struct job *job = jobs->newest;

    if (memcmp(id, no_request_id, VAAI_NAS_REQUEST_ID_SIZE) == 0)
        return NULL;
    while (job != NULL && memcmp(job->shown.request_id, id, VAAI_NAS_REQUEST_ID_SIZE) != 0)
        job = job->older;
    return job;
}

static struct job *find_id(struct vaai_nas_jobs *jobs, uint64_t id)
{
    struct job *job = jobs->newest;

    while (job != NULL && job->shown.id != id)
        job = job->older;
    return job;
}

static bool is_of_another_daemon(const struct vaai_nas_jobs *jobs, uint64_t id)
{
    return id < jobs->first_id || id >= jobs->next_id;
}

static struct job *find_destination(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, const char *name)
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
        if (!is_active(*link) && !(*link)->holds_files)
            oldest_ended = link;
    if (oldest_ended == NULL)
        return;
    struct job *job = *oldest_ended;
    *oldest_ended = job->older;
    free(job);
    jobs->known--;
}

/* A job that others wait for may be forgotten meanwhile: it is looked up anew after every wait. */
static struct job *wait_for(struct vaai_nas_jobs *jobs, uint64_t id, uint32_t milliseconds)
{
    struct timespec until;
    struct job *job = find_id(jobs, id);

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    if (jobs->waiting >= WAITING_MAX)
        return job;
    jobs->waiting++;
    while (job != NULL && is_active(job) && pthread_cond_timedwait(&jobs->ended, &jobs->lock, &until) == 0)
        job = find_id(jobs, id);
    jobs->waiting--;
    return find_id(jobs, id);
}

static struct job *enter(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order)
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
    job->holds_files = true;
    memcpy(job->shown.request_id, order->clone.request_id, VAAI_NAS_REQUEST_ID_SIZE);
    memcpy(job->shown.host, order->host, sizeof(job->shown.host));
    memcpy(job->shown.name, order->clone.name, sizeof(job->shown.name));
    if (jobs->known >= VAAI_NAS_JOBS_KNOWN_MAX)
        forget_one(jobs);
    job->older = jobs->newest;
    jobs->newest = job;
    jobs->known++;
    jobs->active++;
    *jobs->queue_tail = job;
    jobs->queue_tail = &job->queued_next;
    pthread_cond_signal(&jobs->work);
    return job;
}

/* The job to wait for; NULL with *status. *entered: the order is the job's now. */
static struct job *find_or_enter(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, enum vaai_nas_status *status,
                                 char reason[VAAI_NAS_REASON_SIZE], bool *entered)
{
    struct job *job = find_request(jobs, order->clone.request_id);

    *entered = false;
    if (job != NULL) {
        if (same_request(&job->clone, &order->clone))
            return job;
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the request id was used for another request; nothing was done: use a new one");
        *status = VAAI_NAS_EXISTS;
        return NULL;
    }
    job = find_destination(jobs, order->destination.device, order->destination.inode, order->clone.name);
    if (job != NULL && is_active(job)) {
        if (memcmp(order->clone.request_id, no_request_id, VAAI_NAS_REQUEST_ID_SIZE) == 0 &&
            same_request(&job->clone, &order->clone))
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
    job = enter(jobs, order);
    *entered = job != NULL;
    if (job == NULL)
        *status = VAAI_NAS_FAULT;
    return job;
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
        show(job, shown); /* should it be forgotten while it is waited for */
        job = wait_for(jobs, shown->id, wait_milliseconds);
        if (job != NULL)
            show(job, shown);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!entered)
        free_order(jobs->adapter, order);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone, uint64_t *id)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = find_request(jobs, clone->request_id);
    if (job != NULL) {
        status = same_request(&job->clone, clone) ? VAAI_NAS_OK : VAAI_NAS_EXISTS;
        *id = job->shown.id;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, uint32_t wait_milliseconds,
                                       struct vaai_nas_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = wait_for(jobs, id, wait_milliseconds);
    if (job != NULL && job->shown.export_id == export_id) {
        show(job, shown);
        status = VAAI_NAS_OK;
    } else if (is_of_another_daemon(jobs, id)) {
        status = VAAI_NAS_INTERRUPTED;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

enum vaai_nas_status vaai_nas_jobs_get_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode, struct vaai_nas_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    const struct job *job = find_destination(jobs, device, inode, "");
    if (job != NULL) {
        show(job, shown);
        status = VAAI_NAS_OK;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

void vaai_nas_jobs_list(struct vaai_nas_jobs *jobs, uint16_t export_id, struct vaai_nas_job *list, uint32_t *count)
{
    uint32_t used = 0;

    pthread_mutex_lock(&jobs->lock);
    for (const struct job *job = jobs->newest; job != NULL && used < *count; job = job->older)
        if (job->shown.export_id == export_id)
            show(job, &list[used++]);
    pthread_mutex_unlock(&jobs->lock);
    *count = used;
}

enum vaai_nas_status vaai_nas_jobs_cancel(struct vaai_nas_jobs *jobs, uint64_t id, dev_t device, ino_t inode,
                                          struct vaai_nas_job *shown)
{
    enum vaai_nas_status status = VAAI_NAS_NOT_FOUND;

    pthread_mutex_lock(&jobs->lock);
    struct job *job = id != 0 ? find_id(jobs, id) : find_destination(jobs, device, inode, "");
    if (job != NULL && job->device == device && job->inode == inode) {
        id = job->shown.id;
        job->cancelled = true;
        show(job, shown);
        job = wait_for(jobs, id, VAAI_NAS_WAIT_MAX_MILLISECONDS);
        if (job != NULL)
            show(job, shown);
        status = VAAI_NAS_OK;
    } else if (id != 0 && is_of_another_daemon(jobs, id)) {
        status = VAAI_NAS_INTERRUPTED;
    }
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

void vaai_nas_jobs_cancel_export(struct vaai_nas_jobs *jobs, uint16_t export_id)
{
    bool active;

    pthread_mutex_lock(&jobs->lock);
    do {
        active = false;
        for (struct job *job = jobs->newest; job != NULL; job = job->older)
            if (job->holds_files && (job->shown.export_id == export_id || job->source_export_id == export_id)) {
                job->cancelled = true;
                active = true;
            }
        if (active)
            pthread_cond_wait(&jobs->ended, &jobs->lock);
    } while (active);
    pthread_mutex_unlock(&jobs->lock);
}
