/* SPDX-License-Identifier: Apache-2.0 */
/* A session: MOUNT, and whether the server serves procedure 22. */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nfs3.h"

enum vaainas_error session_fail(struct vaainas_failure *failure, enum vaainas_error error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    failure->error = error;
    vsnprintf(failure->message, sizeof(failure->message), format, arguments);
    va_end(arguments);
    return error;
}

static void session_to_handle(const fhandle3 *from, struct handle *to)
{
    to->length = from->fhandle3_len;
    memcpy(to->bytes, from->fhandle3_val, to->length);
}

static enum vaainas_error session_mount_export(const struct vaainas_server *server, struct handle *root,
                                               struct vaainas_failure *failure)
{
    struct connection connection = {server->host, server->mount_port, MOUNT_PROGRAM, MOUNT_V3, NULL};
    const char *path = server->export_path;
    char *argument = (char *)(uintptr_t)path;
    mountres3 result = {0};

    enum vaainas_error error = session_call(&connection, MOUNTPROC3_MNT, (xdrproc_t)xdr_dirpath, &argument,
                                            (xdrproc_t)xdr_mountres3, &result, sizeof(result), failure);
    if (error == VAAINAS_OK && result.fhs_status != 0) /* mountstat3 has the numbers of nfsstat3 */
        error = session_fail(failure, session_error_of_nfs(result.fhs_status),
                             "%s can't be mounted from %s (%s): see the server's exports and their clients", path, server->host,
                             vaainas_error_name(session_error_of_nfs(result.fhs_status)));
    if (error == VAAINAS_OK)
        session_to_handle(&result.mountres3_u.fhandle, root);
    xdr_free((xdrproc_t)xdr_mountres3, (char *)&result);
    session_disconnect(&connection);
    return error;
}

struct vaainas_session *vaainas_open(const struct vaainas_server *server, struct vaainas_failure *failure)
{
    struct vaainas_session *session = calloc(1, sizeof(*session));
    struct vaainas_capabilities capabilities;
    char nothing;

    if (session == NULL) {
        session_fail(failure, VAAINAS_NO_MEMORY, "no memory for a session");
        return NULL;
    }
    if (strlen(server->host) >= sizeof(session->host) || strlen(server->export_path) > MNTPATHLEN) {
        session_fail(failure, VAAINAS_NAME_TOO_LONG, "the server's name or the export's path is too long");
        goto failed;
    }
    strcpy(session->host, server->host);
    session->nfs = (struct connection){session->host, server->nfs_port, NFS_PROGRAM, NFS_V3, NULL};
    if (session_mount_export(server, &session->root, failure) != VAAINAS_OK ||
        session_call(&session->nfs, NFSPROC3_NULL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, &nothing, 0, failure) !=
            VAAINAS_OK)
        goto failed;
    const enum vaainas_error error = vaainas_supported(session, &capabilities, failure);
    if (error == VAAINAS_OK)
        return session;
    if (error == VAAINAS_NO_SERVICE)
        session_fail(failure, error, "%s does not serve NFSv3 procedure 22: install the package zvaai-nfs on it",
                     server->host);
    if (error == VAAINAS_NOT_SUPPORTED)
        session_fail(failure, error, "%s does not serve VAAI-NAS for %s: export it by FSAL ZVAAI", server->host,
                     server->export_path);
failed:
    vaainas_close(session);
    return NULL;
}

void vaainas_close(struct vaainas_session *session)
{
    if (session == NULL)
        return;
    session_disconnect(&session->nfs);
    free(session);
}
