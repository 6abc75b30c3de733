/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include <time.h>

#include "../fileops/clone.h"
#include "service.h"

/*
 * Running and recently ended clones: a bounded table, and threads that run the clones. Thread-safe.
 * Each pair of pools (source, destination) is a lane with separate threads and limits, so that a pool that hangs stops only its own lanes.
 * In a lane no host gets more than half of the threads.
 */

struct vaai_nas_jobs;

/* A clone whose files are open and checked. */
struct vaai_nas_order {
    struct vaai_nas_clone clone;
    struct vaai_nas_file source, destination;
    uint64_t total_bytes;
    mode_t mode; /* of a file made by name */
    char host[VAAI_NAS_HOST_SIZE];
};

struct vaai_nas_jobs *vaai_nas_jobs_new(const struct vaai_nas_service_options *options, struct vaai_nas_counters *counters);
void vaai_nas_jobs_free(struct vaai_nas_jobs *jobs);

/*
 * Enters the order, or finds the job of the same request: by request id, or without one if it is active between the same files.
 * Waits at most wait_milliseconds for the job's end. Owns the order's files from now on, whatever it returns.
 * EXISTS: the request id belongs to another request. BUSY: another job writes the destination, or a limit is reached.
 * STALE: the export is being removed. FAULT: no memory or thread.
 */
enum vaai_nas_status vaai_nas_jobs_submit(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE]);

/*
 * The same, but returns OK only when the clone is complete. After the options' do_milliseconds it cancels the clone and returns BUSY.
 * BUSY without a job if too many callers wait. Otherwise the status of the failed job. `job` is set if a job exists.
 */
enum vaai_nas_status vaai_nas_jobs_do(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, struct vaai_nas_job *job,
                                      char reason[VAAI_NAS_REASON_SIZE]);

/* A job with the data that decides who may see it. */
struct vaai_nas_listed_job {
    struct vaai_nas_job job;
    struct vaai_nas_handle destination; /* as in the request */
    uid_t owner;                        /* the caller's user, squashed */
};

/* The job of the clone's request id that writes to the export. NOT_FOUND: none. EXISTS: the id belongs to other paths. */
enum vaai_nas_status vaai_nas_jobs_get_of_paths(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone,
                                                uint16_t export_id, struct vaai_nas_job *job);

/* A job that writes to the export. INTERRUPTED: an id of an earlier daemon. */
enum vaai_nas_status vaai_nas_jobs_get(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *job);

/* The latest job whose destination is this file. */
enum vaai_nas_status vaai_nas_jobs_get_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                               struct vaai_nas_listed_job *job);

/* Cancels a job, and waits at most the options' cancel_milliseconds for its end. OK also if it had ended, or has not ended yet: see `job`. */
enum vaai_nas_status vaai_nas_jobs_cancel_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                                  struct vaai_nas_job *job);
enum vaai_nas_status vaai_nas_jobs_cancel(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *job);

/*
 * Cancels all jobs that read or write in the export, and waits until `until` (CLOCK_MONOTONIC). false if some are still active.
 * The adapter's is_ending() rejects new jobs.
 */
bool vaai_nas_jobs_cancel_export(struct vaai_nas_jobs *jobs, uint16_t export_id, const struct timespec *until);

/* Of CLOCK_MONOTONIC. */
struct timespec vaai_nas_moment_in(uint32_t milliseconds);
