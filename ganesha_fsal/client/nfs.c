/* SPDX-License-Identifier: Apache-2.0 */
/* Procedures of NFSv3 (RFC 1813): resolve paths; create, rename, link and remove files. */
#include <string.h>

#include "nfs3.h"
#include "session.h"

#define DIRECTORY_TYPE 2u /* ftype3 NF3DIR */
#define GUARDED 1u        /* createmode3 */

enum vaainas_error session_error_of_nfs(uint32_t status)
{
    switch (status) {
    case 0:
        return VAAINAS_OK;
    case 1: /* NFS3ERR_PERM */
    case 13:
        return VAAINAS_ACCESS;
    case 2:
        return VAAINAS_NOT_FOUND;
    case 17:
        return VAAINAS_EXISTS;
    case 20:
        return VAAINAS_NOT_DIRECTORY;
    case 21:
        return VAAINAS_IS_DIRECTORY;
    case 22:
        return VAAINAS_INVALID;
    case 27:
        return VAAINAS_FILE_TOO_LARGE;
    case 28:
        return VAAINAS_NO_SPACE;
    case 30:
        return VAAINAS_READ_ONLY;
    case 63:
        return VAAINAS_NAME_TOO_LONG;
    case 69:
        return VAAINAS_QUOTA;
    case 70:
        return VAAINAS_STALE;
    case 10001:
        return VAAINAS_BAD_HANDLE;
    case 10004:
        return VAAINAS_NOT_SUPPORTED;
    case 10008:
        return VAAINAS_BUSY;
    case 5:
    case 6:
        return VAAINAS_INPUT_OUTPUT;
    default:
        return VAAINAS_FAULT;
    }
}

static void nfs_to_handle(const fhandle3 *from, struct handle *to)
{
    to->length = from->fhandle3_len;
    memcpy(to->bytes, from->fhandle3_val, to->length);
}

static fhandle3 nfs_from_handle(const struct handle *handle)
{
    return (fhandle3){.fhandle3_len = handle->length, .fhandle3_val = (char *)(uintptr_t)handle->bytes};
}

static enum vaainas_error nfs_fail(struct vaainas_failure *failure, uint32_t status, const char *name)
{
    const enum vaainas_error error = session_error_of_nfs(status);

    return session_fail(failure, error, "%s: %s%s", name, vaainas_error_name(error),
                        error == VAAINAS_STALE ? ": repeat the command" : "");
}

static enum vaainas_error nfs_lookup(struct vaainas_session *session, const struct handle *directory, const char *name,
                                     struct handle *object, bool *is_directory, uint32_t *mode, struct vaainas_failure *failure)
{
    diropargs3 arguments = {.dir = nfs_from_handle(directory), .name = (char *)(uintptr_t)name};
    LOOKUP3res result = {0};
    enum vaainas_error error = session_call(&session->nfs, NFSPROC3_LOOKUP, (xdrproc_t)xdr_diropargs3, &arguments,
                                            (xdrproc_t)xdr_LOOKUP3res, &result, sizeof(result), failure);

    if (error == VAAINAS_OK && result.status != 0)
        error = nfs_fail(failure, result.status, name);
    if (error == VAAINAS_OK) {
        const post_op_attr *attributes = &result.LOOKUP3res_u.resok.obj_attributes;
        nfs_to_handle(&result.LOOKUP3res_u.resok.object, object);
        *is_directory = attributes->attributes_follow && attributes->post_op_attr_u.attributes.type == DIRECTORY_TYPE;
        *mode = attributes->attributes_follow ? attributes->post_op_attr_u.attributes.mode & 0777u : 0600u;
    }
    xdr_free((xdrproc_t)xdr_LOOKUP3res, (char *)&result);
    return error;
}

enum vaainas_error session_resolve(struct vaainas_session *session, const char *path, struct resolved *resolved,
                                   struct vaainas_failure *failure)
{
    memset(resolved, 0, sizeof(*resolved));
    resolved->parent = resolved->object = session->root;
    resolved->exists = resolved->is_directory = resolved->parent_exists = true;
    for (;;) {
        while (*path == '/')
            path++;
        size_t length = strcspn(path, "/");
        if (length == 0)
            return VAAINAS_OK;
        if (length >= sizeof(resolved->name))
            return session_fail(failure, VAAINAS_NAME_TOO_LONG,
                                "a name in the path is longer than 255 bytes; nothing was changed");
        if (!resolved->exists) { /* and something follows */
            resolved->parent_exists = false;
            return VAAINAS_OK;
        }
        if (!resolved->is_directory)
            return session_fail(failure, VAAINAS_NOT_DIRECTORY, "%s is not a directory; nothing was changed", resolved->name);
        memcpy(resolved->name, path, length);
        resolved->name[length] = 0;
        path += length;
        if (strcmp(resolved->name, ".") == 0 || strcmp(resolved->name, "..") == 0)
            return session_fail(failure, VAAINAS_INVALID, "a path must not contain \".\" or \"..\"; nothing was changed");
        resolved->parent = resolved->object;
        enum vaainas_error error = nfs_lookup(session, &resolved->parent, resolved->name, &resolved->object,
                                              &resolved->is_directory, &resolved->mode, failure);
        if (error == VAAINAS_NOT_FOUND)
            resolved->exists = false;
        else if (error != VAAINAS_OK)
            return error;
    }
}

static diropargs3 nfs_place(const struct handle *directory, const char *name)
{
    return (diropargs3){.dir = nfs_from_handle(directory), .name = (char *)(uintptr_t)name};
}

/* A procedure whose results are not used, only its status. */
static enum vaainas_error nfs_change(struct vaainas_session *session, unsigned long procedure, xdrproc_t encode,
                                     const void *arguments, const char *name, struct vaainas_failure *failure)
{
    status_only result = {0};
    enum vaainas_error error = session_call(&session->nfs, procedure, encode, arguments, (xdrproc_t)xdr_status_only, &result,
                                            sizeof(result), failure);

    if (error == VAAINAS_OK && result.status != 0)
        error = nfs_fail(failure, result.status, name);
    return error;
}

enum vaainas_error session_find_name(struct vaainas_session *session, const struct handle *directory, const char *name,
                                     struct handle *object, struct vaainas_failure *failure)
{
    bool is_directory;
    uint32_t mode;

    return nfs_lookup(session, directory, name, object, &is_directory, &mode, failure);
}

enum vaainas_error session_make_file(struct vaainas_session *session, const struct handle *directory, const char *name,
                                     uint32_t mode, struct handle *made, struct vaainas_failure *failure)
{
    CREATE3args arguments = {.where = nfs_place(directory, name), .createmode = GUARDED, .set_mode = TRUE, .mode = mode};
    enum vaainas_error error = nfs_change(session, NFSPROC3_CREATE, (xdrproc_t)xdr_CREATE3args, &arguments, name, failure);

    return error != VAAINAS_OK ? error : session_find_name(session, directory, name, made, failure);
}

enum vaainas_error session_remove_file(struct vaainas_session *session, const struct handle *directory, const char *name,
                                       struct vaainas_failure *failure)
{
    diropargs3 arguments = nfs_place(directory, name);

    return nfs_change(session, NFSPROC3_REMOVE, (xdrproc_t)xdr_diropargs3, &arguments, name, failure);
}

enum vaainas_error session_link_file(struct vaainas_session *session, const struct handle *file, const struct handle *directory,
                                     const char *name, struct vaainas_failure *failure)
{
    LINK3args arguments = {.file = nfs_from_handle(file), .link = nfs_place(directory, name)};

    return nfs_change(session, NFSPROC3_LINK, (xdrproc_t)xdr_LINK3args, &arguments, name, failure);
}
