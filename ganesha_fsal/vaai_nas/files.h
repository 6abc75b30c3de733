/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "../fileops/dataset.h"
#include "service.h"
#include "vmdk_list.h"

/*
 * Operations for administrators of this machine on files of an export, by their paths in it. They follow no symbolic link and
 * stay in the export's file system. Errors of a path: STALE if the export does not exist, NOT_FOUND, NOT_DIRECTORY, NOT_SUPPORTED for an
 * export of another FSAL or another file system in one, INVALID for a malformed path: it has names with one slash between, none of them "." or
 * "..", VAAI_NAS_FILE_PATH_SIZE - 1 bytes at most. BUSY if too many calls touch files already (file_calls.h), as in a pool that hangs.
 */

#define VAAI_NAS_LOCAL_HOST "local" /* the host of its requests in counters and jobs */

/* A page of the export's VMDK files with data; see vmdk_list.h. The caller must call vmdk_list_free(), whatever the result. */
enum vaai_nas_status vaai_nas_list_files(struct vaai_nas_service *service, uint16_t export_id, const char *after, size_t limit,
                                         struct vmdk_list *list);

enum vaai_nas_status vaai_nas_get_file_statistics(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                                  struct fileops_statistics *statistics);

/* Whether the dataset of an export is thick, and its admitted size. */
enum vaai_nas_status vaai_nas_get_space(struct vaai_nas_service *service, uint16_t export_id,
                                        struct fileops_dataset_status *space);

/* Shared blocks of its files; see fileops_dataset_shared(). NOT_SUPPORTED without the kernel module. */
enum vaai_nas_status vaai_nas_get_shared(struct vaai_nas_service *service, uint16_t export_id, bool restart,
                                         struct fileops_dataset_shared *shared);

/* A clone of one file to a new name in the same export. */
struct vaai_nas_file_clone {
    uint16_t export_id;
    const char *source, *destination;
    bool fast;
    uint8_t request_id[VAAI_NAS_REQUEST_ID_SIZE];
};

/*
 * Starts a clone as vaai_nas_start_clone() does, without waiting. The new file has the source's owner, group and mode. A repeated request, by its id,
 * returns its job whatever became of the files. *field is the parameter that is the problem, "source", "destination" or "request_id", or NULL.
 */
enum vaai_nas_status vaai_nas_start_file_clone(struct vaai_nas_service *service, const struct vaai_nas_file_clone *request,
                                               struct vaai_nas_job *job, const char **field, char reason[VAAI_NAS_REASON_SIZE]);

/* A job that writes to the export, by its id. These touch no file, and the export may have been removed. */
enum vaai_nas_status vaai_nas_get_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                           struct vaai_nas_job *job);
enum vaai_nas_status vaai_nas_cancel_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                              struct vaai_nas_job *job);
