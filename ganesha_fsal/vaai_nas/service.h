/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_SERVICE_H
#define VAAI_NAS_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "adapter.h"
#include "counters.h"
#include "status.h"

/*
 * The VAAI-NAS service: what the front doors ask for, in neutral terms. Thread-safe; every request may be repeated. It knows file
 * operations through fileops, and the NFS server through an adapter.
 */

#define VAAI_NAS_REQUEST_ID_SIZE 16
#define VAAI_NAS_REASON_SIZE 256
#define VAAI_NAS_FILE_PATH_SIZE 1024 /* of a path from an export, with NUL */
#define VAAI_NAS_WAIT_MAX_MILLISECONDS 10000u
/* Of a clone that is answered when it is complete: libtirpc's clients wait 25 s, and what is cancelled needs a moment to end. */
#define VAAI_NAS_DO_MAX_MILLISECONDS 15000u
#define VAAI_NAS_GIVE_UP_MAX_MILLISECONDS 5000u
#define VAAI_NAS_JOBS_ACTIVE_MAX 256u  /* waiting and running; what comes beyond is BUSY */
#define VAAI_NAS_JOBS_KNOWN_MAX 1024u  /* with those that ended, the oldest of which are forgotten */

struct vaai_nas_service;

struct vaai_nas_service_options {
    const struct vaai_nas_adapter *adapter; /* outlives the service */
    unsigned int workers;                   /* threads for all clones, and as many for fast ones alone; 0 for 4 */
    uint32_t do_milliseconds;     /* what vaai_nas_do_clone() may take; 0 for VAAI_NAS_DO_MAX_MILLISECONDS */
    uint32_t cancel_milliseconds; /* how long the end of a cancelled job is waited for; 0 for VAAI_NAS_WAIT_MAX_MILLISECONDS */
};

struct vaai_nas_capabilities {
    bool clone, fast_clone, reserve, statistics, unique_exact;
};

struct vaai_nas_clone {
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE]; /* zeroes: none */
    struct vaai_nas_handle source;
    struct vaai_nas_handle destination; /* a file to replace, or the directory `name` is made in */
    char name[VAAI_NAS_NAME_SIZE + 1];  /* empty: destination is a file */
    bool fast;                          /* never copy */
    bool promised;                      /* fast too: promised where files are thick by default, as a full one is */
    bool guarded;                       /* EXISTS where the destination is a file */
    bool dry_run;
    bool range;                         /* only these bytes, into a file that keeps its others */
    uint64_t source_offset, destination_offset, length;
    /* What it was asked for by (files.h); empty: by handles. */
    char source_path[VAAI_NAS_FILE_PATH_SIZE], destination_path[VAAI_NAS_FILE_PATH_SIZE];
};

enum vaai_nas_job_state { VAAI_NAS_WAITING, VAAI_NAS_RUNNING, VAAI_NAS_COMPLETE, VAAI_NAS_FAILED };

/* A job as it was at one moment. */
struct vaai_nas_job {
    uint64_t id; /* 0 for a dry run */
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE];
    enum vaai_nas_job_state state;
    enum vaai_nas_status status; /* of VAAI_NAS_FAILED */
    uint64_t total_bytes, done_bytes, cloned_bytes, copied_bytes, hole_bytes;
    uint64_t fallback_bytes[FILEOPS_FALLBACK_COUNT]; /* of those copied, by reason */
    uint32_t elapsed_milliseconds;
    uint16_t export_id;
    char host[VAAI_NAS_HOST_SIZE];
    char name[VAAI_NAS_NAME_SIZE + 1];
    char reason[VAAI_NAS_REASON_SIZE]; /* why it failed or bytes were copied */
};

struct vaai_nas_statistics {
    uint64_t total_bytes, allocated_bytes, unique_bytes, reserved_bytes;
    bool unique_exact; /* else unique_bytes is an upper bound */
};

/* NULL when there is no memory or no thread. */
struct vaai_nas_service *vaai_nas_service_new(const struct vaai_nas_service_options *options);

/* Cancels all jobs and waits for them. No other call may be under way. */
void vaai_nas_service_free(struct vaai_nas_service *service);

const struct vaai_nas_counters *vaai_nas_service_counters(const struct vaai_nas_service *service);

/* `handle` is any file or directory of the export. */
enum vaai_nas_status vaai_nas_get_capabilities(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                               const struct vaai_nas_handle *handle, struct vaai_nas_capabilities *capabilities);

/* What two handles are, for who may look at both. */
enum vaai_nas_status vaai_nas_look(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                   const struct vaai_nas_handle *destination, const struct vaai_nas_handle *source,
                                   bool *destination_is_directory, bool *same_export);

/* NOT_FOUND unless the directory's path from the export's is the `length` bytes of `path`. */
enum vaai_nas_status vaai_nas_directory_is(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                           const struct vaai_nas_handle *directory, const char *path, size_t length);

/*
 * Starts a clone, or finds the one that the same request started. Waits for its end for `wait_milliseconds` at most. OK says that `job`
 * is filled in, not that it is complete. `reason` (may be NULL) says more where the status is another.
 */
enum vaai_nas_status vaai_nas_start_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE]);

/*
 * The same, answered when the clone is complete: OK says so. What takes longer than VAAI_NAS_DO_MAX_MILLISECONDS, or finds no place to
 * wait, is not done, and BUSY. Request ids and dry runs are not for this.
 */
enum vaai_nas_status vaai_nas_do_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                       const struct vaai_nas_clone *clone, struct vaai_nas_job *job,
                                       char reason[VAAI_NAS_REASON_SIZE]);

/* Guarantees that the whole file can be overwritten. */
enum vaai_nas_status vaai_nas_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, struct vaai_nas_statistics *statistics,
                                      char reason[VAAI_NAS_REASON_SIZE]);

enum vaai_nas_status vaai_nas_get_statistics(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                             const struct vaai_nas_handle *handle, struct vaai_nas_statistics *statistics);

/*
 * A job by its id, for who asked for it, or may write where it does; to others it is NOT_FOUND. `handle` is of the export the job writes
 * to. INTERRUPTED for an id of an earlier daemon.
 */
enum vaai_nas_status vaai_nas_get_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, uint64_t id, uint32_t wait_milliseconds,
                                      struct vaai_nas_job *job);

/* The latest job that writes or wrote the file `destination`, for who asked for it, or may write there. */
enum vaai_nas_status vaai_nas_get_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct vaai_nas_handle *destination, struct vaai_nas_job *job);

/*
 * Those of the latest jobs of the export `handle` is in that the caller asked for, or may write where they do, newest first. *count is
 * the room in `jobs` before, and their number after.
 */
enum vaai_nas_status vaai_nas_list_jobs(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                        const struct vaai_nas_handle *handle, struct vaai_nas_job *jobs, uint32_t *count);

/*
 * Cancels a job, for who could have started it: `destination` is what the clone was given. id 0: the latest of the file. Waits until
 * the job has ended, for VAAI_NAS_WAIT_MAX_MILLISECONDS at most. OK for one that had ended before, and for one that has not ended in
 * time: `job` says which.
 */
enum vaai_nas_status vaai_nas_cancel_job(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                         const struct vaai_nas_handle *destination, uint64_t id, struct vaai_nas_job *job);

/*
 * Cancels the jobs that read or write in the export, and waits for their end and that of calls by path; false where some have not ended in time.
 * The adapter has to say of the export that it is ending, and to find nothing in it, before: so no others begin.
 */
bool vaai_nas_cancel_export(struct vaai_nas_service *service, uint16_t export_id, uint32_t wait_milliseconds);

#endif
