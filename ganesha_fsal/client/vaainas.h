/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VAAINAS_H
#define VAAINAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * libvaainas: offloads of NFS datastores, for a host. One session is for one export of one server and for one thread at a time.
 * Paths are relative to the export ("vm1/disk.vmdk"), and have no "." or ".." in them.
 *
 * The interface is stable: fields are added at the end of structures only, which begin with their size as the caller knows it; an earlier
 * caller's are shorter, and a later caller's may be longer, if what is not known here is zero. `failure` may be NULL everywhere.
 *
 * A connection that broke, as by a restart of the server, is made again by the next call, or within it where the call may be repeated.
 * No signal is raised by it.
 */

/* How the server is asked. */
enum vaainas_door {
    VAAINAS_ANY = 0,          /* the program where the server has it, else procedure 22 */
    VAAINAS_PROGRAM = 1,      /* the ONC RPC program of vaai_nas.x */
    VAAINAS_PROCEDURE22 = 2,  /* procedure 22 on the NFSv3 port */
};

enum vaainas_error {
    VAAINAS_OK = 0,
    /* 1 to 19: as vaai_nas.x numbers them. */
    VAAINAS_NOT_FOUND = 1,
    VAAINAS_ACCESS = 2,
    VAAINAS_BAD_HANDLE = 3,
    VAAINAS_STALE = 4,
    VAAINAS_EXISTS = 5,
    VAAINAS_NOT_DIRECTORY = 6,
    VAAINAS_IS_DIRECTORY = 7,
    VAAINAS_READ_ONLY = 8,
    VAAINAS_NO_SPACE = 9,
    VAAINAS_QUOTA = 10,
    VAAINAS_FILE_TOO_LARGE = 11,
    VAAINAS_NAME_TOO_LONG = 12,
    VAAINAS_INVALID = 13,
    VAAINAS_BUSY = 14,
    VAAINAS_CANCELLED = 15,
    VAAINAS_NOT_SUPPORTED = 16,
    VAAINAS_INPUT_OUTPUT = 17,
    VAAINAS_INTERRUPTED = 18,
    VAAINAS_FAULT = 19,
    /* Of the way to the server. */
    VAAINAS_UNREACHABLE = 100, /* no connection, or it broke and could not be made again */
    VAAINAS_NO_SERVICE = 101,  /* the server does not have the door that was asked for */
    VAAINAS_PROTOCOL = 102,    /* an answer that the protocol does not know */
    VAAINAS_NO_MEMORY = 103,
    VAAINAS_STUCK = 104,       /* nothing moved for 300 s; the clone was aborted */
};

/* What went wrong, what was not changed, what to do: one or two sentences. */
struct vaainas_failure {
    enum vaainas_error error;
    char message[512];
};

struct vaainas_session;

/* Mounts `export_path` of `host` (name or address; ports come from its portmapper). NULL with *failure. */
struct vaainas_session *vaainas_open(const char *host, const char *export_path, enum vaainas_door door,
                                     struct vaainas_failure *failure);
void vaainas_close(struct vaainas_session *session);

/* A server whose ports are given, as where its portmapper can't be reached; those that are 0 come from the portmapper. */
struct vaainas_server {
    size_t size; /* sizeof(struct vaainas_server), set by the caller */
    const char *host, *export_path;
    enum vaainas_door door;
    uint16_t nfs_port, mount_port, program_port; /* TCP: NFS, MOUNT, the program of vaai_nas.x */
};
struct vaainas_session *vaainas_open_server(const struct vaainas_server *server, struct vaainas_failure *failure);

/* The door that is used, never VAAINAS_ANY. */
enum vaainas_door vaainas_session_door(const struct vaainas_session *session);

struct vaainas_capabilities {
    size_t size; /* sizeof(struct vaainas_capabilities), set by the caller */
    bool clone, fast_clone;
    bool reserve; /* by procedure 22 always true: reservations are answered, by NO_SPACE where nothing can hold space */
    bool statistics;
    bool unique_exact; /* by procedure 22 always false: not known */
};
enum vaainas_error vaainas_supported(struct vaainas_session *session, struct vaainas_capabilities *capabilities,
                                     struct vaainas_failure *failure);

enum {
    VAAINAS_FAST = 1 << 0,    /* share blocks, never copy */
    VAAINAS_GUARDED = 1 << 1, /* fail where the destination exists */
    VAAINAS_DRY_RUN = 1 << 2, /* check only; by procedure 22 no more than the paths and the server's support */
};

/* Called about once a second. Returns false to abort the clone. */
typedef bool (*vaainas_progress)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* total 0: not known */

struct vaainas_clone {
    size_t size; /* sizeof(struct vaainas_clone), set by the caller */
    const char *source, *destination;
    unsigned int flags;
    bool range; /* program only: these bytes, into a file that is there */
    uint64_t source_offset, destination_offset, length;
    vaainas_progress progress; /* may be NULL */
    void *context;
};

struct vaainas_clone_result {
    size_t size; /* sizeof(struct vaainas_clone_result), set by the caller */
    uint64_t job; /* 0: not known */
    uint64_t done_bytes;
    bool ways_known; /* the two below are */
    uint64_t cloned_bytes, copied_bytes;
    char reason[256]; /* why bytes were copied */
};

/* Clones and waits for the end. `result` may be NULL. */
enum vaainas_error vaainas_clone_file(struct vaainas_session *session, const struct vaainas_clone *clone,
                                      struct vaainas_clone_result *result, struct vaainas_failure *failure);

/* With all in it that was written and cloned before the call. VAAINAS_BUSY: the server could not wait for that. */
struct vaainas_statistics {
    size_t size; /* sizeof(struct vaainas_statistics), set by the caller */
    uint64_t total_bytes, allocated_bytes, unique_bytes, reserved_bytes;
    bool unique_exact; /* else an upper bound; by procedure 22 always false */
};
enum vaainas_error vaainas_stat(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                struct vaainas_failure *failure);

/* Guarantees that all of the file can be written. `statistics` may be NULL. */
enum vaainas_error vaainas_reserve(struct vaainas_session *session, const char *path, struct vaainas_statistics *statistics,
                                   struct vaainas_failure *failure);

enum vaainas_job_state { VAAINAS_JOB_WAITING, VAAINAS_JOB_RUNNING, VAAINAS_JOB_COMPLETE, VAAINAS_JOB_FAILED };

struct vaainas_job {
    uint64_t id;
    enum vaainas_job_state state;
    enum vaainas_error error; /* of VAAINAS_JOB_FAILED */
    uint64_t total_bytes, done_bytes, cloned_bytes, copied_bytes;
    uint32_t elapsed_milliseconds;
    char host[64], name[256], reason[256];
};

/*
 * Those of the export's jobs that the caller asked for, or that write where he may write, newest first, into an array of *count;
 * *count is their number then. `size` is sizeof(struct vaainas_job) as the caller knows it. Program only.
 */
enum vaainas_error vaainas_jobs(struct vaainas_session *session, struct vaainas_job *jobs, size_t size, size_t *count,
                                struct vaainas_failure *failure);

/*
 * Cancels a clone. OK where it has ended, also where it was complete before; BUSY where it was told to end, and has not yet. `destination`
 * is the file it replaces, or the directory it makes a file in. By procedure 22 `job` is 0, and the clone is
 * the one into the file.
 */
enum vaainas_error vaainas_cancel(struct vaainas_session *session, const char *destination, uint64_t job,
                                  struct vaainas_failure *failure);

/* A word for an error, as "no_space". */
const char *vaainas_error_name(enum vaainas_error error);

#ifdef __cplusplus
}
#endif

#endif
