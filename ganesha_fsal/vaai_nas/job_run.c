/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Lanes: their threads take clones from the queue, run them, and record the result. */
#include "jobs_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/clone.h"

static bool job_progress(void *context, uint64_t done, uint64_t total)
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

/* The most frequent reason for copied bytes. */
static void job_describe_fallback(const struct fileops_clone_result *result, char reason[VAAI_NAS_REASON_SIZE])
{
    size_t most = 0;

    for (size_t i = 1; i < FILEOPS_FALLBACK_COUNT; i++)
        if (result->fallback[i] > result->fallback[most])
            most = i;
    if (result->fallback[most] > 0)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "copied: %s", fileops_fallback_name((enum fileops_fallback)most));
}

/* State of the destination after a failed clone. */
static const char *job_describe_remains(const struct vaai_nas_order *order, const struct fileops_clone_result *result)
{
    const bool by_name = order->clone.name[0] != 0;

    switch (result->left) {
    case FILEOPS_CLONE_UNTOUCHED:
        return by_name ? "the destination was not created" : "the destination was not changed";
    case FILEOPS_CLONE_EMPTY:
        return "the destination is empty";
    default:
        return by_name ? "the destination was created, but a crash may remove it"
                       : "the contents of the destination are unknown: do not use it";
    }
}

static void job_describe_failure(const struct vaai_nas_order *order, int error, const struct fileops_clone_result *result,
                                 char reason[VAAI_NAS_REASON_SIZE])
{
    const char *what = strerrordesc_np(error);

    if ((error == EXDEV || error == EOPNOTSUPP) && result->refused == FILEOPS_FALLBACK_THICK)
        what = "a thick datastore shares no blocks: only a full clone is possible";
    else if (error == EXDEV)
        what = "source and destination can't share blocks: other pool, file system or encryption key";
    else if (error == EOPNOTSUPP)
        what = "the file system can't share these blocks";
    else if (error == EEXIST)
        what = "the destination holds data";
    else if (error == EBUSY)
        what = "the source is being written, or one of the files truncated";
    else if (error == EAGAIN)
        what = "the files of the thick datastore are still being counted";
    snprintf(reason, VAAI_NAS_REASON_SIZE, "%s; %s", what != NULL ? what : "unknown error", job_describe_remains(order, result));
}

static enum vaai_nas_status job_status_of_clone(int error)
{
    return error == EXDEV ? VAAI_NAS_NOT_SUPPORTED : vaai_nas_status_of_errno(error);
}

static void job_to_request(const struct vaai_nas_order *order, struct fileops_clone_request *request)
{
    const struct vaai_nas_clone *clone = &order->clone;
    bool by_name = clone->name[0] != 0;

    *request = (struct fileops_clone_request){
        .mode = clone->fast ? FILEOPS_CLONE_FAST : FILEOPS_CLONE_FULL,
        .source = order->source.fd,
        .destination = by_name ? -1 : order->destination.fd,
        .directory = by_name ? order->destination.fd : -1,
        .name = by_name ? clone->name : NULL,
        .owner = order->destination.owner,
        .group = order->destination.group,
        .mode_bits = order->mode,
        .source_dataset = order->source.dataset,
        .destination_dataset = order->destination.dataset,
    };
}

void jobs_free_order(const struct vaai_nas_adapter *adapter, struct vaai_nas_order *order)
{
    adapter->close(&order->source);
    adapter->close(&order->destination);
    free(order);
}

/* Records the result, while the files are still open. */
static void job_describe_end(const struct vaai_nas_order *order, int error, bool given_up,
                             const struct fileops_clone_result *result, struct vaai_nas_job *end)
{
    end->cloned_bytes = result->cloned;
    end->copied_bytes = result->copied;
    end->hole_bytes = result->holes;
    memcpy(end->fallback_bytes, result->fallback, sizeof(end->fallback_bytes));
    end->status = job_status_of_clone(error);
    if (error == 0) {
        end->state = VAAI_NAS_COMPLETE;
        end->done_bytes = end->total_bytes = result->done;
        job_describe_fallback(result, end->reason);
        return;
    }
    end->state = VAAI_NAS_FAILED;
    if (error == ECANCELED && given_up) {
        end->status = VAAI_NAS_BUSY;
        snprintf(end->reason, VAAI_NAS_REASON_SIZE, "the clone took longer than the client can wait; %s",
                 job_describe_remains(order, result));
    } else {
        job_describe_failure(order, error, result, end->reason);
    }
}

static void job_count(struct vaai_nas_jobs *jobs, const struct job *job, const struct vaai_nas_job *end,
                      const struct fileops_clone_result *result)
{
    const struct vaai_nas_order *order = job->order;

    vaai_nas_count_clone(jobs->counters, order->host, order->destination.export_path, result);
    vaai_nas_count(jobs->counters, order->host, order->destination.export_path,
                   order->clone.fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE, end->status, 0, &job->began);
}

/* Without the lock. The job is in no queue. */
static void job_finish(struct job *job, int error, const struct fileops_clone_result *result)
{
    struct vaai_nas_jobs *jobs = job->jobs;
    struct vaai_nas_order *order = job->order;
    struct vaai_nas_job end;

    jobs->adapter->changed(&order->destination);
    pthread_mutex_lock(&jobs->lock);
    end = job->shown;
    const bool given_up = job->given_up;
    pthread_mutex_unlock(&jobs->lock);
    job_describe_end(order, error, given_up, result, &end);
    job_count(jobs, job, &end, result);
    jobs_free_order(jobs->adapter, order); /* before a caller can see the job as ended */

    pthread_mutex_lock(&jobs->lock);
    job->order = NULL;
    job->shown = end;
    job->lane->active--;
    pthread_cond_broadcast(&jobs->ended);
    pthread_mutex_unlock(&jobs->lock);
}

static void job_run(struct job *job, bool cancelled)
{
    struct vaai_nas_order *order = job->order;
    struct fileops_clone_result result = {0};
    struct fileops_clone_request request;
    int error = cancelled ? ECANCELED : 0;

    if (error == 0) {
        job_to_request(order, &request);
        request.progress = job_progress;
        request.progress_context = job;
        error = fileops_clone(&request, &result);
    }
    job_finish(job, error, &result);
}

/* Running clones of the job's kind and host. */
static size_t job_running_of_host(const struct job *job)
{
    size_t count = 0;

    for (const struct job *other = job->jobs->newest; other != NULL; other = other->older)
        count += other->lane == job->lane && other->shown.state == VAAI_NAS_RUNNING && other->clone.fast == job->clone.fast &&
                 strcmp(other->shown.host, job->shown.host) == 0;
    return count;
}

/* Copies never take the threads of fast clones, and a host at most half of either. */
static bool job_may_start(const struct job *job)
{
    const unsigned int workers = job->jobs->workers, of_host = workers > 1 ? workers / 2 : 1;

    return job->cancelled || (job->lane->running[job->clone.fast] < workers && job_running_of_host(job) < of_host);
}

static void job_unqueue(struct job **link)
{
    struct job *job = *link;

    *link = job->queued_next;
    job->queued_next = NULL;
    job->shown.state = VAAI_NAS_RUNNING;
}

/* Takes the oldest job that may start out of the queue. */
static struct job *job_take(struct lane *lane)
{
    for (struct job **link = &lane->head; *link != NULL; link = &(*link)->queued_next)
        if (job_may_start(*link)) {
            struct job *job = *link;
            job_unqueue(link);
            return job;
        }
    return NULL;
}

static void *job_work(void *argument)
{
    struct lane *lane = argument;
    struct vaai_nas_jobs *jobs = lane->jobs;

    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct job *job = job_take(lane);
        if (job == NULL && jobs->stopping)
            break;
        if (job == NULL) {
            lane->idle++;
            pthread_cond_wait(&lane->work, &jobs->lock);
            lane->idle--;
            continue;
        }
        const bool fast = job->clone.fast, cancelled = job->cancelled;
        lane->running[fast]++;
        pthread_mutex_unlock(&jobs->lock);
        job_run(job, cancelled);
        pthread_mutex_lock(&jobs->lock);
        lane->running[fast]--; /* at most one more job may start, which this thread takes */
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

struct lane *lane_find(struct vaai_nas_jobs *jobs, const struct vaai_nas_order *order)
{
    struct lane *lane = jobs->lanes;

    while (lane != NULL &&
           (strcmp(lane->source, order->source.pool) != 0 || strcmp(lane->destination, order->destination.pool) != 0))
        lane = lane->next;
    if (lane != NULL)
        return lane;
    lane = calloc(1, sizeof(*lane));
    if (lane == NULL)
        return NULL;
    lane->jobs = jobs;
    memcpy(lane->source, order->source.pool, sizeof(lane->source));
    memcpy(lane->destination, order->destination.pool, sizeof(lane->destination));
    pthread_cond_init(&lane->work, NULL);
    lane->next = jobs->lanes;
    jobs->lanes = lane;
    return lane;
}

bool lane_enqueue(struct lane *lane, struct job *job)
{
    struct job **tail = &lane->head;
    size_t waiting = 0;

    for (; *tail != NULL; tail = &(*tail)->queued_next)
        waiting++;
    if (waiting >= lane->idle && lane->threads < 2 * lane->jobs->workers &&
        pthread_create(&lane->thread[lane->threads], NULL, job_work, lane) == 0)
        lane->threads++;
    if (lane->threads == 0)
        return false;
    *tail = job;
    lane->active++;
    pthread_cond_signal(&lane->work);
    return true;
}

void job_cancel(struct job *job)
{
    static const struct fileops_clone_result nothing;
    struct vaai_nas_jobs *jobs = job->jobs;

    job->cancelled = true;
    for (struct job **link = &job->lane->head; *link != NULL; link = &(*link)->queued_next)
        if (*link == job) {
            job_unqueue(link);
            pthread_mutex_unlock(&jobs->lock);
            job_finish(job, ECANCELED, &nothing);
            pthread_mutex_lock(&jobs->lock);
            return;
        }
}
