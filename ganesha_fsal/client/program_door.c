/* SPDX-License-Identifier: Apache-2.0 */
/* The program of vaai_nas.x. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "session.h"
#include "vaai_nas.h"

#define POLL_MILLISECONDS 1000u

static vaai_file_handle from_handle(const struct handle *handle)
{
    return (vaai_file_handle){.vaai_file_handle_len = handle->length, .vaai_file_handle_val = (char *)(uintptr_t)handle->bytes};
}

static enum vaainas_error refused(struct vaainas_failure *failure, vaai_error error, const char *reason)
{
    const char *name = vaainas_error_name((enum vaainas_error)error);

    return reason != NULL && reason[0] != 0 ? fail(failure, (enum vaainas_error)error, "%s", reason)
                                            : fail(failure, (enum vaainas_error)error, "the server answered %s; nothing was changed", name);
}

static enum vaainas_error supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                    struct vaainas_failure *failure)
{
    vaai_file_handle root = from_handle(&session->root);
    vaai_capabilities_result result = {0};
    enum vaainas_error error = call(&session->program, REPEATABLE, VAAI_NAS_PROC_CAPABILITIES, (xdrproc_t)xdr_vaai_file_handle, &root,
                                    (xdrproc_t)xdr_vaai_capabilities_result, &result, sizeof(result), failure);

    if (error != VAAINAS_OK)
        return error;
    if (result.error != VAAI_ERROR_NONE)
        return refused(failure, result.error,
                       result.error == VAAI_ERROR_NOT_SUPPORTED ? "the export is not served by FSAL ZVAAI: it has no VAAI-NAS" : NULL);
    const vaai_capabilities *found = &result.vaai_capabilities_result_u.capabilities;
    capabilities->clone = found->clone;
    capabilities->fast_clone = found->fast_clone;
    capabilities->reserve = found->reserve;
    capabilities->statistics = found->statistics;
    capabilities->unique_exact = found->unique_exact;
    return VAAINAS_OK;
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

static void to_job(const vaai_job *from, struct vaainas_job *to)
{
    to->id = from->id;
    to->state = (enum vaainas_job_state)from->state;
    to->error = (enum vaainas_error)from->error;
    to->total_bytes = from->total_bytes;
    to->done_bytes = from->done_bytes;
    to->cloned_bytes = from->cloned_bytes;
    to->copied_bytes = from->copied_bytes;
    to->elapsed_milliseconds = from->elapsed_milliseconds;
    copy_text(to->host, sizeof(to->host), from->host);
    copy_text(to->name, sizeof(to->name), from->name);
    copy_text(to->reason, sizeof(to->reason), from->reason);
}

/* A call whose result is a job. */
static enum vaainas_error call_job(struct vaainas_session *session, unsigned long procedure, xdrproc_t encode, const void *arguments,
                                   struct vaainas_job *job, struct vaainas_failure *failure)
{
    vaai_job_result result;

    memset(&result, 0, sizeof(result));
    enum vaainas_error error =
        call(&session->program, REPEATABLE, procedure, encode, arguments, (xdrproc_t)xdr_vaai_job_result, &result, sizeof(result), failure);
    if (error != VAAINAS_OK)
        return error;
    if (result.error == VAAI_ERROR_NONE)
        to_job(&result.vaai_job_result_u.job, job);
    else
        error = refused(failure, result.error, result.vaai_job_result_u.reason);
    xdr_free((xdrproc_t)xdr_vaai_job_result, (char *)&result);
    return error;
}

static enum vaainas_error end_job(struct vaainas_session *session, const struct handle *destination, uint64_t job,
                                  struct vaainas_job *ended, struct vaainas_failure *failure)
{
    vaai_cancel_arguments arguments = {.destination = from_handle(destination), .id = job};

    return call_job(session, VAAI_NAS_PROC_JOB_CANCEL, (xdrproc_t)xdr_vaai_cancel_arguments, &arguments, ended, failure);
}

static bool has_ended(const struct vaainas_job *job)
{
    return job->state == VAAINAS_JOB_COMPLETE || job->state == VAAINAS_JOB_FAILED;
}

static enum vaainas_error cancel(struct vaainas_session *session, const struct handle *destination, uint64_t job,
                                 struct vaainas_failure *failure)
{
    struct vaainas_job ended;

    if (job == 0)
        return fail(failure, VAAINAS_INVALID, "say which job; `jobs` lists them");
    enum vaainas_error error = end_job(session, destination, job, &ended, failure);
    if (error == VAAINAS_OK && !has_ended(&ended))
        error = fail(failure, VAAINAS_BUSY, "job %llu was told to end, and has not yet", (unsigned long long)job);
    return error;
}

static enum vaainas_error stop(struct vaainas_session *session, const struct handle *destination, uint64_t job,
                               enum vaainas_error error, const char *why, struct vaainas_failure *failure)
{
    struct vaainas_job ended;

    if (end_job(session, destination, job, &ended, failure) != VAAINAS_OK)
        return fail(failure, error, "%s; job %llu could not be cancelled, and may be going on", why, (unsigned long long)job);
    if (!has_ended(&ended))
        return fail(failure, error, "%s; job %llu was told to end, and has not yet: don't use the destination before", why,
                    (unsigned long long)job);
    if (ended.state == VAAINAS_JOB_COMPLETE)
        return fail(failure, error, "%s; but the clone was complete before, and is there", why);
    return fail(failure, error, "%s: %s", why, ended.reason);
}

/* A server at which too many wait answers at once. */
static void sleep_until(const struct timespec *begun, unsigned int milliseconds)
{
    struct timespec until = *begun;

    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static enum vaainas_error wait_for_end(struct vaainas_session *session, const struct vaainas_clone *clone,
                                       const struct handle *destination, struct vaainas_job *job, struct vaainas_failure *failure)
{
    vaai_job_arguments arguments = {.file = from_handle(&session->root), .id = job->id, .wait_milliseconds = POLL_MILLISECONDS};
    time_t moved = time(NULL);
    uint64_t done = job->done_bytes;
    unsigned int failing = 0;
    struct timespec begun;

    while (!has_ended(job)) {
        clock_gettime(CLOCK_MONOTONIC, &begun);
        enum vaainas_error error =
            call_job(session, VAAI_NAS_PROC_JOB_STATUS, (xdrproc_t)xdr_vaai_job_arguments, &arguments, job, failure);
        if (error == VAAINAS_UNREACHABLE && ++failing <= FAILING_POLLS_MAX) {
            sleep_until(&begun, POLL_MILLISECONDS);
            continue;
        }
        if (error != VAAINAS_OK)
            return error;
        failing = 0;
        if (job->done_bytes != done || job->state == VAAINAS_JOB_WAITING)
            moved = time(NULL);
        done = job->done_bytes;
        bool go_on = clone->progress == NULL || clone->progress(clone->context, job->done_bytes, job->total_bytes);
        if (has_ended(job))
            break;
        if (!go_on)
            return stop(session, destination, job->id, VAAINAS_CANCELLED, "cancelled", failure);
        if (time(NULL) - moved > STUCK_SECONDS)
            return stop(session, destination, job->id, VAAINAS_STUCK, "nothing moved for 300 s", failure);
        sleep_until(&begun, POLL_MILLISECONDS);
    }
    return job->state == VAAINAS_JOB_COMPLETE ? VAAINAS_OK : fail(failure, job->error, "%s", job->reason);
}

static enum vaainas_error clone_file(struct vaainas_session *session, const struct vaainas_clone *clone, const struct found *source,
                                     const struct found *destination, struct vaainas_clone_result *result, bool *begun,
                                     struct vaainas_failure *failure)
{
    const struct handle *to = destination->exists ? &destination->object : &destination->parent;
    vaai_clone_arguments arguments = {
        .source = from_handle(&source->object),
        .destination = from_handle(to),
        .name = destination->exists ? (char *)(uintptr_t)"" : (char *)(uintptr_t)destination->name,
        .fast = (clone->flags & VAAINAS_FAST) != 0,
        .guarded = (clone->flags & VAAINAS_GUARDED) != 0,
        .dry_run = (clone->flags & VAAINAS_DRY_RUN) != 0,
        .range = clone->range,
        .source_offset = clone->source_offset,
        .destination_offset = clone->destination_offset,
        .length = clone->length,
        .wait_milliseconds = POLL_MILLISECONDS,
    };
    struct vaainas_job job = {0};

    if (getrandom(arguments.request_id, sizeof(arguments.request_id), 0) != sizeof(arguments.request_id))
        return fail(failure, VAAINAS_NO_MEMORY, "the system gave no random number");
    enum vaainas_error error =
        call_job(session, VAAI_NAS_PROC_CLONE, (xdrproc_t)xdr_vaai_clone_arguments, &arguments, &job, failure);
    *begun = error == VAAINAS_OK;
    if (error == VAAINAS_OK && !arguments.dry_run)
        error = wait_for_end(session, clone, to, &job, failure);
    result->job = job.id;
    result->done_bytes = job.done_bytes;
    result->ways_known = true;
    result->cloned_bytes = job.cloned_bytes;
    result->copied_bytes = job.copied_bytes;
    copy_text(result->reason, sizeof(result->reason), job.reason);
    return error;
}

static enum vaainas_error statistics(struct vaainas_session *session, const struct handle *file, bool reserve,
                                     struct vaainas_statistics *statistics, struct vaainas_failure *failure)
{
    vaai_file_handle handle = from_handle(file);
    vaai_statistics_result result;

    memset(&result, 0, sizeof(result));
    enum vaainas_error error =
        call(&session->program, REPEATABLE, reserve ? VAAI_NAS_PROC_RESERVE : VAAI_NAS_PROC_STATISTICS, (xdrproc_t)xdr_vaai_file_handle, &handle,
             (xdrproc_t)xdr_vaai_statistics_result, &result, sizeof(result), failure);
    if (error != VAAINAS_OK)
        return error;
    if (result.error == VAAI_ERROR_NONE) {
        const vaai_statistics *found = &result.vaai_statistics_result_u.statistics;
        statistics->total_bytes = found->total_bytes;
        statistics->allocated_bytes = found->allocated_bytes;
        statistics->unique_bytes = found->unique_bytes;
        statistics->unique_exact = found->unique_exact;
        statistics->reserved_bytes = found->reserved_bytes;
    } else {
        error = refused(failure, result.error, result.vaai_statistics_result_u.reason);
    }
    xdr_free((xdrproc_t)xdr_vaai_statistics_result, (char *)&result);
    return error;
}

static enum vaainas_error jobs(struct vaainas_session *session, struct vaainas_job *list, size_t *count,
                               struct vaainas_failure *failure)
{
    vaai_file_handle root = from_handle(&session->root);
    vaai_jobs_result result;
    size_t room = *count;

    memset(&result, 0, sizeof(result));
    *count = 0;
    enum vaainas_error error = call(&session->program, REPEATABLE, VAAI_NAS_PROC_JOB_LIST, (xdrproc_t)xdr_vaai_file_handle, &root,
                                    (xdrproc_t)xdr_vaai_jobs_result, &result, sizeof(result), failure);
    if (error != VAAINAS_OK)
        return error;
    if (result.error != VAAI_ERROR_NONE) {
        error = refused(failure, result.error, NULL);
    } else {
        while (*count < room && *count < result.vaai_jobs_result_u.jobs.jobs_len) {
            to_job(&result.vaai_jobs_result_u.jobs.jobs_val[*count], &list[*count]);
            (*count)++;
        }
    }
    xdr_free((xdrproc_t)xdr_vaai_jobs_result, (char *)&result);
    return error;
}

const struct door program_door = {supported, clone_file, statistics, jobs, cancel};
