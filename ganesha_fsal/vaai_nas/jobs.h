/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_JOBS_H
#define VAAI_NAS_JOBS_H

#include <time.h>

#include "../fileops/clone.h"
#include "service.h"

/* The clones under way and those that ended lately: a bounded table, a queue, threads that work it off. Thread-safe. */

struct vaai_nas_jobs;

/* A clone whose files are open and checked. */
struct vaai_nas_order {
    struct vaai_nas_clone clone;
    struct vaai_nas_file source, destination;
    uint64_t total_bytes;
    char host[VAAI_NAS_HOST_SIZE];
};

/* The order as fileops wants it, without progress. */
void vaai_nas_order_to_request(const struct vaai_nas_order *order, struct fileops_clone_request *request);

/* What fileops_clone() answered: the status, and a sentence that says what became of the destination too. */
enum vaai_nas_status vaai_nas_status_of_clone(int error);
void vaai_nas_describe_failure(const struct vaai_nas_order *order, int error, const struct fileops_clone_result *result,
                               char reason[VAAI_NAS_REASON_SIZE]);

struct vaai_nas_jobs *vaai_nas_jobs_new(const struct vaai_nas_service_options *options, struct vaai_nas_counters *counters);
void vaai_nas_jobs_free(struct vaai_nas_jobs *jobs);

/*
 * Enters the order, or finds the job of the same request: by request id, or one without an id that is under way between the same
 * files. Takes the order's files over whatever is returned. EXISTS: the request id belongs to another request. BUSY: the
 * destination is being written by another job, or there are too many. STALE: an export is being removed. FAULT: no memory.
 */
enum vaai_nas_status vaai_nas_jobs_submit(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, uint32_t wait_milliseconds,
                                          struct vaai_nas_job *job, char reason[VAAI_NAS_REASON_SIZE]);

/*
 * The same, answered when the clone is complete. BUSY, with nothing begun, where too many wait. What takes longer than
 * the options' do_milliseconds is cancelled, and BUSY. Else the status of a job that failed. `job` is set where a job was found or entered.
 */
enum vaai_nas_status vaai_nas_jobs_do(struct vaai_nas_jobs *jobs, struct vaai_nas_order *order, struct vaai_nas_job *job,
                                      char reason[VAAI_NAS_REASON_SIZE]);

/* A job, and what tells who may see whose it is. */
struct vaai_nas_listed_job {
    struct vaai_nas_job job;
    struct vaai_nas_handle destination; /* as the clone was given it */
    uid_t owner;                        /* who asked, squashed */
};

/* The job an earlier call with this request id made, when it was for the same request. NOT_FOUND, EXISTS as above. */
enum vaai_nas_status vaai_nas_jobs_find_request(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone,
                                                uint64_t *id);

/*
 * The job that writes to the export and has the clone's request id, when it was asked for by the same paths: EXISTS where it was for another request,
 * NOT_FOUND where there is none.
 */
enum vaai_nas_status vaai_nas_jobs_get_of_paths(struct vaai_nas_jobs *jobs, const struct vaai_nas_clone *clone, uint16_t export_id,
                                                struct vaai_nas_job *job);

enum vaai_nas_status vaai_nas_jobs_get(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, uint32_t wait_milliseconds,
                                       struct vaai_nas_listed_job *job);

/* The latest job whose destination is this file. */
enum vaai_nas_status vaai_nas_jobs_get_of_file(struct vaai_nas_jobs *jobs, dev_t device, ino_t inode,
                                               struct vaai_nas_listed_job *job);

void vaai_nas_jobs_list(struct vaai_nas_jobs *jobs, uint16_t export_id, struct vaai_nas_listed_job *list, uint32_t *count);

/* id 0: the latest whose destination is the file. NOT_FOUND also where the job has another destination. */
enum vaai_nas_status vaai_nas_jobs_cancel(struct vaai_nas_jobs *jobs, uint64_t id, dev_t device, ino_t inode,
                                          struct vaai_nas_job *job);

/* By its id and the export that it writes to, whatever became of its destination. */
enum vaai_nas_status vaai_nas_jobs_cancel_id(struct vaai_nas_jobs *jobs, uint64_t id, uint16_t export_id, struct vaai_nas_job *job);

/*
 * Cancels those that read or write in the export, and waits until none is active. false where some still are at `until`, of
 * CLOCK_MONOTONIC. That no others enter is the adapter's part (is_ending).
 */
bool vaai_nas_jobs_cancel_export(struct vaai_nas_jobs *jobs, uint16_t export_id, const struct timespec *until);

/* Of CLOCK_MONOTONIC. */
struct timespec vaai_nas_moment_in(uint32_t milliseconds);

#endif
