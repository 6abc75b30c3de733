/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_SPACE_H
#define ZVAAI_FSAL_SPACE_H

#include "fsal.h"

/*
 * Replaces those operations that change what files take: growth in a thick dataset is admitted before (../fileops/admission.h), and blocks are not freed while
 * they are cloned (../fileops/interlock.h). EDQUOT, which a dataset's refquota gives, becomes ENOSPC: hosts know what that is. To be called after
 * vfs_handle_ops_init(), whose operations these call.
 */
void space_operations_init(struct fsal_obj_ops *operations);

/* What a host sees of a thick dataset: its size, and what of it is not admitted yet. To be called on each new export. */
void space_export_init(struct fsal_export *export);

#endif
