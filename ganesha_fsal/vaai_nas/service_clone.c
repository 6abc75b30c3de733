/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Clones: what is asked is checked, and becomes a job. */
#include "service_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../fileops/fileops.h"

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

    enum vaai_nas_status status = service_open(service, caller, &clone->destination, access, &order->destination);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "destination: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    status = service_open(service, caller, &clone->source, VAAI_NAS_READ, &order->source);
    if (status != VAAI_NAS_OK) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source: %s; nothing was changed", vaai_nas_status_name(status));
        return status;
    }
    if (caller->local) { /* root asks, and is not who is to use it */
        struct stat attributes;
        if (fstat(order->source.fd, &attributes) != 0)
            return vaai_nas_status_of_errno(errno);
        order->destination.owner = attributes.st_uid;
        order->destination.group = attributes.st_gid;
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

static void close_order(struct vaai_nas_service *service, struct vaai_nas_order *order)
{
    service_close(service, &order->source);
    service_close(service, &order->destination);
    free(order);
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
        vaai_nas_describe_failure(order, error, &result, reason);
    return vaai_nas_status_of_clone(error);
}

/*
 * The job an earlier call of the same request started: asked before the files are checked, as the clone may by now be the reason why
 * they would be refused. Who asks must still be let at the destination's export. NOT_FOUND: there was none.
 */
static enum vaai_nas_status find_repeated(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds, struct vaai_nas_job *job,
                                          char reason[VAAI_NAS_REASON_SIZE])
{
    uint64_t id;
    enum vaai_nas_status status;

    if (clone->dry_run) /* asks what would be, not what was */
        return VAAI_NAS_NOT_FOUND;
    status = vaai_nas_jobs_find_request(service->jobs, clone, &id);
    if (status == VAAI_NAS_EXISTS)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the request id belongs to another request; nothing was changed: use a new one");
    if (status != VAAI_NAS_OK)
        return status;
    status = vaai_nas_get_job(service, caller, &clone->destination, id, wait_milliseconds, job);
    if (status != VAAI_NAS_OK && status != VAAI_NAS_NOT_FOUND)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "destination of job %llu, which this request began: %s; saying it again changed nothing",
                 (unsigned long long)id, vaai_nas_status_name(status));
    return status;
}

/* The order with its files open and checked, or NULL with *status. */
static struct vaai_nas_order *open_order(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                         const struct vaai_nas_clone *clone, char export_path[VAAI_NAS_PATH_SIZE],
                                         enum vaai_nas_status *status, char reason[VAAI_NAS_REASON_SIZE])
{
    struct vaai_nas_order *order = calloc(1, sizeof(*order));

    if (order == NULL) {
        *status = VAAI_NAS_FAULT;
        return NULL;
    }
    order->clone = *clone;
    memcpy(order->host, caller->host, sizeof(order->host));
    order->source.fd = order->destination.fd = -1;
    *status = open_files(service, caller, order, reason);
    memcpy(export_path, order->destination.export_path, VAAI_NAS_PATH_SIZE);
    if (*status == VAAI_NAS_OK)
        *status = check_clone(clone, reason);
    if (*status == VAAI_NAS_OK)
        *status = check_files(order, reason);
    if (*status == VAAI_NAS_OK)
        return order;
    close_order(service, order);
    return NULL;
}

enum vaai_nas_status vaai_nas_start_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE])
{
    struct counted counted = service_begin(clone->fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE);
    char ignored[VAAI_NAS_REASON_SIZE], export_path[VAAI_NAS_PATH_SIZE] = "";

    if (reason == NULL)
        reason = ignored;
    reason[0] = 0;
    enum vaai_nas_status status = find_repeated(service, caller, clone, wait_milliseconds, job, reason);
    if (status == VAAI_NAS_OK)
        return status; /* counted already */
    if (status == VAAI_NAS_NOT_FOUND) {
        struct vaai_nas_order *order = open_order(service, caller, clone, export_path, &status, reason);
        if (order != NULL && clone->dry_run) {
            status = dry_run(order, job, reason);
            close_order(service, order);
        } else if (order != NULL) {
            status = vaai_nas_jobs_submit(service->jobs, order, wait_milliseconds, job, reason);
        }
    }
    /* What became a job is counted when that ends. */
    if (status != VAAI_NAS_OK || clone->dry_run)
        service_end(service, &counted, caller, export_path, status);
    return status;
}

enum vaai_nas_status vaai_nas_do_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                       const struct vaai_nas_clone *clone, struct vaai_nas_job *job,
                                       char reason[VAAI_NAS_REASON_SIZE])
{
    struct counted counted = service_begin(clone->fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE);
    char export_path[VAAI_NAS_PATH_SIZE] = "";
    enum vaai_nas_status status;

    reason[0] = 0;
    job->id = 0;
    struct vaai_nas_order *order = open_order(service, caller, clone, export_path, &status, reason);
    if (order != NULL)
        status = vaai_nas_jobs_do(service->jobs, order, job, reason);
    if (status != VAAI_NAS_OK && job->id == 0)
        service_end(service, &counted, caller, export_path, status);
    return status;
}
