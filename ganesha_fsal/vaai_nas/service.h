/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../fileops/statistics.h"
#include "adapter.h"
#include "counters.h"
#include "status.h"

/*
 * The VAAI-NAS service, independent of a protocol. Thread-safe; every request may be repeated. It uses file operations through
 * fileops, and the NFS server through an adapter.
 */

#define VAAI_NAS_REQUEST_ID_SIZE 16
#define VAAI_NAS_REASON_SIZE 256
#define VAAI_NAS_FILE_PATH_SIZE 1024 /* of a path below an export, with NUL */
/* Limit of a clone whose response is sent at its end. The public plug-in waits 60 s for a response. */
#define VAAI_NAS_DO_MAX_MILLISECONDS 45000u
#define VAAI_NAS_CANCEL_MAX_MILLISECONDS 5000u /* until a cancelled clone has ended */
#define VAAI_NAS_LANE_ACTIVE_MAX 256u          /* clones waiting and running between two pools; more are BUSY */
#define VAAI_NAS_HOST_ACTIVE_MAX 64u           /* of these, of one host */
#define VAAI_NAS_JOBS_KNOWN_MAX 1024u          /* with those that ended: the oldest are forgotten */

struct vaai_nas_service;

struct vaai_nas_service_options {
    const struct vaai_nas_adapter *adapter; /* outlives the service */
    unsigned int workers;                   /* threads between two pools for copies, and as many for fast clones; 0 for 4 */
    uint32_t do_milliseconds;               /* 0 for VAAI_NAS_DO_MAX_MILLISECONDS */
    uint32_t cancel_milliseconds;           /* 0 for VAAI_NAS_CANCEL_MAX_MILLISECONDS */
};

struct vaai_nas_capabilities {
    bool clone, statistics;
};

struct vaai_nas_clone {
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE]; /* zeroes: none */
    struct vaai_nas_handle source;
    struct vaai_nas_handle destination; /* a file without data, or the directory of `name` */
    char name[VAAI_NAS_NAME_SIZE + 1];  /* empty: destination is a file */
    bool fast;                          /* never copy */
    /* Names of the files for the control socket (files.h); empty for handles. */
    char source_path[VAAI_NAS_FILE_PATH_SIZE], destination_path[VAAI_NAS_FILE_PATH_SIZE];
};

enum vaai_nas_job_state { VAAI_NAS_WAITING, VAAI_NAS_RUNNING, VAAI_NAS_COMPLETE, VAAI_NAS_FAILED };

/* State of a job. */
struct vaai_nas_job {
    uint64_t id;
    enum vaai_nas_job_state state;
    enum vaai_nas_status status; /* of VAAI_NAS_FAILED */
    uint64_t total_bytes, done_bytes, cloned_bytes, copied_bytes, hole_bytes;
    uint64_t fallback_bytes[FILEOPS_FALLBACK_COUNT]; /* of copied_bytes, by reason */
    uint16_t export_id;
    char host[VAAI_NAS_HOST_SIZE];
    char reason[VAAI_NAS_REASON_SIZE]; /* of a failure, or of copied bytes */
};

/* NULL: no memory. */
struct vaai_nas_service *vaai_nas_service_new(const struct vaai_nas_service_options *options);

/* Cancels all jobs and waits for them. No other call may be running. */
void vaai_nas_service_free(struct vaai_nas_service *service);

/* Why hosts get no VAAI-NAS, and the remedy, as text; empty: they get it. */
void vaai_nas_service_set_problem(struct vaai_nas_service *service, const char *problem);
void vaai_nas_service_problem(struct vaai_nas_service *service, char problem[VAAI_NAS_REASON_SIZE]);

struct vaai_nas_counters *vaai_nas_service_counters(const struct vaai_nas_service *service);

/* `handle` is a directory of the export. */
enum vaai_nas_status vaai_nas_get_capabilities(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                               const struct vaai_nas_handle *handle, struct vaai_nas_capabilities *capabilities);

/*
 * Starts a clone, or finds the one of the same request. Waits at most wait_milliseconds for its end. OK: `job` is set; the clone need not be complete.
 * Otherwise `reason` (may be NULL) has a sentence.
 */
enum vaai_nas_status vaai_nas_start_clone(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                          const struct vaai_nas_clone *clone, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE]);

/*
 * A clone as procedure 22 requests it: the handle of the destination decides. A file: `path` is ignored, and the clone starts, as with
 * vaai_nas_start_clone(). A directory: the last component of `path` is the name, and the clone is fast within one export. Repeated and leading
 * slashes count as one and none. OK: the clone is complete. BUSY: it took longer than do_milliseconds and was cancelled.
 * IS_DIRECTORY if `path` names the directory itself, NOT_FOUND if the directory is not the parent in `path`.
 */
enum vaai_nas_status vaai_nas_clone_handles(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                            const struct vaai_nas_clone *clone, const char *path, struct vaai_nas_job *job);

/* Whether the whole file can be overwritten in a full pool: OK in a thick datastore, NO_SPACE in a thin one. */
enum vaai_nas_status vaai_nas_reserve(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                      const struct vaai_nas_handle *handle, struct fileops_statistics *statistics);

enum vaai_nas_status vaai_nas_get_statistics(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                             const struct vaai_nas_handle *handle, struct fileops_statistics *statistics);

/* The latest job that writes or wrote the file. NOT_FOUND to all but its host and user, and those who may write the file. */
enum vaai_nas_status vaai_nas_get_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                              const struct vaai_nas_handle *destination, struct vaai_nas_job *job);

/*
 * Cancels the latest job of the file, and waits at most cancel_milliseconds for its end. Needs the right to write the file. OK also for a job that
 * had ended before, or has not ended in time: `job` shows which.
 */
enum vaai_nas_status vaai_nas_cancel_job_of_file(struct vaai_nas_service *service, const struct vaai_nas_caller *caller,
                                                 const struct vaai_nas_handle *destination, struct vaai_nas_job *job);

/*
 * Cancels the jobs that read or write in the export, and waits for their end and for the end of calls by path. false: some have not ended in time.
 * Call it after the adapter's is_ending() has become true.
 */
bool vaai_nas_cancel_export(struct vaai_nas_service *service, uint16_t export_id, uint32_t wait_milliseconds);
