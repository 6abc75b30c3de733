/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Jobs that clients may see. */
#include "service_internal.h"

#include <string.h>

static bool service_may_write(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                              const struct vaai_nas_handle *destination)
{
    struct vaai_nas_file file;
    const enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_MAY_WRITE, &file);

    service_close(service, &file);
    return status == VAAI_NAS_OK;
}

enum vaai_nas_status vaai_nas_get_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct vaai_nas_handle *destination, struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_listed_job listed;
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_INSPECT, &file);

    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_get_of_file(service->jobs, file.device, file.inode, &listed);
    if (status == VAAI_NAS_OK && (listed.owner != file.owner || strcmp(listed.job.host, caller->host) != 0) &&
        !service_may_write(service, caller, &listed.destination))
        status = VAAI_NAS_NOT_FOUND;
    if (status == VAAI_NAS_OK)
        *job = listed.job;
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_cancel_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                                 const struct vaai_nas_handle *destination, struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, destination, VAAI_NAS_MAY_WRITE, &file);

    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_cancel_of_file(service->jobs, file.device, file.inode, job);
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
