/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <rpc/rpc.h>

#include "vaainas.h"

#define HANDLE_SIZE 64u   /* NFS3_FHSIZE */
#define NAME_SIZE 256u    /* with NUL */
#define CALL_SECONDS 60   /* of one RPC; the server answers a clone within 50 s */
#define STUCK_SECONDS 300 /* a clone without progress for this long is aborted */

#define FAILING_POLLS_MAX 60u /* of a running clone, a second apart */

struct handle {
    uint32_t length;
    uint8_t bytes[HANDLE_SIZE];
};

/* A program of the server, connected at its first call, and again after a break. */
struct connection {
    const char *host;
    uint16_t port; /* TCP; 0: by the server's portmapper */
    unsigned long program, version;
    CLIENT *client; /* NULL: not connected */
};

struct vaainas_session {
    char host[256];
    struct connection nfs; /* NFSv3 */
    struct handle root;
};

/* The object of a path. */
struct resolved {
    bool exists;          /* all of it */
    bool is_directory;    /* what the path names */
    bool parent_exists;   /* all but the last component */
    uint32_t mode;        /* permissions of what the path names */
    struct handle object; /* what the path names, where it exists */
    struct handle parent; /* the last directory that exists */
    char name[NAME_SIZE]; /* the last component */
};

/* Procedure 22. Paths are checked and resolved; `failure` is set where the result is not VAAINAS_OK. */
enum vaainas_error session_clone(struct vaainas_session *session, const struct vaainas_clone *clone,
                                 const struct resolved *source, const struct resolved *destination, uint64_t *done,
                                 struct vaainas_failure *failure);
enum vaainas_error session_get_statistics(struct vaainas_session *session, const struct handle *file,
                                          struct vaainas_statistics *statistics, struct vaainas_failure *failure);
enum vaainas_error session_reserve(struct vaainas_session *session, const struct handle *file, struct vaainas_failure *failure);

/* Sets *failure and returns its error. */
enum vaainas_error session_fail(struct vaainas_failure *failure, enum vaainas_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * One RPC, with the caller's credentials, never repeated. `results` are `size` bytes of zeroes, also after an error: UNREACHABLE, NO_SERVICE, ACCESS or
 * PROTOCOL.
 */
enum vaainas_error session_call(struct connection *connection, unsigned long procedure, xdrproc_t encode, const void *arguments,
                                xdrproc_t decode, void *results, size_t size, struct vaainas_failure *failure);

/* Allowed for a program that is not connected. */
void session_disconnect(struct connection *connection);

/* Converts an nfsstat3 (RFC 1813 2.6). */
enum vaainas_error session_error_of_nfs(uint32_t status);

/* NFSv3 procedures. Creating a name fails with EXISTS if the name exists. */
enum vaainas_error session_resolve(struct vaainas_session *session, const char *path, struct resolved *resolved,
                                   struct vaainas_failure *failure);
enum vaainas_error session_make_file(struct vaainas_session *session, const struct handle *directory, const char *name,
                                     uint32_t mode, struct handle *made, struct vaainas_failure *failure);
enum vaainas_error session_find_name(struct vaainas_session *session, const struct handle *directory, const char *name,
                                     struct handle *object, struct vaainas_failure *failure);
enum vaainas_error session_remove_file(struct vaainas_session *session, const struct handle *directory, const char *name,
                                       struct vaainas_failure *failure);
enum vaainas_error session_link_file(struct vaainas_session *session, const struct handle *file, const struct handle *directory,
                                     const char *name, struct vaainas_failure *failure);
