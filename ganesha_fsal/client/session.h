/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VAAINAS_SESSION_H
#define VAAINAS_SESSION_H

#include <rpc/rpc.h>

#include "vaainas.h"

#define HANDLE_SIZE 64u   /* NFS3_FHSIZE */
#define NAME_SIZE 256u    /* with NUL */
#define CALL_SECONDS 60   /* of one RPC; a server holds the answer to a clone for 20 s at most */
#define STUCK_SECONDS 300 /* a clone that does not move for so long is aborted */

struct handle {
    uint32_t length;
    uint8_t bytes[HANDLE_SIZE];
};

struct door;

struct vaainas_session {
    char host[256];
    uint16_t program_port; /* of vaai_nas.x; 0: ask the portmapper */
    CLIENT *nfs;     /* NFSv3 */
    CLIENT *program; /* vaai_nas.x, or NULL */
    struct handle root;
    enum vaainas_door door;
    const struct door *functions;
};

/* What walking a path found. */
struct found {
    bool exists;         /* all of it */
    bool is_directory;   /* what the path names */
    bool parent_exists;  /* all but the last component */
    struct handle object; /* what the path names, where it exists */
    struct handle parent; /* the last directory that was found */
    char name[NAME_SIZE]; /* the last component */
};

/* The two doors. Paths are checked and found; `failure` is set where the result is not VAAINAS_OK. */
struct door {
    enum vaainas_error (*supported)(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                    struct vaainas_failure *failure);
    enum vaainas_error (*clone)(struct vaainas_session *session, const struct vaainas_clone *clone, const struct found *source,
                                const struct found *destination, struct vaainas_clone_result *result,
                                struct vaainas_failure *failure);
    enum vaainas_error (*statistics)(struct vaainas_session *session, const struct handle *file, bool reserve,
                                     struct vaainas_statistics *statistics, struct vaainas_failure *failure);
    enum vaainas_error (*jobs)(struct vaainas_session *session, struct vaainas_job *jobs, size_t *count,
                               struct vaainas_failure *failure);
    enum vaainas_error (*cancel)(struct vaainas_session *session, const struct handle *destination, uint64_t job,
                                 struct vaainas_failure *failure);
};

extern const struct door program_door, procedure22_door;

/* Sets *failure and returns its error. */
enum vaainas_error fail(struct vaainas_failure *failure, enum vaainas_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One RPC. UNREACHABLE, NO_SERVICE or PROTOCOL where it has no results. */
enum vaainas_error call(CLIENT *client, unsigned long procedure, xdrproc_t encode, const void *arguments, xdrproc_t decode,
                        void *results, struct vaainas_failure *failure);

/* An nfsstat3 (RFC 1813 2.6) in our terms. */
enum vaainas_error error_of_nfs(uint32_t status);

/* A program of the server's at a TCP port, 0: where its portmapper says; with the caller's credentials. NULL with *failure. */
CLIENT *connect_to(const char *host, uint16_t port, unsigned long program, unsigned long version, struct vaainas_failure *failure);
/* Ends what connect_to() made, or nothing for NULL. */
void disconnect(CLIENT *client);

/* NFSv3's own procedures. */
enum vaainas_error walk(struct vaainas_session *session, const char *path, struct found *found, struct vaainas_failure *failure);
enum vaainas_error create_file(struct vaainas_session *session, const struct found *found, struct handle *made,
                               struct vaainas_failure *failure);
enum vaainas_error remove_file(struct vaainas_session *session, const struct found *found, struct vaainas_failure *failure);

#endif
