/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Clones: checks a request and turns it into a job. */
#include "service_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The part of `path` after the folder `of`; NULL if it is not in the folder. */
static const char *service_below(const char *path, const char *of)
{
    size_t length = strlen(of);

    while (length > 0 && of[length - 1] == '/')
        length--;
    if (strncmp(path, of, length) != 0 || (path[length] != '/' && path[length] != 0))
        return NULL;
    path += length;
    return path + strspn(path, "/");
}

/* `path` with one slash between names, and none before or after them; false if it is too long. */
static bool service_normalize(const char *path, char normal[VAAI_NAS_FILE_PATH_SIZE])
{
    size_t used = 0;

    for (const char *at = path; *at != 0; at++) {
        if (*at == '/' && (used == 0 || normal[used - 1] == '/'))
            continue;
        if (used + 1 >= VAAI_NAS_FILE_PATH_SIZE)
            return false;
        normal[used++] = *at;
    }
    normal[used] = 0;
    return true;
}

/* The directory's path below its export's. */
static bool service_find_path(const struct vaai_nas_file *directory, char path[VAAI_NAS_PATH_SIZE])
{
    char descriptor[32], target[PATH_MAX], root[PATH_MAX];

    snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", directory->fd);
    const ssize_t length = readlink(descriptor, target, sizeof(target) - 1);
    if (length <= 0 || realpath(directory->export_directory, root) == NULL)
        return false;
    target[length] = 0;
    const char *rest = service_below(target, root);
    if (rest != NULL)
        snprintf(path, VAAI_NAS_PATH_SIZE, "%s", rest);
    return rest != NULL;
}

static enum vaai_nas_status service_split_path(const struct vaai_nas_file *directory, const char *path,
                                               char name[VAAI_NAS_NAME_SIZE + 1])
{
    char normal[VAAI_NAS_FILE_PATH_SIZE], directory_path[VAAI_NAS_PATH_SIZE];

    if (!service_normalize(path, normal))
        return VAAI_NAS_NAME_TOO_LONG;
    char *slash = strrchr(normal, '/');
    const char *last = slash == NULL ? normal : slash + 1;
    if (*last == 0)
        return VAAI_NAS_INVALID;
    if (strlen(last) > VAAI_NAS_NAME_SIZE)
        return VAAI_NAS_NAME_TOO_LONG;
    strcpy(name, last);
    if (!service_find_path(directory, directory_path))
        return VAAI_NAS_NOT_FOUND;
    if (strcmp(directory_path, normal) == 0)
        return VAAI_NAS_IS_DIRECTORY;
    if (slash != NULL)
        *slash = 0;
    return strcmp(directory_path, slash == NULL ? "" : normal) == 0 ? VAAI_NAS_OK : VAAI_NAS_NOT_FOUND;
}

/* A full clone that is refused within this time gets the refusal as its response. */
#define REFUSED_WITHIN_MILLISECONDS 30u

/* A single component other than "." and "..". */
static enum vaai_nas_status service_check_name(const char *name)
{
    if (strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return VAAI_NAS_INVALID;
    return VAAI_NAS_OK;
}

/* Opens both files; `order` has the open ones, whatever the result. `path`: as vaai_nas_clone_handles(). */
static enum vaai_nas_status service_open_files(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                               const char *path, struct vaai_nas_order *order, char reason[VAAI_NAS_REASON_SIZE])
{
    struct vaai_nas_clone *clone = &order->clone;
    const enum vaai_nas_access access = path != NULL            ? VAAI_NAS_WRITE_OR_CREATE
                                        : clone->name[0] != 0 ? VAAI_NAS_CREATE
                                                              : VAAI_NAS_WRITE;

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
    if (path != NULL && order->destination.is_directory) {
        clone->fast = order->source.export_id == order->destination.export_id;
        status = service_split_path(&order->destination, path, clone->name);
        if (status != VAAI_NAS_OK)
            return status;
    }
    if (caller->local) { /* the caller is root; the source's owner uses the clone */
        struct stat attributes;
        if (fstat(order->source.fd, &attributes) != 0)
            return vaai_nas_status_of_errno(errno);
        order->destination.owner = attributes.st_uid;
        order->destination.group = attributes.st_gid;
    }
    return VAAI_NAS_OK;
}

/* Default POSIX ACLs of a directory, for new files. */
static bool service_has_default_acl(int directory)
{
    return fgetxattr(directory, "system.posix_acl_default", NULL, 0) >= 0;
}

/* Checks that need the open files. */
static enum vaai_nas_status service_check_files(struct vaai_nas_order *order, char reason[VAAI_NAS_REASON_SIZE])
{
    const struct vaai_nas_clone *clone = &order->clone;
    struct stat attributes;

    if (clone->name[0] != 0 && fstatat(order->destination.fd, clone->name, &attributes, AT_SYMLINK_NOFOLLOW) == 0) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "the destination exists; nothing was changed");
        return VAAI_NAS_EXISTS;
    }
    if (clone->name[0] != 0 && service_has_default_acl(order->destination.fd)) {
        snprintf(reason, VAAI_NAS_REASON_SIZE,
                 "the folder has default ACLs, which a clone does not inherit; nothing was changed");
        return VAAI_NAS_NOT_SUPPORTED;
    }
    if (order->source.device == order->destination.device && order->source.inode == order->destination.inode) {
        snprintf(reason, VAAI_NAS_REASON_SIZE, "source and destination are the same file; nothing was changed");
        return VAAI_NAS_INVALID;
    }
    if (fstat(order->source.fd, &attributes) != 0)
        return vaai_nas_status_of_errno(errno);
    order->total_bytes = (uint64_t)attributes.st_size;
    order->mode = attributes.st_mode & 0777; /* never setuid or setgid */
    return VAAI_NAS_OK;
}

static void service_close_order(struct vaai_nas_service *service, struct vaai_nas_order *order)
{
    service_close(service, &order->source);
    service_close(service, &order->destination);
    free(order);
}

/* The order with its files open and checked, or NULL with *status. */
static struct vaai_nas_order *service_open_order(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                                 const struct vaai_nas_clone *clone, const char *path,
                                                 char export_path[VAAI_NAS_PATH_SIZE], enum vaai_nas_status *status,
                                                 char reason[VAAI_NAS_REASON_SIZE])
{
    struct vaai_nas_order *order = calloc(1, sizeof(*order));

    if (order == NULL) {
        *status = VAAI_NAS_FAULT;
        return NULL;
    }
    order->clone = *clone;
    memcpy(order->host, caller->host, sizeof(order->host));
    order->source.fd = order->destination.fd = -1;
    *status = service_open_files(service, caller, path, order, reason);
    memcpy(export_path, order->destination.export_path, VAAI_NAS_PATH_SIZE);
    if (*status == VAAI_NAS_OK && order->clone.name[0] != 0 && (*status = service_check_name(order->clone.name)) != VAAI_NAS_OK)
        snprintf(reason, VAAI_NAS_REASON_SIZE, "a file can't have this name; nothing was changed");
    if (*status == VAAI_NAS_OK)
        *status = service_check_files(order, reason);
    if (*status == VAAI_NAS_OK)
        return order;
    service_close_order(service, order);
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
    enum vaai_nas_status status;
    struct vaai_nas_order *order = service_open_order(service, caller, clone, NULL, export_path, &status, reason);
    if (order != NULL)
        status = vaai_nas_jobs_submit(service->jobs, order, wait_milliseconds, job, reason);
    if (status != VAAI_NAS_OK) /* a job is counted when it ends */
        service_end(service, &counted, caller, export_path, status);
    return status;
}

enum vaai_nas_status vaai_nas_clone_handles(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                            const struct vaai_nas_clone *clone, const char *path, struct vaai_nas_job *job)
{
    struct counted counted = service_begin(VAAI_NAS_OPERATION_CLONE);
    char export_path[VAAI_NAS_PATH_SIZE] = "", reason[VAAI_NAS_REASON_SIZE];
    enum vaai_nas_status status;

    job->id = 0;
    struct vaai_nas_order *order = service_open_order(service, caller, clone, path, export_path, &status, reason);
    if (order != NULL) {
        counted.operation = order->clone.fast ? VAAI_NAS_OPERATION_FAST_CLONE : VAAI_NAS_OPERATION_CLONE;
        status = order->clone.name[0] != 0
                     ? vaai_nas_jobs_do(service->jobs, order, job, reason)
                     : vaai_nas_jobs_submit(service->jobs, order, REFUSED_WITHIN_MILLISECONDS, job, reason);
    }
    if (status != VAAI_NAS_OK && job->id == 0) /* a job is counted when it ends */
        service_end(service, &counted, caller, export_path, status);
    return status;
}
