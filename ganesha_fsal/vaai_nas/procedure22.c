/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "procedure22.h"

#include <string.h>

/* nfsstat3, RFC 1813 2.6. Separate names, because the core's files include no headers of an NFS server. */
enum {
    STATUS_OK = 0,
    STATUS_NOENT = 2,
    STATUS_IO = 5,
    STATUS_ACCES = 13,
    STATUS_EXIST = 17,
    STATUS_NOTDIR = 20,
    STATUS_ISDIR = 21,
    STATUS_INVAL = 22,
    STATUS_FBIG = 27,
    STATUS_NOSPC = 28,
    STATUS_ROFS = 30,
    STATUS_NAMETOOLONG = 63,
    STATUS_STALE = 70,
    STATUS_BADHANDLE = 10001,
    STATUS_NOTSUPP = 10004,
    STATUS_SERVERFAULT = 10006,
    STATUS_JUKEBOX = 10008,
};

static const uint32_t nfs_status[VAAI_NAS_STATUS_COUNT] = {
    [VAAI_NAS_OK] = STATUS_OK,
    [VAAI_NAS_NOT_FOUND] = STATUS_NOENT,
    [VAAI_NAS_ACCESS] = STATUS_ACCES,
    [VAAI_NAS_BAD_HANDLE] = STATUS_BADHANDLE,
    [VAAI_NAS_STALE] = STATUS_STALE,
    [VAAI_NAS_EXISTS] = STATUS_EXIST,
    [VAAI_NAS_NOT_DIRECTORY] = STATUS_NOTDIR,
    [VAAI_NAS_IS_DIRECTORY] = STATUS_ISDIR,
    [VAAI_NAS_READ_ONLY] = STATUS_ROFS,
    [VAAI_NAS_NO_SPACE] = STATUS_NOSPC,
    [VAAI_NAS_FILE_TOO_LARGE] = STATUS_FBIG,
    [VAAI_NAS_NAME_TOO_LONG] = STATUS_NAMETOOLONG,
    [VAAI_NAS_INVALID] = STATUS_INVAL,
    [VAAI_NAS_BUSY] = STATUS_JUKEBOX,
    [VAAI_NAS_CANCELLED] = STATUS_IO,
    [VAAI_NAS_NOT_SUPPORTED] = STATUS_NOTSUPP,
    [VAAI_NAS_INPUT_OUTPUT] = STATUS_IO,
    [VAAI_NAS_INTERRUPTED] = STATUS_IO,
    [VAAI_NAS_FAULT] = STATUS_SERVERFAULT,
};

static void procedure22_fail(struct procedure22_result *result, enum vaai_nas_status status)
{
    result->status = nfs_status[status];
    if (status == VAAI_NAS_BUSY)
        result->result = PROCEDURE22_BUSY;
    else if (status == VAAI_NAS_NO_SPACE)
        result->result = PROCEDURE22_DISK_FULL;
}

static void procedure22_to_handle(const struct procedure22_handle *from, struct vaai_nas_handle *to)
{
    to->length = from->length;
    memcpy(to->bytes, from->bytes, from->length);
}

static void procedure22_show_progress(const struct vaai_nas_job *job, struct procedure22_result *result)
{
    switch (job->state) {
    case VAAI_NAS_WAITING:
        result->clone_flag = PROCEDURE22_STARTED;
        break;
    case VAAI_NAS_RUNNING:
        result->clone_flag = PROCEDURE22_COPYING;
        break;
    case VAAI_NAS_COMPLETE:
        result->clone_flag = PROCEDURE22_COMPLETE;
        break;
    case VAAI_NAS_FAILED:
        procedure22_fail(result, job->status);
        break;
    }
    result->clone_offset = job->done_bytes;
}

/*
 * The destination's handle says which clone is requested. The plug-in creates the file for a full clone, and polls until the clone ends.
 * For a fast clone the handle is the directory and the server makes the file. The plug-in takes that response as completion.
 * Within one export a fast clone shares blocks or is refused.
 */
static void procedure22_clone_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                   const struct procedure22_request *request, struct procedure22_result *result)
{
    struct vaai_nas_clone clone = {0};
    struct vaai_nas_job job;

    if (request->kind != PROCEDURE22_NEED_SOURCE) {
        procedure22_fail(result, VAAI_NAS_INVALID);
        return;
    }
    procedure22_to_handle(&request->destination, &clone.destination);
    procedure22_to_handle(&request->source, &clone.source);
    enum vaai_nas_status status = vaai_nas_clone_handles(service, caller, &clone, request->name, &job);
    if (status == VAAI_NAS_OK)
        procedure22_show_progress(&job, result);
    else
        procedure22_fail(result, status);
}

static void procedure22_supported(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                  const struct procedure22_request *request, const struct vaai_nas_handle *handle,
                                  struct procedure22_result *result)
{
    struct vaai_nas_capabilities capabilities;
    enum vaai_nas_status status = vaai_nas_get_capabilities(service, caller, handle, &capabilities);

    if (status != VAAI_NAS_OK) {
        procedure22_fail(result, status);
        return;
    }
    /* A plug-in takes "not supported" as success. So Reserve Space is always supported, and refused as disk full. */
    bool yes = request->command == PROCEDURE22_CLONE_SUPPORTED     ? capabilities.clone
               : request->command == PROCEDURE22_RESERVE_SUPPORTED ? true
                                                                   : capabilities.statistics;
    if (!yes)
        result->result = PROCEDURE22_NOT_SUPPORTED;
}

static void procedure22_statistics_or_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct procedure22_request *request, const struct vaai_nas_handle *handle,
                                              struct procedure22_result *result)
{
    struct fileops_statistics statistics;
    enum vaai_nas_status status = request->command == PROCEDURE22_RESERVE_SPACE
                                      ? vaai_nas_reserve(service, caller, handle, &statistics)
                                      : vaai_nas_get_statistics(service, caller, handle, &statistics);

    if (request->command == PROCEDURE22_RESERVE_SPACE && status == VAAI_NAS_NOT_SUPPORTED)
        status = VAAI_NAS_NO_SPACE;
    if (status != VAAI_NAS_OK) {
        procedure22_fail(result, status);
        return;
    }
    result->total = statistics.total;
    result->allocated = statistics.allocated;
    result->unique = statistics.unique;
    result->reserved = statistics.reserved;
    result->unique_exact = statistics.unique_exact;
    result->as_of = statistics.as_of;
}

void vaai_nas_procedure22_serve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                const struct procedure22_request *request, enum procedure22_fault fault,
                                struct procedure22_result *result)
{
    struct vaai_nas_handle handle;
    struct vaai_nas_job job;
    enum vaai_nas_status status;

    memset(result, 0, sizeof(*result));
    result->version = PROCEDURE22_VERSION;
    result->command = request->command;
    if (fault != PROCEDURE22_GOOD) {
        procedure22_fail(result, fault == PROCEDURE22_ODD_VERSION ? VAAI_NAS_NOT_SUPPORTED : VAAI_NAS_INVALID);
        return;
    }
    procedure22_to_handle(&request->destination, &handle);
    switch (request->command) {
    case PROCEDURE22_CLONE_FILE:
        procedure22_clone_file(service, caller, request, result);
        break;
    case PROCEDURE22_RESERVE_SPACE:
    case PROCEDURE22_EXTENDED_STATISTICS:
        procedure22_statistics_or_reserve(service, caller, request, &handle, result);
        break;
    case PROCEDURE22_CLONE_PROGRESS:
        status = vaai_nas_get_job_of_file(service, caller, &handle, &job);
        if (status == VAAI_NAS_OK)
            procedure22_show_progress(&job, result);
        else
            procedure22_fail(result, status);
        break;
    case PROCEDURE22_ABORT_CLONE:
        status = vaai_nas_cancel_job_of_file(service, caller, &handle, &job);
        if (status == VAAI_NAS_OK && job.state != VAAI_NAS_FAILED) { /* it was complete, or has not ended yet */
            procedure22_show_progress(&job, result);
            status = job.state == VAAI_NAS_COMPLETE ? VAAI_NAS_OK : VAAI_NAS_BUSY;
        }
        if (status != VAAI_NAS_OK)
            procedure22_fail(result, status);
        break;
    case PROCEDURE22_CLONE_SUPPORTED:
    case PROCEDURE22_RESERVE_SUPPORTED:
    case PROCEDURE22_STATISTICS_SUPPORTED:
        procedure22_supported(service, caller, request, &handle, result);
        break;
    default:
        procedure22_fail(result, VAAI_NAS_NOT_SUPPORTED);
        break;
    }
}
