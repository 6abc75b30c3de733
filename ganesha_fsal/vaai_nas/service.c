/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Start and end of the service, and its reports on exports and files. */
#include "service_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fileops/changes.h"

/* The answer comes within a second, counted or not. */
#define STATISTICS_MILLISECONDS 900

struct vaai_nas_service *vaai_nas_service_new(const struct vaai_nas_service_options *options)
{
    struct vaai_nas_service *service = calloc(1, sizeof(*service));

    if (service == NULL)
        return NULL;
    service->adapter = options->adapter;
    file_calls_init(&service->file_calls);
    pthread_mutex_init(&service->lock, NULL);
    service->counters = vaai_nas_counters_new();
    if (service->counters != NULL)
        service->jobs = vaai_nas_jobs_new(options, service->counters);
    if (service->jobs == NULL) {
        vaai_nas_service_free(service);
        return NULL;
    }
    return service;
}

void vaai_nas_service_free(struct vaai_nas_service *service)
{
    if (service == NULL)
        return;
    vaai_nas_jobs_free(service->jobs);
    vaai_nas_counters_free(service->counters);
    file_calls_destroy(&service->file_calls);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

struct vaai_nas_counters *vaai_nas_service_counters(const struct vaai_nas_service *service)
{
    return service->counters;
}

void vaai_nas_service_set_problem(struct vaai_nas_service *service, const char *problem)
{
    pthread_mutex_lock(&service->lock);
    snprintf(service->problem, sizeof(service->problem), "%s", problem);
    pthread_mutex_unlock(&service->lock);
}

void vaai_nas_service_problem(struct vaai_nas_service *service, char problem[VAAI_NAS_REASON_SIZE])
{
    pthread_mutex_lock(&service->lock);
    memcpy(problem, service->problem, VAAI_NAS_REASON_SIZE);
    pthread_mutex_unlock(&service->lock);
}

struct counted service_begin(enum vaai_nas_operation operation)
{
    struct counted counted = {.operation = operation};

    clock_gettime(CLOCK_MONOTONIC, &counted.began);
    return counted;
}

void service_end(struct vaai_nas_service *service, const struct counted *counted, const struct vaai_nas_caller *caller,
                 const char *export_path, enum vaai_nas_status status)
{
    if (!caller->local) /* no request of a host; clones are counted by their jobs */
        vaai_nas_count(service->counters, caller->host, export_path, counted->operation, status, 0, &counted->began);
}

enum vaai_nas_status service_open(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                  const struct vaai_nas_handle *handle, enum vaai_nas_access access, struct vaai_nas_file *file)
{
    memset(file, 0, sizeof(*file));
    file->fd = -1;
    return service->adapter->open(caller, handle, access, file);
}

void service_close(struct vaai_nas_service *service, struct vaai_nas_file *file)
{
    if (file->fd >= 0)
        service->adapter->close(file);
    file->fd = -1;
}

enum vaai_nas_status vaai_nas_get_capabilities(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                               const struct vaai_nas_handle *handle, struct vaai_nas_capabilities *capabilities)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_CAPABILITIES);
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, handle, VAAI_NAS_INSPECT, &file);

    memset(capabilities, 0, sizeof(*capabilities));
    if (status == VAAI_NAS_OK && !file.is_directory)
        status = VAAI_NAS_NOT_DIRECTORY;
    if (status == VAAI_NAS_OK) {
        capabilities->statistics = true;
        capabilities->clone = !file.read_only; /* at least by copying */
    }
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, struct fileops_statistics *statistics)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_RESERVE);
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, handle, VAAI_NAS_WRITE, &file);

    if (status == VAAI_NAS_OK) {
        status = vaai_nas_status_of_errno(fileops_reserve(file.dataset, file.fd));
        if (status == VAAI_NAS_OK)
            status = vaai_nas_status_of_errno(fileops_sizes(file.dataset, file.fd, statistics));
        if (status == VAAI_NAS_OK)
            vaai_nas_count_reserved(service->counters, caller->host, file.export_path, statistics->reserved);
    }
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_statistics(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                             const struct vaai_nas_handle *handle, struct fileops_statistics *statistics)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_STATISTICS);
    struct vaai_nas_file file;
    enum vaai_nas_status status = service_open(service, caller, handle, VAAI_NAS_INSPECT, &file);

    if (status == VAAI_NAS_OK) {
        const struct timespec until = vaai_nas_moment_in(STATISTICS_MILLISECONDS);
        /* EISDIR: a directory */
        status = vaai_nas_status_of_errno(fileops_statistics(file.dataset, file.fd, &until, statistics));
    }
    service_end(service, &counted, caller, file.export_path, status);
    service_close(service, &file);
    return status;
}
