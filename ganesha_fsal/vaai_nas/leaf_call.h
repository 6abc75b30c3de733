/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal_api.h"
#include "config_parsing.h"

struct fileops_dataset;

/* Functions of the FSAL for the adapter. */

/* A new descriptor of the object, which the caller closes; flags as in open(2). -1 with errno. */
int fsal_zvaai_open_leaf(struct fsal_obj_handle *leaf, int flags);

/* The dataset of the object; NULL on a file system of another FSAL. It lives as long as the object. */
struct fileops_dataset *fsal_zvaai_dataset(struct fsal_obj_handle *leaf);

/*
 * Adds an open (FSAL_O_READ, FSAL_O_RDWR; FSAL_O_CLOSED: none) to the share reservations of the file; remove it with the
 * same flags. ERR_FSAL_SHARE_DENIED if a client's reservation conflicts.
 */
fsal_status_t fsal_zvaai_share_begin(struct fsal_obj_handle *leaf, fsal_openflags_t flags);
void fsal_zvaai_share_end(struct fsal_obj_handle *leaf, fsal_openflags_t flags);

/* Whether the export is being removed; true from before the call of vaai_nas_export_ends(). */
bool fsal_zvaai_export_is_ending(const struct fsal_export *export);

/* Functions of the adapter for the FSAL. */

/* The FSAL's fallocate begins with this: true if the call was not a client's ALLOCATE, but one of adapter_with_leaf(). */
bool vaai_nas_leaf_called(struct fsal_obj_handle *leaf, fsal_status_t *status);

/*
 * Starts the service as configured in the block VAAI_NAS of ganesha's configuration (docs/vaai_nas.md), after
 * the daemon is up. 0, or -1 with the errors counted. A second call, after the configuration is read again, does nothing.
 */
int vaai_nas_start(config_file_t configuration, struct config_error_type *errors);

/* A read or write of the client in op_ctx ended. Does nothing before vaai_nas_start(), and for the daemon's own transfers. */
void vaai_nas_count_client_transfer(bool write, bool succeeded, uint64_t bytes, const struct timespec *began);

/* An export is being removed: cancels the clones that read or write in it, and waits some seconds for their end. */
void vaai_nas_export_ends(uint16_t export_id);
