/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"

/* Changes are on stable storage before the client gets its answer, as RFC 1813 4.7 requires. FSAL_VFS leaves that to the file system, and ZFS does it only
 * with sync=always. If it fails, the client gets an I/O error. The commit waits for the disks: call it without locks. */

/* The client's status of an operation that changed the object: commits if it succeeded. "No space" replaces "quota exceeded". */
fsal_status_t stable_after(fsal_status_t status, struct fsal_obj_handle *object);
/* The same for an operation that made an object in the folder. On an error the caller gets no object. */
fsal_status_t stable_after_making(fsal_status_t status, struct fsal_obj_handle *folder, struct fsal_obj_handle **made);

/* Replaces the operations that make names and need nothing else. Call it after vfs_handle_ops_init(), whose operations these call. */
void stable_operations_init(struct fsal_obj_ops *operations);
