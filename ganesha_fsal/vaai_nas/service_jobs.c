/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* What clients are told of jobs, and who is told. */
#include "service_internal.h"

#include <stdlib.h>
#include <string.h>

/* Who may write where a job writes, as starting it needed. */
static bool may_write(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                      const struct vaai_nas_handle *destination)
{
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_MAY_WRITE, &file);

    if (status == VAAI_NAS_IS_DIRECTORY)
        status = service_open(service, caller, destination, VAAI_NAS_CREATE, &file);
    service_close(service, &file);
    return status == VAAI_NAS_OK;
}

/* Whether the caller, whose look at the export opened `file`, is who asked for the job. */
static bool is_whose(const struct vaai_nas_listed_job *job, const struct vaai_nas_caller *caller, const struct vaai_nas_file *file)
{
    return job->owner == file->owner && strcmp(job->job.host, caller->host) == 0;
}

static bool may_know(struct vaai_nas_service *service, const struct vaai_nas_caller *caller, const struct vaai_nas_file *file,
                     const struct vaai_nas_listed_job *job)
{
    return caller->local || is_whose(job, caller, file) || may_write(service, caller, &job->destination);
}

enum vaai_nas_status vaai_nas_get_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, uint64_t id, uint32_t wait_milliseconds,
                                      struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_listed_job found;
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, handle, VAAI_NAS_LOOK, &file);

    if (wait_milliseconds > VAAI_NAS_WAIT_MAX_MILLISECONDS)
        wait_milliseconds = VAAI_NAS_WAIT_MAX_MILLISECONDS;
    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_get(service->jobs, id, file.export_id, 0, &found);
    if (status == VAAI_NAS_OK && !may_know(service, caller, &file, &found))
        status = VAAI_NAS_NOT_FOUND;
    if (status == VAAI_NAS_OK && wait_milliseconds != 0)
        status = vaai_nas_jobs_get(service->jobs, id, file.export_id, wait_milliseconds, &found);
    if (status == VAAI_NAS_OK)
        *job = found.job;
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct vaai_nas_handle *destination, struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_listed_job found;
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_get_of_file(service->jobs, file.device, file.inode, &found);
    if (status == VAAI_NAS_OK && !may_know(service, caller, &file, &found))
        status = VAAI_NAS_NOT_FOUND;
    if (status == VAAI_NAS_OK)
        *job = found.job;
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

/* Those of `all` that the caller may know. Jobs that follow one another often have one destination: it is asked for once. */
static uint32_t select_known(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                             const struct vaai_nas_file *file, const struct vaai_nas_listed_job *all, uint32_t count,
                             struct vaai_nas_job *known)
{
    const struct vaai_nas_handle *asked = NULL;
    bool may = false;
    uint32_t used = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct vaai_nas_handle *destination = &all[i].destination;
        if (!is_whose(&all[i], caller, file)) {
            if (asked == NULL || asked->length != destination->length ||
                memcmp(asked->bytes, destination->bytes, asked->length) != 0)
                may = may_write(service, caller, destination);
            asked = destination;
            if (!may)
                continue;
        }
        known[used++] = all[i].job;
    }
    return used;
}

enum vaai_nas_status vaai_nas_list_jobs(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                        const struct vaai_nas_handle *handle, struct vaai_nas_job *jobs, uint32_t *count)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_listed_job *all = calloc(*count, sizeof(*all));
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, handle, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK && all == NULL)
        status = VAAI_NAS_FAULT;
    if (status == VAAI_NAS_OK) {
        vaai_nas_jobs_list(service->jobs, file.export_id, all, count);
        *count = select_known(service, caller, &file, all, *count, jobs);
    }
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    free(all);
    return status;
}

enum vaai_nas_status vaai_nas_cancel_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                         const struct vaai_nas_handle *destination, uint64_t id, struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_MAY_WRITE, &file);

    if (status == VAAI_NAS_IS_DIRECTORY) /* of a clone that makes a name in it */
        status = service_open(service, caller, destination, VAAI_NAS_CREATE, &file);
    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_cancel(service->jobs, id, file.device, file.inode, job);
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

bool vaai_nas_cancel_export(struct vaai_nas_service *service, uint16_t export_id, uint32_t wait_milliseconds)
{
    const struct timespec until = vaai_nas_moment_in(wait_milliseconds);
    const bool jobs_ended = vaai_nas_jobs_cancel_export(service->jobs, export_id, &until);

    return file_calls_wait(&service->file_calls, export_id, &until) && jobs_ended;
}
