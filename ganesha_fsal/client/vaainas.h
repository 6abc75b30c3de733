/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of VAAI-NAS to the server of an NFS datastore, by NFSv3 procedure 22.
 *
 * One session serves one export of one server. Paths are relative to the export ("vm1/disk.vmdk"), without "." and "..".
 * `failure` is set by each function that fails. If the connection breaks, the call fails, and the next call connects again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum vaainas_error {
    VAAINAS_OK,
    VAAINAS_NOT_FOUND,
    VAAINAS_ACCESS, /* the export, the host's address or the file's permissions refuse the caller */
    VAAINAS_BAD_HANDLE,
    VAAINAS_STALE, /* the file or its export was removed or replaced: try again */
    VAAINAS_EXISTS,
    VAAINAS_NOT_DIRECTORY,
    VAAINAS_IS_DIRECTORY,
    VAAINAS_READ_ONLY,
    VAAINAS_NO_SPACE, /* also: a reservation that the server can't guarantee */
    VAAINAS_QUOTA,
    VAAINAS_FILE_TOO_LARGE,
    VAAINAS_NAME_TOO_LONG,
    VAAINAS_INVALID,
    VAAINAS_BUSY,      /* try again */
    VAAINAS_CANCELLED, /* the progress callback returned false */
    VAAINAS_NOT_SUPPORTED,
    VAAINAS_INPUT_OUTPUT,
    VAAINAS_FAULT,       /* of the server: see its log */
    VAAINAS_UNREACHABLE, /* no connection, or it broke: try again */
    VAAINAS_NO_SERVICE,  /* the server does not serve procedure 22 */
    VAAINAS_PROTOCOL,    /* a malformed response */
    VAAINAS_NO_MEMORY,
    VAAINAS_STUCK, /* a clone made no progress for 300 s, and was aborted */
};

/* A word for an error, as "no_space". */
const char *vaainas_error_name(enum vaainas_error error);

/* Failed step, unchanged state, and next step for the user. */
struct vaainas_failure {
    enum vaainas_error error;
    char message[512];
};

struct vaainas_session;

struct vaainas_server {
    const char *host;              /* name or address */
    const char *export_path;       /* "/datastore1" */
    uint16_t nfs_port, mount_port; /* TCP; 0: as the server's portmapper says */
};

/* Mounts the export, and checks that the server serves procedure 22. NULL with *failure. Close it with vaainas_close(). */
struct vaainas_session *vaainas_open(const struct vaainas_server *server, struct vaainas_failure *failure);
void vaainas_close(struct vaainas_session *session);

struct vaainas_capabilities {
    bool clone;   /* of files, fast and full */
    bool reserve; /* always true: vaainas_reserve() fails with NO_SPACE if the datastore guarantees no space */
    bool statistics;
};
enum vaainas_error vaainas_supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                     struct vaainas_failure *failure);

/* Called about once a second during a full clone. Return false to abort it. */
typedef bool vaainas_progress(void *context, uint64_t done);

struct vaainas_clone {
    const char *source, *destination;
    bool fast; /* share blocks, never copy */
    vaainas_progress *progress;
    void *context;
};

/* Clones a file to a new one, and waits for the end. *done is the size of the clone. */
enum vaainas_error vaainas_clone_file(struct vaainas_session *session, const struct vaainas_clone *clone, uint64_t *done,
                                      struct vaainas_failure *failure);

struct vaainas_statistics {
    uint64_t total_bytes, allocated_bytes;
    uint64_t unique_bytes;   /* of the allocated bytes, those that no other file shares */
    bool unique_exact;       /* false: unique_bytes is an upper bound */
    uint64_t reserved_bytes; /* that the server guarantees to be writable */
    uint64_t as_of;          /* when the server counted: UNIX seconds; 0: unknown */
};
enum vaainas_error vaainas_stat(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                struct vaainas_failure *failure);

/* Guarantees that the whole file can be written, or fails with VAAINAS_NO_SPACE. */
enum vaainas_error vaainas_reserve(struct vaainas_session *session, const char *path, struct vaainas_failure *failure);
