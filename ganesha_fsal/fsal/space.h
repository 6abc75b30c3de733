/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"

/* Replaces the operations that change the size of files: growth in a thick dataset is admitted first (../fileops/admission.h), and blocks are not freed
 * while they are cloned (../fileops/interlock.h). Call it after vfs_handle_ops_init(), whose operations these call. */
void space_operations_init(struct fsal_obj_ops *operations);

/* A host sees the size of a thick dataset, and the part that is not admitted yet. Call it on each new export. */
void space_export_init(struct fsal_export *export);
