/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "program.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(VAAI_NAME_MAX == VAAI_NAS_NAME_SIZE && VAAI_HANDLE_MAX == VAAI_NAS_HANDLE_SIZE &&
                   VAAI_MESSAGE_MAX == VAAI_NAS_REASON_SIZE - 1 && VAAI_REQUEST_ID_LENGTH == VAAI_NAS_REQUEST_ID_SIZE,
               "vaai_nas.x and the service have the same bounds");
_Static_assert(VAAI_ERROR_FAULT == (int)VAAI_NAS_FAULT && VAAI_ERROR_FAULT + 1 == VAAI_NAS_STATUS_COUNT &&
                   VAAI_ERROR_BUSY == (int)VAAI_NAS_BUSY && VAAI_ERROR_NO_SPACE == (int)VAAI_NAS_NO_SPACE,
               "vaai_error and enum vaai_nas_status are of one order");

static void to_handle(const vaai_file_handle *from, struct vaai_nas_handle *to)
{
    to->length = from->vaai_file_handle_len; /* within bounds: XDR has checked */
    if (to->length > 0)
        memcpy(to->bytes, from->vaai_file_handle_val, to->length);
}

/* XDR strings can't be NULL; without memory the peer gets an encoding error. */
static char *copy_text(const char *text)
{
    return strdup(text);
}

static void show_job(const struct vaai_nas_job *from, vaai_job *to)
{
    to->id = from->id;
    memcpy(to->request_id, from->request_id, VAAI_REQUEST_ID_LENGTH);
    to->state = (vaai_job_state)from->state;
    to->error = (vaai_error)from->status;
    to->total_bytes = from->total_bytes;
    to->done_bytes = from->done_bytes;
    to->cloned_bytes = from->cloned_bytes;
    to->copied_bytes = from->copied_bytes;
    to->elapsed_milliseconds = from->elapsed_milliseconds;
    to->host = copy_text(from->host);
    to->name = copy_text(from->name);
    to->reason = copy_text(from->reason);
}

static void job_result(enum vaai_nas_status status, const struct vaai_nas_job *job, const char *reason, vaai_job_result *result)
{
    result->error = (vaai_error)status;
    if (status == VAAI_NAS_OK)
        show_job(job, &result->vaai_job_result_u.job);
    else
        result->vaai_job_result_u.reason = copy_text(reason);
}

static void statistics_result(enum vaai_nas_status status, const struct vaai_nas_statistics *from, const char *reason,
                              vaai_statistics_result *result)
{
    vaai_statistics *to = &result->vaai_statistics_result_u.statistics;

    result->error = (vaai_error)status;
    if (status != VAAI_NAS_OK) {
        result->vaai_statistics_result_u.reason = copy_text(reason);
        return;
    }
    to->total_bytes = from->total_bytes;
    to->allocated_bytes = from->allocated_bytes;
    to->unique_bytes = from->unique_bytes;
    to->unique_exact = from->unique_exact;
    to->reserved_bytes = from->reserved_bytes;
}

static void serve_capabilities(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                               const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    struct vaai_nas_handle handle;
    struct vaai_nas_capabilities found;
    vaai_capabilities *to = &results->capabilities.vaai_capabilities_result_u.capabilities;

    to_handle(&arguments->handle, &handle);
    results->capabilities.error = (vaai_error)vaai_nas_get_capabilities(service, caller, &handle, &found);
    to->clone = found.clone;
    to->fast_clone = found.fast_clone;
    to->reserve = found.reserve;
    to->statistics = found.statistics;
    to->unique_exact = found.unique_exact;
}

static void serve_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                        const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    const vaai_clone_arguments *from = &arguments->clone;
    struct vaai_nas_clone clone = {
        .fast = from->fast,
        .guarded = from->guarded,
        .dry_run = from->dry_run,
        .range = from->range,
        .source_offset = from->source_offset,
        .destination_offset = from->destination_offset,
        .length = from->length,
    };
    char reason[VAAI_NAS_REASON_SIZE] = "";
    uint32_t wait = from->wait_milliseconds;
    struct vaai_nas_job job;

    memcpy(clone.request_id, from->request_id, sizeof(clone.request_id));
    to_handle(&from->source, &clone.source);
    to_handle(&from->destination, &clone.destination);
    strcpy(clone.name, from->name); /* within bounds: XDR has checked */
    if (wait > VAAI_NAS_WAIT_MAX_MILLISECONDS)
        wait = VAAI_NAS_WAIT_MAX_MILLISECONDS;
    enum vaai_nas_status status = vaai_nas_start_clone(service, caller, &clone, wait, &job, reason);
    job_result(status, &job, reason, &results->job);
}

static void serve_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                          const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    char reason[VAAI_NAS_REASON_SIZE] = "";
    struct vaai_nas_statistics statistics;
    struct vaai_nas_handle handle;

    to_handle(&arguments->handle, &handle);
    enum vaai_nas_status status = vaai_nas_reserve(service, caller, &handle, &statistics, reason);
    statistics_result(status, &statistics, reason, &results->statistics);
}

static void serve_statistics(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                             const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    struct vaai_nas_statistics statistics;
    struct vaai_nas_handle handle;

    to_handle(&arguments->handle, &handle);
    enum vaai_nas_status status = vaai_nas_get_statistics(service, caller, &handle, &statistics);
    statistics_result(status, &statistics, "", &results->statistics);
}

static void serve_job_status(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                             const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    struct vaai_nas_handle handle;
    struct vaai_nas_job job;

    to_handle(&arguments->job.file, &handle);
    enum vaai_nas_status status =
        vaai_nas_get_job(service, caller, &handle, arguments->job.id, arguments->job.wait_milliseconds, &job);
    job_result(status, &job, status == VAAI_NAS_INTERRUPTED ? "the server was restarted since: clone again" : "", &results->job);
}

static void serve_job_list(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                           const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    struct vaai_nas_job *jobs = calloc(VAAI_LISTED_JOBS_MAX, sizeof(*jobs));
    vaai_jobs_result *result = &results->jobs;
    uint32_t count = VAAI_LISTED_JOBS_MAX;
    struct vaai_nas_handle handle;

    to_handle(&arguments->handle, &handle);
    result->error = jobs == NULL ? VAAI_ERROR_FAULT : (vaai_error)vaai_nas_list_jobs(service, caller, &handle, jobs, &count);
    if (result->error == VAAI_ERROR_NONE && count > 0) {
        vaai_job *list = calloc(count, sizeof(*list));
        if (list == NULL) {
            result->error = VAAI_ERROR_FAULT;
        } else {
            for (uint32_t i = 0; i < count; i++)
                show_job(&jobs[i], &list[i]);
            result->vaai_jobs_result_u.jobs.jobs_val = list;
            result->vaai_jobs_result_u.jobs.jobs_len = count;
        }
    }
    free(jobs);
}

static void serve_job_cancel(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                             const union vaai_nas_program_arguments *arguments, union vaai_nas_program_results *results)
{
    struct vaai_nas_handle handle;
    struct vaai_nas_job job;

    to_handle(&arguments->cancel.destination, &handle);
    enum vaai_nas_status status = arguments->cancel.id == 0
                                      ? VAAI_NAS_INVALID
                                      : vaai_nas_cancel_job(service, caller, &handle, arguments->cancel.id, &job);
    job_result(status, &job, "", &results->job);
}

static const struct vaai_nas_program_procedure procedures[] = {
    [VAAI_NAS_PROC_NULL] = {(xdrproc_t)xdr_void, (xdrproc_t)xdr_void, NULL},
    [VAAI_NAS_PROC_CAPABILITIES] = {(xdrproc_t)xdr_vaai_file_handle, (xdrproc_t)xdr_vaai_capabilities_result, serve_capabilities},
    [VAAI_NAS_PROC_CLONE] = {(xdrproc_t)xdr_vaai_clone_arguments, (xdrproc_t)xdr_vaai_job_result, serve_clone},
    [VAAI_NAS_PROC_RESERVE] = {(xdrproc_t)xdr_vaai_file_handle, (xdrproc_t)xdr_vaai_statistics_result, serve_reserve},
    [VAAI_NAS_PROC_STATISTICS] = {(xdrproc_t)xdr_vaai_file_handle, (xdrproc_t)xdr_vaai_statistics_result, serve_statistics},
    [VAAI_NAS_PROC_JOB_STATUS] = {(xdrproc_t)xdr_vaai_job_arguments, (xdrproc_t)xdr_vaai_job_result, serve_job_status},
    [VAAI_NAS_PROC_JOB_LIST] = {(xdrproc_t)xdr_vaai_file_handle, (xdrproc_t)xdr_vaai_jobs_result, serve_job_list},
    [VAAI_NAS_PROC_JOB_CANCEL] = {(xdrproc_t)xdr_vaai_cancel_arguments, (xdrproc_t)xdr_vaai_job_result, serve_job_cancel},
};

const struct vaai_nas_program_procedure *vaai_nas_program_procedure(uint32_t number)
{
    return number < sizeof(procedures) / sizeof(procedures[0]) ? &procedures[number] : NULL;
}
