/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"

/* Lets the VAAI-NAS service reach objects below MDCACHE (../vaai_nas/leaf_call.h), starts it after ganesha has read its configuration, and counts reads
 * and writes there. Call it last on the module's operations: it saves the previous ones, and calls them. The duration of a write includes its wait for
 * space. */
void leaf_operations_init(struct fsal_obj_ops *operations);

/* Ends clones before an export that they use is removed. Call it on each export of the FSAL. */
void leaf_export_init(struct fsal_export *export);
