/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The threads of the jobs: each takes a clone from a queue, has it made, and says how it ended. */
#include "jobs_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fileops/clone.h"

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

/* What a clone that failed has left. */
static const char *what_is_left(const struct vaai_nas_order *order, const struct fileops_clone_result *result)
{
    const bool by_name = order->clone.name[0] != 0;

    switch (result->left) {
    case FILEOPS_CLONE_UNTOUCHED:
        return by_name ? "the destination was not made" : "the destination is as it was";
    case FILEOPS_CLONE_EMPTY:
        return "the destination is empty";
    case FILEOPS_CLONE_OLD_OR_NEW:
        return "the range of the destination has old or new bytes";
    case FILEOPS_CLONE_UNKNOWN:
        break;
    }
    return by_name ? "the destination is there, but may be gone after a crash"
                   : "what the destination has is not known: don't use it";
}

void vaai_nas_describe_failure(const struct vaai_nas_order *order, int error, const struct fileops_clone_result *result,
                               char reason[VAAI_NAS_REASON_SIZE])
{
    const char *what = strerrordesc_np(error);

    if (error == EXDEV)
        what = "source and destination can't share blocks: other pool, file system or encryption key";
    else if (error == EOPNOTSUPP)
        what = "the file system can't share these blocks";
    else if (error == EBUSY)
        what = fileops_clone_busy_text(result->busy);
    snprintf(reason, VAAI_NAS_REASON_SIZE, "%s; %s", what != NULL ? what : "unknown error", what_is_left(order, result));
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
        .flags = (by_name ? FILEOPS_CLONE_GUARDED : 0) | (clone->promised ? FILEOPS_CLONE_PROMISED : 0),
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

void jobs_free_order(const struct vaai_nas_adapter *adapter, struct vaai_nas_order *order)
{
    adapter->close(&order->source);
    adapter->close(&order->destination);
    free(order);
}

/* How it ended, while its files are still open. */
static void describe_end(const struct vaai_nas_order *order, int error, bool given_up, const struct fileops_clone_result *result,
                         struct vaai_nas_job *end)
{
    end->cloned_bytes = result->cloned;
    end->copied_bytes = result->copied;
    end->hole_bytes = result->holes;
    memcpy(end->fallback_bytes, result->fallback, sizeof(end->fallback_bytes));
    end->status = vaai_nas_status_of_clone(error);
    if (error == 0) {
        end->state = VAAI_NAS_COMPLETE;
        end->done_bytes = end->total_bytes = result->done;
        describe_fallback(result, end->reason);
        return;
    }
    end->state = VAAI_NAS_FAILED;
    if (error == ECANCELED && given_up) {
        end->status = VAAI_NAS_BUSY;
        snprintf(end->reason, VAAI_NAS_REASON_SIZE, "it took longer than who asked may wait; %s", what_is_left(order, result));
    } else {
        vaai_nas_describe_failure(order, error, result, end->reason);
    }
}

static void count(struct vaai_nas_jobs *jobs, const struct job *job, const struct vaai_nas_job *end,
                  const struct fileops_clone_result *result, const struct timespec *ended)
{
    const struct vaai_nas_order *order = job->order;

    vaai_nas_count_clone(jobs->counters, order->host, order->destination.export_path, result);
    vaai_nas_count(jobs->counters, order->host, order->destination.export_path,
                   order->clone.fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE, end->status,
                   (uint64_t)(ended->tv_sec - job->began.tv_sec) * 1000000u +
                       (uint64_t)((ended->tv_nsec - job->began.tv_nsec) / 1000));
}

static void run(struct job *job)
{
    struct vaai_nas_jobs *jobs = job->jobs;
    struct vaai_nas_order *order = job->order;
    struct fileops_clone_result result = {0};
    struct fileops_clone_request request;
    struct vaai_nas_job end;
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
    pthread_mutex_lock(&jobs->lock);
    end = job->shown;
    bool given_up = job->given_up;
    pthread_mutex_unlock(&jobs->lock);
    describe_end(order, error, given_up, &result, &end);
    count(jobs, job, &end, &result, &ended);
    jobs_free_order(jobs->adapter, order); /* who is told that it has ended finds the files let go */

    pthread_mutex_lock(&jobs->lock);
    job->order = NULL;
    job->shown = end;
    job->ended = ended;
    jobs->active--;
    pthread_cond_broadcast(&jobs->ended);
    pthread_mutex_unlock(&jobs->lock);
}

void jobs_enqueue(struct vaai_nas_jobs *jobs, struct job *job)
{
    struct queue *queue = job->clone.fast ? &jobs->fast : &jobs->any;

    *queue->tail = job;
    queue->tail = &job->queued_next;
    pthread_cond_broadcast(&jobs->work); /* not every thread takes every job */
}

static struct job *dequeue(struct queue *queue)
{
    struct job *job = queue->head;

    if (job == NULL)
        return NULL;
    queue->head = job->queued_next;
    if (queue->head == NULL)
        queue->tail = &queue->head;
    return job;
}

static void work(struct vaai_nas_jobs *jobs, bool fast_only)
{
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct job *job = fast_only ? NULL : dequeue(&jobs->any);
        if (job == NULL)
            job = dequeue(&jobs->fast);
        if (job == NULL && jobs->stopping)
            break;
        if (job == NULL) {
            pthread_cond_wait(&jobs->work, &jobs->lock);
            continue;
        }
        job->shown.state = VAAI_NAS_RUNNING;
        pthread_mutex_unlock(&jobs->lock);
        run(job);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
}

static void *work_any(void *jobs)
{
    work(jobs, false);
    return NULL;
}

static void *work_fast(void *jobs)
{
    work(jobs, true);
    return NULL;
}

void jobs_start_workers(struct vaai_nas_jobs *jobs, unsigned int workers)
{
    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    while (jobs->workers < 2 * workers &&
           pthread_create(&jobs->threads[jobs->workers], NULL, jobs->workers % 2 == 0 ? work_any : work_fast, jobs) == 0)
        jobs->workers++;
}
