/* SPDX-License-Identifier: Apache-2.0 */
/* A session: MOUNT, the door, and what is asked of NFSv3 itself. */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs3.h"
#include "vaai_nas.h"

#define DIRECTORY_TYPE 2u /* ftype3 NF3DIR */

enum vaainas_error fail(struct vaainas_failure *failure, enum vaainas_error error, const char *format, ...)
{
    if (failure != NULL) {
        va_list arguments;
        va_start(arguments, format);
        failure->error = error;
        vsnprintf(failure->message, sizeof(failure->message), format, arguments);
        va_end(arguments);
    }
    return error;
}

enum vaainas_error call(CLIENT *client, unsigned long procedure, xdrproc_t encode, const void *arguments, xdrproc_t decode,
                        void *results, struct vaainas_failure *failure)
{
    const struct timeval timeout = {.tv_sec = CALL_SECONDS};
    enum clnt_stat state = clnt_call(client, (rpcproc_t)procedure, encode, (caddr_t)(uintptr_t)arguments, decode, results, timeout);

    switch (state) {
    case RPC_SUCCESS:
        return VAAINAS_OK;
    case RPC_PROCUNAVAIL:
    case RPC_PROGUNAVAIL:
    case RPC_PROGVERSMISMATCH:
        return fail(failure, VAAINAS_NO_SERVICE, "the server does not offer this: %s", clnt_sperrno(state));
    case RPC_AUTHERROR:
        return fail(failure, VAAINAS_ACCESS, "the server refuses this host or these credentials; nothing was changed: see the export's clients");
    case RPC_CANTDECODERES:
    case RPC_CANTDECODEARGS:
    case RPC_CANTENCODEARGS:
        return fail(failure, VAAINAS_PROTOCOL, "client and server do not understand each other: %s", clnt_sperrno(state));
    default:
        return fail(failure, VAAINAS_UNREACHABLE, "the connection to the server failed: %s; whether it did what was asked is not known", clnt_sperrno(state));
    }
}

enum vaainas_error error_of_nfs(uint32_t status)
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

static void to_handle(const fhandle3 *from, struct handle *to)
{
    to->length = from->fhandle3_len;
    memcpy(to->bytes, from->fhandle3_val, to->length);
}

static fhandle3 from_handle(const struct handle *handle)
{
    return (fhandle3){.fhandle3_len = handle->length, .fhandle3_val = (char *)(uintptr_t)handle->bytes};
}

static enum vaainas_error mount_export(const struct vaainas_server *server, struct handle *root, struct vaainas_failure *failure)
{
    CLIENT *client = connect_to(server->host, server->mount_port, MOUNT_PROGRAM, MOUNT_V3, failure);
    const char *path = server->export_path;
    char *argument = (char *)(uintptr_t)path;
    mountres3 result = {0};

    if (client == NULL)
        return failure->error;
    enum vaainas_error error =
        call(client, MOUNTPROC3_MNT, (xdrproc_t)xdr_dirpath, &argument, (xdrproc_t)xdr_mountres3, &result, failure);
    if (error == VAAINAS_OK && result.fhs_status != 0) /* mountstat3 has the numbers of nfsstat3 */
        error = fail(failure, error_of_nfs(result.fhs_status), "%s can't be mounted from %s (%s): see the server's exports and their clients",
                     path, server->host, vaainas_error_name(error_of_nfs(result.fhs_status)));
    if (error == VAAINAS_OK)
        to_handle(&result.mountres3_u.fhandle, root);
    xdr_free((xdrproc_t)xdr_mountres3, (char *)&result);
    disconnect(client);
    return error;
}

/* Whether the server has the door. NO_SERVICE where it has not. */
static enum vaainas_error try_door(struct vaainas_session *session, enum vaainas_door door, struct vaainas_failure *failure)
{
    struct vaainas_capabilities capabilities = {.size = sizeof(capabilities)};

    session->door = door;
    session->functions = door == VAAINAS_PROGRAM ? &program_door : &procedure22_door;
    if (door == VAAINAS_PROGRAM) {
        session->program = connect_to(session->host, session->program_port, VAAI_NAS_PROGRAM, VAAI_NAS_VERSION_1, failure);
        if (session->program == NULL)
            return failure->error;
    }
    return session->functions->supported(session, &capabilities, failure);
}

struct vaainas_session *vaainas_open_server(const struct vaainas_server *server, struct vaainas_failure *failure)
{
    struct vaainas_failure ignored;
    struct vaainas_session *session = calloc(1, sizeof(*session));
    enum vaainas_error error;

    if (failure == NULL)
        failure = &ignored;
    if (session == NULL) {
        fail(failure, VAAINAS_NO_MEMORY, "there is no memory for a session");
        return NULL;
    }
    if (server->size < sizeof(*server)) {
        fail(failure, VAAINAS_INVALID, "a structure's size is not set, or is of a later libvaainas");
        goto failed;
    }
    if (strlen(server->host) >= sizeof(session->host) || strlen(server->export_path) > MNTPATHLEN) {
        fail(failure, VAAINAS_NAME_TOO_LONG, "the server's name or the export's path is too long");
        goto failed;
    }
    strcpy(session->host, server->host);
    session->program_port = server->program_port;
    if (mount_export(server, &session->root, failure) != VAAINAS_OK)
        goto failed;
    session->nfs = connect_to(server->host, server->nfs_port, NFS_PROGRAM, NFS_V3, failure);
    if (session->nfs == NULL)
        goto failed;
    if (call(session->nfs, NFSPROC3_NULL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, failure) != VAAINAS_OK)
        goto failed;
    error = try_door(session, server->door == VAAINAS_PROCEDURE22 ? server->door : VAAINAS_PROGRAM, failure);
    if (server->door == VAAINAS_ANY && (error == VAAINAS_NO_SERVICE || error == VAAINAS_UNREACHABLE)) {
        disconnect(session->program);
        session->program = NULL;
        error = try_door(session, VAAINAS_PROCEDURE22, failure);
    }
    if (error == VAAINAS_OK)
        return session;
    if (error == VAAINAS_NO_SERVICE)
        fail(failure, error, "%s offers no VAAI-NAS%s", server->host,
             server->door == VAAINAS_PROGRAM       ? " by the program of vaai_nas.x"
             : server->door == VAAINAS_PROCEDURE22 ? " by NFSv3 procedure 22: its ganesha is not the one with our patch"
                                                   : ": is its export served by FSAL ZVAAI?");
failed:
    vaainas_close(session);
    return NULL;
}

struct vaainas_session *vaainas_open(const char *host, const char *export_path, enum vaainas_door door,
                                     struct vaainas_failure *failure)
{
    const struct vaainas_server server = {.size = sizeof(server), .host = host, .export_path = export_path, .door = door};

    return vaainas_open_server(&server, failure);
}

void vaainas_close(struct vaainas_session *session)
{
    if (session == NULL)
        return;
    disconnect(session->program);
    disconnect(session->nfs);
    free(session);
}

static enum vaainas_error lookup(struct vaainas_session *session, const struct handle *directory, const char *name,
                                 struct handle *object, bool *is_directory, struct vaainas_failure *failure)
{
    diropargs3 arguments = {.dir = from_handle(directory), .name = (char *)(uintptr_t)name};
    LOOKUP3res result = {0};
    enum vaainas_error error =
        call(session->nfs, NFSPROC3_LOOKUP, (xdrproc_t)xdr_diropargs3, &arguments, (xdrproc_t)xdr_LOOKUP3res, &result, failure);

    if (error == VAAINAS_OK && result.status != 0)
        error = fail(failure, error_of_nfs(result.status), "%s: %s", name, vaainas_error_name(error_of_nfs(result.status)));
    if (error == VAAINAS_OK) {
        const post_op_attr *attributes = &result.LOOKUP3res_u.resok.obj_attributes;
        to_handle(&result.LOOKUP3res_u.resok.object, object);
        *is_directory = attributes->attributes_follow && attributes->post_op_attr_u.attributes.type == DIRECTORY_TYPE;
    }
    xdr_free((xdrproc_t)xdr_LOOKUP3res, (char *)&result);
    return error;
}

enum vaainas_error walk(struct vaainas_session *session, const char *path, struct found *found, struct vaainas_failure *failure)
{
    memset(found, 0, sizeof(*found));
    found->parent = found->object = session->root;
    found->exists = found->is_directory = found->parent_exists = true;
    for (;;) {
        while (*path == '/')
            path++;
        size_t length = strcspn(path, "/");
        if (length == 0)
            return VAAINAS_OK;
        if (length >= sizeof(found->name))
            return fail(failure, VAAINAS_NAME_TOO_LONG, "a name in the path is longer than 255 bytes; nothing was changed");
        if (!found->exists) { /* and something follows */
            found->parent_exists = false;
            return VAAINAS_OK;
        }
        if (!found->is_directory)
            return fail(failure, VAAINAS_NOT_DIRECTORY, "%s is no directory; nothing was changed", found->name);
        memcpy(found->name, path, length);
        found->name[length] = 0;
        path += length;
        if (strcmp(found->name, ".") == 0 || strcmp(found->name, "..") == 0)
            return fail(failure, VAAINAS_INVALID, "a path has no \".\" or \"..\" in it; nothing was changed");
        found->parent = found->object;
        enum vaainas_error error = lookup(session, &found->parent, found->name, &found->object, &found->is_directory, failure);
        if (error == VAAINAS_NOT_FOUND)
            found->exists = false;
        else if (error != VAAINAS_OK)
            return error;
    }
}

enum vaainas_error create_file(struct vaainas_session *session, const struct found *found, struct handle *made,
                               struct vaainas_failure *failure)
{
    CREATE3args arguments = {.where = {.dir = from_handle(&found->parent), .name = (char *)(uintptr_t)found->name},
                             .set_mode = TRUE, .mode = 0600};
    REMOVE3res result = {0};
    bool is_directory;
    enum vaainas_error error =
        call(session->nfs, NFSPROC3_CREATE, (xdrproc_t)xdr_CREATE3args, &arguments, (xdrproc_t)xdr_REMOVE3res, &result, failure);

    if (error == VAAINAS_OK && result.status != 0)
        error = fail(failure, error_of_nfs(result.status), "%s can't be made: %s; nothing was changed", found->name,
                     vaainas_error_name(error_of_nfs(result.status)));
    return error != VAAINAS_OK ? error : lookup(session, &found->parent, found->name, made, &is_directory, failure);
}

enum vaainas_error remove_file(struct vaainas_session *session, const struct found *found, struct vaainas_failure *failure)
{
    diropargs3 arguments = {.dir = from_handle(&found->parent), .name = (char *)(uintptr_t)found->name};
    REMOVE3res result = {0};
    enum vaainas_error error =
        call(session->nfs, NFSPROC3_REMOVE, (xdrproc_t)xdr_diropargs3, &arguments, (xdrproc_t)xdr_REMOVE3res, &result, failure);

    if (error == VAAINAS_OK && result.status != 0)
        error = fail(failure, error_of_nfs(result.status), "%s can't be removed: %s; nothing was changed", found->name,
                     vaainas_error_name(error_of_nfs(result.status)));
    return error;
}
