/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_FILES_H
#define VAAI_NAS_FILES_H

#include "../fileops/dataset.h"
#include "service.h"
#include "vmdk_list.h"

/*
 * What who rules this machine may have done with the files of an export, by their paths from it. Nothing here goes by a symbolic link or
 * leads out of the export's file system. Errors of a path: STALE if the export does not exist, NOT_FOUND, NOT_DIRECTORY, NOT_SUPPORTED for an
 * export of another FSAL or another file system in one, INVALID for what is no such path: names with one slash between, none of them "." or
 * "..", VAAI_NAS_FILE_PATH_SIZE - 1 bytes at most. BUSY where too many touch files already (file_calls.h), as in a pool that hangs.
 */

#define VAAI_NAS_LOCAL_HOST "local" /* the host of its requests in counters and jobs */

/* A page of the export's VMDK files that hold data; see vmdk_list.h. vmdk_list_free() is the caller's, whatever is returned. */
enum vaai_nas_status vaai_nas_list_files(struct vaai_nas_service *service, uint16_t export_id, const char *after, size_t limit,
                                         struct vmdk_list *list);

enum vaai_nas_status vaai_nas_get_file_statistics(struct vaai_nas_service *service, uint16_t export_id, const char *path,
                                                  struct fileops_statistics *statistics);

/* Whether the dataset of an export is thick, and what of it is admitted. */
enum vaai_nas_status vaai_nas_get_space(struct vaai_nas_service *service, uint16_t export_id,
                                        struct fileops_dataset_status *space);

/* What its files share; see fileops_dataset_shared(). NOT_SUPPORTED without the kernel module. */
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
 * Starts it as vaai_nas_start_clone() does, and does not wait. The new file has the source's owner, group and mode. The same request, by its id,
 * finds its job whatever became of the files. *field names what is in the way, "source", "destination" or "request_id", or is NULL.
 */
enum vaai_nas_status vaai_nas_start_file_clone(struct vaai_nas_service *service, const struct vaai_nas_file_clone *request,
                                               struct vaai_nas_job *job, const char **field, char reason[VAAI_NAS_REASON_SIZE]);

/* A job that writes to the export, by its id. These touch no file, and the export may be gone. */
enum vaai_nas_status vaai_nas_get_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                           struct vaai_nas_job *job);
enum vaai_nas_status vaai_nas_cancel_file_job(struct vaai_nas_service *service, uint16_t export_id, uint64_t id,
                                              struct vaai_nas_job *job);

#endif
