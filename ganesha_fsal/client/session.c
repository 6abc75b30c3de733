/* SPDX-License-Identifier: Apache-2.0 */
/* A session: MOUNT and the door. */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs3.h"
#include "structures.h"
#include "vaai_nas.h"

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

static void to_handle(const fhandle3 *from, struct handle *to)
{
    to->length = from->fhandle3_len;
    memcpy(to->bytes, from->fhandle3_val, to->length);
}

static enum vaainas_error mount_export(const struct vaainas_server *server, struct handle *root, struct vaainas_failure *failure)
{
    struct connection connection = {server->host, server->mount_port, MOUNT_PROGRAM, MOUNT_V3, NULL};
    const char *path = server->export_path;
    char *argument = (char *)(uintptr_t)path;
    mountres3 result = {0};

    enum vaainas_error error =
        call(&connection, REPEATABLE, MOUNTPROC3_MNT, (xdrproc_t)xdr_dirpath, &argument, (xdrproc_t)xdr_mountres3, &result, sizeof(result), failure);
    if (error == VAAINAS_OK && result.fhs_status != 0) /* mountstat3 has the numbers of nfsstat3 */
        error = fail(failure, error_of_nfs(result.fhs_status), "%s can't be mounted from %s (%s): see the server's exports and their clients",
                     path, server->host, vaainas_error_name(error_of_nfs(result.fhs_status)));
    if (error == VAAINAS_OK)
        to_handle(&result.mountres3_u.fhandle, root);
    xdr_free((xdrproc_t)xdr_mountres3, (char *)&result);
    disconnect(&connection);
    return error;
}

/* Whether the server has the door. NO_SERVICE where it has not. */
static enum vaainas_error try_door(struct vaainas_session *session, enum vaainas_door door, struct vaainas_failure *failure)
{
    struct vaainas_capabilities capabilities = {.size = sizeof(capabilities)};

    session->door = door;
    session->functions = door == VAAINAS_PROGRAM ? &program_door : &procedure22_door;
    return session->functions->supported(session, &capabilities, failure);
}

struct vaainas_session *vaainas_open_server(const struct vaainas_server *given, struct vaainas_failure *failure)
{
    struct vaainas_failure ignored;
    struct vaainas_server own;
    char nothing;
    const struct vaainas_server *server = &own;
    struct vaainas_session *session = calloc(1, sizeof(*session));
    enum vaainas_error error;

    if (failure == NULL)
        failure = &ignored;
    if (session == NULL) {
        fail(failure, VAAINAS_NO_MEMORY, "there is no memory for a session");
        return NULL;
    }
    if (!STRUCTURE_TAKE(&own, given, program_port)) {
        fail(failure, VAAINAS_INVALID, "a structure's size is not set, or it asks for what only a later libvaainas knows");
        goto failed;
    }
    if (strlen(server->host) >= sizeof(session->host) || strlen(server->export_path) > MNTPATHLEN) {
        fail(failure, VAAINAS_NAME_TOO_LONG, "the server's name or the export's path is too long");
        goto failed;
    }
    strcpy(session->host, server->host);
    session->nfs = (struct connection){session->host, server->nfs_port, NFS_PROGRAM, NFS_V3, NULL};
    session->program = (struct connection){session->host, server->program_port, VAAI_NAS_PROGRAM, VAAI_NAS_VERSION_1, NULL};
    if (mount_export(server, &session->root, failure) != VAAINAS_OK)
        goto failed;
    if (call(&session->nfs, REPEATABLE, NFSPROC3_NULL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, &nothing, 0, failure) != VAAINAS_OK)
        goto failed;
    error = try_door(session, server->door == VAAINAS_PROCEDURE22 ? server->door : VAAINAS_PROGRAM, failure);
    if (server->door == VAAINAS_ANY && (error == VAAINAS_NO_SERVICE || error == VAAINAS_UNREACHABLE)) {
        disconnect(&session->program);
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
    disconnect(&session->program);
    disconnect(&session->nfs);
    free(session);
}
