/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../fileops/fileops.h"
#include "jobs.h"

struct vaai_nas_service {
    const struct vaai_nas_adapter *adapter;
    struct vaai_nas_counters *counters;
    struct vaai_nas_jobs *jobs;
};

struct vaai_nas_service *vaai_nas_service_new(const struct vaai_nas_service_options *options)
{
    struct vaai_nas_service *service = calloc(1, sizeof(*service));

    if (service == NULL)
        return NULL;
    service->adapter = options->adapter;
    service->counters = vaai_nas_counters_new();
    if (service->counters != NULL)
        service->jobs = vaai_nas_jobs_new(options->adapter, service->counters, options->workers);
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
    free(service);
}

const struct vaai_nas_counters *vaai_nas_service_counters(const struct vaai_nas_service *service)
{
    return service->counters;
}

/* An operation that is counted when it ends. */
struct counted {
    struct timespec began;
    enum vaai_nas_operation operation;
};

static struct counted begin(enum vaai_nas_operation operation)
{
    struct counted counted = {.operation = operation};

    clock_gettime(CLOCK_MONOTONIC, &counted.began);
    return counted;
}

static enum vaai_nas_status end(struct vaai_nas_service *service, const struct counted *counted,
                                const struct vaai_nas_caller *caller, const char *export_path, enum vaai_nas_status status)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    vaai_nas_count(service->counters, caller->host, export_path, counted->operation, status,
                   (uint64_t)(now.tv_sec - counted->began.tv_sec) * 1000000u +
                       (uint64_t)((now.tv_nsec - counted->began.tv_nsec) / 1000));
    return status;
}

/* `file` is closed, and its path empty, where it could not be opened. */
static enum vaai_nas_status open_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, enum vaai_nas_access access,
                                      struct vaai_nas_file *file)
{
    memset(file, 0, sizeof(*file));
    file->fd = -1;
    return service->adapter->open(caller, handle, access, file);
}

static void close_file(struct vaai_nas_service *service, struct vaai_nas_file *file)
{
    if (file->fd >= 0)
        service->adapter->close(file);
    file->fd = -1;
}

/*
 * Whether files of the directory's file system can share blocks. Asks for a range of a file without data to be cloned onto itself:
 * EINVAL says that only the overlap was wrong.
 */
static bool shares_blocks(int directory)
{
    int file = openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    bool shares = false;

    if (file < 0)
        return false;
    if (ftruncate(file, 1 << 20) == 0) {
        struct file_clone_range range = {.src_fd = file, .src_length = 1 << 20};
        shares = ioctl(file, FICLONERANGE, &range) == 0 || errno == EINVAL;
    }
    close(file);
    return shares;
}

static bool can_reserve(struct fileops_space *space)
{
    struct fileops_space_status status;

    fileops_space_status(space, &status);
    return status.can_reserve;
}

enum vaai_nas_status vaai_nas_get_capabilities(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                               const struct vaai_nas_handle *handle, struct vaai_nas_capabilities *capabilities)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_CAPABILITIES);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, handle, VAAI_NAS_LOOK, &file);

    memset(capabilities, 0, sizeof(*capabilities));
    if (status == VAAI_NAS_OK && !file.is_directory)
        status = VAAI_NAS_NOT_DIRECTORY;
    if (status == VAAI_NAS_OK) {
        capabilities->statistics = true;
        capabilities->unique_exact = file.space != NULL;
        capabilities->clone = !file.read_only;
        capabilities->fast_clone = !file.read_only && shares_blocks(file.fd);
        capabilities->reserve = !file.read_only && file.space != NULL && can_reserve(file.space);
    }
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_look(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                   const struct vaai_nas_handle *destination, const struct vaai_nas_handle *source,
                                   bool *destination_is_directory, bool *same_export)
{
    struct vaai_nas_file file;
    uint16_t export_id = 0;
    enum vaai_nas_status status = open_file(service, caller, destination, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK) {
        *destination_is_directory = file.is_directory;
        export_id = file.export_id;
        close_file(service, &file);
        status = open_file(service, caller, source, VAAI_NAS_LOOK, &file);
    }
    if (status == VAAI_NAS_OK)
        *same_export = file.export_id == export_id;
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_directory_is(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                           const struct vaai_nas_handle *directory, const char *path, size_t length)
{
    struct vaai_nas_file file;
    char descriptor[32], found[VAAI_NAS_PATH_SIZE];
    enum vaai_nas_status status = open_file(service, caller, directory, VAAI_NAS_LOOK, &file);

    if (status != VAAI_NAS_OK)
        return status;
    snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", file.fd);
    ssize_t found_length = readlink(descriptor, found, sizeof(found));
    if (found_length <= (ssize_t)length || found[found_length - (ssize_t)length - 1] != '/' ||
        memcmp(found + found_length - (ssize_t)length, path, length) != 0)
        status = VAAI_NAS_NOT_FOUND;
    close_file(service, &file);
    return status;
}

/* One component, and none that means another place. */
static enum vaai_nas_status check_name(const char *name)
{
    if (strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return VAAI_NAS_INVALID;
    if (strcmp(name, FILEOPS_FOLDER) == 0)
        return VAAI_NAS_ACCESS;
    return VAAI_NAS_OK;
}

/* What can be said of a clone without its files. */
static enum vaai_nas_status check_clone(const struct vaai_nas_clone *clone, char reason[VAAI_NAS_REASON_SIZE])
{
    if (clone->name[0] != 0) {
        if (clone->range) {
            snprintf(reason, VAAI_NAS_REASON_SIZE, "a range is cloned into a file that is there: give its handle, not a name");
            return VAAI_NAS_INVALID;
        }
        enum vaai_nas_status status = check_name(clone->name);
        if (status != VAAI_NAS_OK)
            snprintf(reason, VAAI_NAS_REASON_SIZE, "the name is not one that a file can be given");
        return status;
    }
    if (clone->guarded) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the destination is there, and the clone is guarded; nothing was changed");
        return VAAI_NAS_EXISTS;
    }
    if (clone->range && (clone->length == 0 || clone->source_offset + clone->length < clone->source_offset ||
                         clone->destination_offset + clone->length < clone->destination_offset ||
                         clone->destination_offset + clone->length > INT64_MAX)) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the range is empty or beyond what a file can have");
        return VAAI_NAS_INVALID;
    }
    return VAAI_NAS_OK;
}

/* Opens both files; what is open is in `order` whatever is returned. */
static enum vaai_nas_status open_files(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                       struct vaai_nas_order *order, char reason[VAAI_NAS_REASON_SIZE])
{
    const struct vaai_nas_clone *clone = &order->clone;
    enum vaai_nas_access access = clone->name[0] != 0 ? VAAI_NAS_CREATE : VAAI_NAS_WRITE;

    enum vaai_nas_status status = open_file(service, caller, &clone->destination, access, &order->destination);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "destination: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    status = open_file(service, caller, &clone->source, VAAI_NAS_READ, &order->source);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    return VAAI_NAS_OK;
}

/* What can be said of a clone whose request is right and whose files are open. */
static enum vaai_nas_status check_files(struct vaai_nas_order *order, char reason[VAAI_NAS_REASON_SIZE])
{
    const struct vaai_nas_clone *clone = &order->clone;
    struct stat attributes;

    if (clone->name[0] != 0 && fstatat(order->destination.fd, clone->name, &attributes, AT_SYMLINK_NOFOLLOW) == 0) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the name is taken; nothing was changed");
        return VAAI_NAS_EXISTS;
    }
    if (order->source.device == order->destination.device && order->source.inode == order->destination.inode && !clone->range) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source and destination are the same file; nothing was changed");
        return VAAI_NAS_INVALID;
    }
    if (fstat(order->source.fd, &attributes) != 0)
        return vaai_nas_status_of_errno(errno);
    order->total_bytes = clone->range ? clone->length : (uint64_t)attributes.st_size;
    return VAAI_NAS_OK;
}

/* Checks what can be checked without doing it. */
static enum vaai_nas_status dry_run(struct vaai_nas_order *order, struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE])
{
    struct fileops_clone_request request;
    struct fileops_clone_result result;

    vaai_nas_order_to_request(order, &request);
    request.flags |= FILEOPS_CLONE_DRY_RUN;
    int error = fileops_clone(&request, &result);
    memset(job, 0, sizeof(*job));
    job->state = VAAI_NAS_COMPLETE;
    job->total_bytes = order->total_bytes;
    job->export_id = order->destination.export_id;
    if (error != 0)
        vaai_nas_describe_failure(&order->clone, error, false, reason);
    return vaai_nas_status_of_clone(error);
}

/*
 * The job an earlier call of the same request started: asked before the files are checked, as the clone may by now be the reason why
 * they would be refused. Who asks must still be let at the destination's export.
 */
static enum vaai_nas_status find_repeated(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds, struct vaai_nas_job *job)
{
    uint64_t id;
    enum vaai_nas_status status = vaai_nas_jobs_find_request(service->jobs, clone, &id);

    if (status != VAAI_NAS_OK)
        return status;
    return vaai_nas_get_job(service, caller, &clone->destination, id, wait_milliseconds, job);
}

enum vaai_nas_status vaai_nas_start_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE])
{
    struct counted counted = begin(clone->fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE);
    char ignored[VAAI_NAS_REASON_SIZE], export_path[VAAI_NAS_PATH_SIZE] = "";
    struct vaai_nas_order *order = NULL;
    bool submitted = false;

    if (reason == NULL)
        reason = ignored;
    reason[0] = 0;
    enum vaai_nas_status status = find_repeated(service, caller, clone, wait_milliseconds, job);
    if (status == VAAI_NAS_OK)
        return status; /* counted already */
    if (status != VAAI_NAS_NOT_FOUND) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the request id belongs to another request; nothing was changed: use a new one");
        goto exit;
    }
    order = calloc(1, sizeof(*order));
    if (order == NULL) {
        status = VAAI_NAS_FAULT;
        goto exit;
    }
    order->clone = *clone;
    memcpy(order->host, caller->host, sizeof(order->host));
    order->source.fd = order->destination.fd = -1;
    status = open_files(service, caller, order, reason);
    memcpy(export_path, order->destination.export_path, sizeof(export_path));
    if (status == VAAI_NAS_OK)
        status = check_clone(clone, reason);
    if (status == VAAI_NAS_OK)
        status = check_files(order, reason);
    if (status != VAAI_NAS_OK)
        goto exit;
    if (clone->dry_run) {
        status = dry_run(order, job, reason);
        goto exit;
    }
    if (wait_milliseconds > VAAI_NAS_SUBMIT_WAIT_MAX_MILLISECONDS)
        wait_milliseconds = VAAI_NAS_SUBMIT_WAIT_MAX_MILLISECONDS;
    status = vaai_nas_jobs_submit(service->jobs, order, wait_milliseconds, job, reason);
    submitted = true;
exit:
    if (order != NULL && !submitted) {
        close_file(service, &order->source);
        close_file(service, &order->destination);
        free(order);
    }
    /* What became a job is counted when that ends. */
    if (status != VAAI_NAS_OK || clone->dry_run)
        end(service, &counted, caller, export_path, status);
    return status;
}

static enum vaai_nas_status read_statistics(const struct vaai_nas_file *file, struct vaai_nas_statistics *statistics)
{
    struct fileops_statistics found;
    int error = fileops_statistics(file->space, file->fd, &found);

    memset(statistics, 0, sizeof(*statistics));
    if (error != 0)
        return vaai_nas_status_of_errno(error);
    statistics->total_bytes = found.total;
    statistics->allocated_bytes = found.allocated;
    statistics->unique_bytes = found.unique;
    statistics->unique_exact = found.unique_exact;
    statistics->reserved_bytes = found.reserved;
    return VAAI_NAS_OK;
}

enum vaai_nas_status vaai_nas_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, struct vaai_nas_statistics *statistics,
                                      char reason[VAAI_NAS_REASON_SIZE])
{
    struct counted counted = begin(VAAI_NAS_OPERATION_RESERVE);
    char ignored[VAAI_NAS_REASON_SIZE];
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, handle, VAAI_NAS_WRITE, &file);

    if (reason == NULL)
        reason = ignored;
    reason[0] = 0;
    if (status == VAAI_NAS_OK) {
        uint64_t reserved = 0;
        int error = file.space == NULL ? EOPNOTSUPP : fileops_reserve(file.space, file.fd, &reserved);
        status = vaai_nas_status_of_errno(error);
        if (error == EOPNOTSUPP)
            snprintf(reason, VAAI_NAS_REASON_SIZE, "the export's file system can't hold space; nothing was reserved");
        else if (error == ENOSPC)
            snprintf(reason, VAAI_NAS_REASON_SIZE, "the pool can't guarantee so much; nothing was reserved: free space or make the file smaller");
        if (error == 0) {
            service->adapter->changed(&file);
            vaai_nas_count_reserved(service->counters, caller->host, file.export_path, reserved);
            status = read_statistics(&file, statistics);
        }
    }
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_statistics(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                             const struct vaai_nas_handle *handle, struct vaai_nas_statistics *statistics)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_STATISTICS);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, handle, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK)
        status = file.is_directory ? VAAI_NAS_IS_DIRECTORY : read_statistics(&file, statistics);
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, uint64_t id, uint32_t wait_milliseconds,
                                      struct vaai_nas_job *job)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, handle, VAAI_NAS_LOOK, &file);

    if (wait_milliseconds > VAAI_NAS_WAIT_MAX_MILLISECONDS)
        wait_milliseconds = VAAI_NAS_WAIT_MAX_MILLISECONDS;
    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_get(service->jobs, id, file.export_id, wait_milliseconds, job);
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_get_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct vaai_nas_handle *destination, struct vaai_nas_job *job)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, destination, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_get_of_file(service->jobs, file.device, file.inode, job);
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_list_jobs(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                        const struct vaai_nas_handle *handle, struct vaai_nas_job *jobs, uint32_t *count)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, handle, VAAI_NAS_LOOK, &file);

    if (status == VAAI_NAS_OK)
        vaai_nas_jobs_list(service->jobs, file.export_id, jobs, count);
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

enum vaai_nas_status vaai_nas_cancel_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                         const struct vaai_nas_handle *destination, uint64_t id, struct vaai_nas_job *job)
{
    struct counted counted = begin(VAAI_NAS_OPERATION_JOB);
    struct vaai_nas_file file;
    enum vaai_nas_status status = open_file(service, caller, destination, VAAI_NAS_WRITE, &file);

    if (status == VAAI_NAS_IS_DIRECTORY) /* of a clone that makes a name in it */
        status = open_file(service, caller, destination, VAAI_NAS_CREATE, &file);
    if (status == VAAI_NAS_OK)
        status = vaai_nas_jobs_cancel(service->jobs, id, file.device, file.inode, job);
    end(service, &counted, caller, file.export_path, status);
    close_file(service, &file);
    return status;
}

void vaai_nas_cancel_export(struct vaai_nas_service *service, uint16_t export_id)
{
    vaai_nas_jobs_cancel_export(service->jobs, export_id);
}
