/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Files by path, for administrators of this machine: the same requests as those of clients, as root. */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service_internal.h"

static const struct vaai_nas_caller local = {.local = true, .host = VAAI_NAS_LOCAL_HOST};

static bool service_is_path(const char *path)
{
    if (strlen(path) >= VAAI_NAS_FILE_PATH_SIZE)
        return false;
    for (;;) {
        size_t length = strcspn(path, "/");
        if (length == 0 || length > VAAI_NAS_NAME_SIZE || (length <= 2 && strncmp(path, "..", length) == 0))
            return false;
        if (path[length] == 0)
            return true;
        path += length + 1;
    }
}

static enum vaai_nas_status service_find(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                         struct vaai_nas_handle *handle)
{
    if (*path != 0 && !service_is_path(path))
        return VAAI_NAS_INVALID;
    return service->adapter->find(export_id, path, handle);
}

struct walked {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_file file;
};

static bool service_is_ending(void *context)
{
    const struct walked *walked = context;

    return walked->adapter->is_ending(&walked->file);
}

static enum vaai_nas_status service_list_files(struct vaai_nas_service *service, uint16_t export_id, const char *after,
                                               size_t limit, struct vmdk_list *list)
{
    struct vaai_nas_handle handle;
    struct walked walked = {.adapter = service->adapter};
    enum vaai_nas_status status = service_find(service, export_id, "", &handle);

    if (status == VAAI_NAS_OK)
        status = service_open(service, &local, &handle, VAAI_NAS_INSPECT, &walked.file);
    if (status != VAAI_NAS_OK)
        return status;
    const int error = vmdk_list(walked.file.fd, after, limit, service_is_ending, &walked, list);
    service_close(service, &walked.file);
    return error == ECANCELED ? VAAI_NAS_STALE : vaai_nas_status_of_errno(error);
}

enum vaai_nas_status vaai_nas_list_files(struct vaai_nas_service *service, uint16_t export_id, const char *after, size_t limit,
                                         struct vmdk_list *list)
{
    memset(list, 0, sizeof(*list));
    if (!file_calls_begin(&service->file_calls, export_id))
        return VAAI_NAS_BUSY;
    const enum vaai_nas_status status = service_list_files(service, export_id, after, limit, list);
    file_calls_end(&service->file_calls, export_id);
    return status;
}

enum vaai_nas_status vaai_nas_get_file_statistics(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                                  struct fileops_statistics *statistics)
{
    struct vaai_nas_handle handle;

    if (!file_calls_begin(&service->file_calls, export_id))
        return VAAI_NAS_BUSY;
    enum vaai_nas_status status = service_find(service, export_id, path, &handle);
    if (status == VAAI_NAS_OK)
        status = vaai_nas_get_statistics(service, &local, &handle, statistics);
    file_calls_end(&service->file_calls, export_id);
    return status;
}

/* The export's root; call service_close() after OK. */
static enum vaai_nas_status service_open_root(struct vaai_nas_service *service, uint16_t export_id, struct vaai_nas_file *root)
{
    struct vaai_nas_handle handle;
    const enum vaai_nas_status status = service_find(service, export_id, "", &handle);

    return status == VAAI_NAS_OK ? service_open(service, &local, &handle, VAAI_NAS_INSPECT, root) : status;
}

enum vaai_nas_status vaai_nas_get_space(struct vaai_nas_service *service, uint16_t export_id,
                                        struct fileops_dataset_status *space)
{
    struct vaai_nas_file root;

    if (!file_calls_begin(&service->file_calls, export_id))
        return VAAI_NAS_BUSY;
    const enum vaai_nas_status status = service_open_root(service, export_id, &root);
    if (status == VAAI_NAS_OK) {
        fileops_dataset_status(root.dataset, space);
        service_close(service, &root);
    }
    file_calls_end(&service->file_calls, export_id);
    return status;
}

enum vaai_nas_status vaai_nas_get_shared(struct vaai_nas_service *service, uint16_t export_id, bool restart,
                                         struct fileops_dataset_shared *shared)
{
    struct vaai_nas_file root;

    if (!file_calls_begin(&service->file_calls, export_id))
        return VAAI_NAS_BUSY;
    enum vaai_nas_status status = service_open_root(service, export_id, &root);
    if (status == VAAI_NAS_OK) {
        status = vaai_nas_status_of_errno(fileops_dataset_shared(root.dataset, restart, shared));
        service_close(service, &root);
    }
    file_calls_end(&service->file_calls, export_id);
    return status;
}

/* The directory and the name of the destination. */
static enum vaai_nas_status service_find_place(struct vaai_nas_service *service, uint16_t export_id, struct vaai_nas_clone *clone)
{
    char directory[VAAI_NAS_FILE_PATH_SIZE] = "";
    const char *path = clone->destination_path, *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

    if (slash != NULL)
        memcpy(directory, path, (size_t)(slash - path));
    memcpy(clone->name, name, strnlen(name, sizeof(clone->name) - 1)); /* zeroes behind */
    return service_find(service, export_id, directory, &clone->destination);
}

/* The source's handle, if it is a readable file. */
static enum vaai_nas_status service_find_source(struct vaai_nas_service *service, uint16_t export_id,
                                                struct vaai_nas_clone *clone)
{
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_find(service, export_id, clone->source_path, &clone->source);

    if (status != VAAI_NAS_OK)
        return status;
    status = service_open(service, &local, &clone->source, VAAI_NAS_READ, &file);
    service_close(service, &file);
    return status;
}

static enum vaai_nas_status service_start(struct vaai_nas_service *service, uint16_t export_id, struct vaai_nas_clone *clone,
                                          struct vaai_nas_job *job, const char **field, char reason[VAAI_NAS_REASON_SIZE])
{
    *field = "source";
    enum vaai_nas_status status = service_find_source(service, export_id, clone);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    *field = "destination";
    status = service_find_place(service, export_id, clone);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the folder of the destination: %s; nothing was changed",
                 vaai_nas_status_name(status));
        return status;
    }
    status = vaai_nas_start_clone(service, &local, clone, 0, job, reason);
    if (status != VAAI_NAS_EXISTS && status != VAAI_NAS_INVALID && status != VAAI_NAS_ACCESS && status != VAAI_NAS_NOT_DIRECTORY)
        *field = NULL;
    return status;
}

/*
 * The job of an earlier identical request, by its paths: source and destination's folder may have been removed meanwhile.
 * NOT_FOUND: no job.
 */
static enum vaai_nas_status service_find_begun(struct vaai_nas_service *service, uint16_t export_id,
                                               const struct vaai_nas_clone *clone, struct vaai_nas_job *job,
                                               char reason[VAAI_NAS_REASON_SIZE])
{
    const enum vaai_nas_status status = vaai_nas_jobs_get_of_paths(service->jobs, clone, export_id, job);

    if (status == VAAI_NAS_EXISTS)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the request id belongs to another request; nothing was changed: use a new id");
    return status;
}

enum vaai_nas_status vaai_nas_start_file_clone(struct vaai_nas_service *service, const struct vaai_nas_file_clone *request,
                                               struct vaai_nas_job *job, const char **field, char reason[VAAI_NAS_REASON_SIZE])
{
    struct vaai_nas_clone clone = {.fast = request->fast};

    *field = !service_is_path(request->source) ? "source" : !service_is_path(request->destination) ? "destination" : NULL;
    if (*field != NULL) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "%s: this is not a path of a file; nothing was changed", *field);
        return VAAI_NAS_INVALID;
    }
    memcpy(clone.request_id, request->request_id, sizeof(clone.request_id));
    strcpy(clone.source_path, request->source);
    strcpy(clone.destination_path, request->destination);
    enum vaai_nas_status status = service_find_begun(service, request->export_id, &clone, job, reason);
    if (status == VAAI_NAS_EXISTS)
        *field = "request_id";
    if (status != VAAI_NAS_NOT_FOUND)
        return status;
    if (!file_calls_begin(&service->file_calls, request->export_id))
        return VAAI_NAS_BUSY;
    status = service_start(service, request->export_id, &clone, job, field, reason);
    file_calls_end(&service->file_calls, request->export_id);
    return status;
}

enum vaai_nas_status vaai_nas_get_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                           struct vaai_nas_job *job)
{
    return vaai_nas_jobs_get(service->jobs, id, export_id, job);
}

enum vaai_nas_status vaai_nas_cancel_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                              struct vaai_nas_job *job)
{
    return vaai_nas_jobs_cancel(service->jobs, id, export_id, job);
}
