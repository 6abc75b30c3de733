/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Files by their paths, for who rules this machine: the same requests as those of clients, as root. */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service_internal.h"

static const struct vaai_nas_caller local = {.local = true, .host = VAAI_NAS_LOCAL_HOST};

static bool is_path(const char *path)
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

static enum vaai_nas_status find(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                 struct vaai_nas_handle *handle)
{
    if (*path != 0 && !is_path(path))
        return VAAI_NAS_INVALID;
    return service->adapter->find(export_id, path, handle);
}

enum vaai_nas_status vaai_nas_list_files(struct vaai_nas_service *service, uint16_t export_id, const char *after, size_t limit,
                                         struct vmdk_list *list)
{
    struct vaai_nas_handle handle;
    struct vaai_nas_file file;

    memset(list, 0, sizeof(*list));
    enum vaai_nas_status status = find(service, export_id, "", &handle);
    if (status == VAAI_NAS_OK)
        status = service_open(service, &local, &handle, VAAI_NAS_LOOK, &file);
    if (status != VAAI_NAS_OK)
        return status;
    status = vaai_nas_status_of_errno(vmdk_list(file.fd, after, limit, list));
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_file_statistics(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                                  struct vaai_nas_statistics *statistics)
{
    struct vaai_nas_handle handle;
    enum vaai_nas_status status = find(service, export_id, path, &handle);

    return status == VAAI_NAS_OK ? vaai_nas_get_statistics(service, &local, &handle, statistics) : status;
}

/* The directory that the destination is to be made in, and its name there. */
static enum vaai_nas_status find_place(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                       struct vaai_nas_clone *clone)
{
    char directory[VAAI_NAS_FILE_PATH_SIZE] = "";
    const char *slash = strrchr(path, '/');

    if (!is_path(path))
        return VAAI_NAS_INVALID;
    if (slash != NULL)
        memcpy(directory, path, (size_t)(slash - path));
    snprintf(clone->name, sizeof(clone->name), "%s", slash != NULL ? slash + 1 : path);
    return find(service, export_id, directory, &clone->destination);
}

/* The source's handle; it is a file. */
static enum vaai_nas_status find_source(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                        struct vaai_nas_handle *handle)
{
    struct vaai_nas_file file;
    enum vaai_nas_status status = find(service, export_id, path, handle);

    if (status != VAAI_NAS_OK)
        return status;
    status = service_open(service, &local, handle, VAAI_NAS_LOOK, &file);
    if (status == VAAI_NAS_OK && file.is_directory)
        status = VAAI_NAS_IS_DIRECTORY;
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_start_file_clone(struct vaai_nas_service *service, const struct vaai_nas_file_clone *asked,
                                               struct vaai_nas_job *job, const char **field, char reason[VAAI_NAS_REASON_SIZE])
{
    struct vaai_nas_clone clone = {.fast = asked->fast, .dry_run = asked->dry_run};
    enum vaai_nas_status status;

    memcpy(clone.request_id, asked->request_id, sizeof(clone.request_id));
    *field = "source";
    status = *asked->source == 0 ? VAAI_NAS_INVALID : find_source(service, asked->export_id, asked->source, &clone.source);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    *field = "destination";
    status = find_place(service, asked->export_id, asked->destination, &clone);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the folder of the destination: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    status = vaai_nas_start_clone(service, &local, &clone, 0, job, reason);
    if (status != VAAI_NAS_EXISTS && status != VAAI_NAS_INVALID && status != VAAI_NAS_ACCESS && status != VAAI_NAS_NOT_DIRECTORY)
        *field = NULL;
    return status;
}

enum vaai_nas_status vaai_nas_get_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id, struct vaai_nas_job *job)
{
    struct vaai_nas_handle handle;
    enum vaai_nas_status status = find(service, export_id, "", &handle);

    return status == VAAI_NAS_OK ? vaai_nas_get_job(service, &local, &handle, id, 0, job) : status;
}

enum vaai_nas_status vaai_nas_cancel_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                              struct vaai_nas_job *job)
{
    struct vaai_nas_listed_job found;
    enum vaai_nas_status status = vaai_nas_jobs_get(service->jobs, id, export_id, 0, &found);

    if (status != VAAI_NAS_OK)
        return status;
    return vaai_nas_cancel_job(service, &local, &found.destination, id, job);
}
