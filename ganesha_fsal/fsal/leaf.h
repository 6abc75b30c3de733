/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_LEAF_H
#define ZVAAI_FSAL_LEAF_H

#include "fsal.h"

/*
 * Lets the VAAI-NAS service reach objects below MDCACHE (../vaai_nas/leaf_call.h), and starts it when ganesha has its configuration.
 * To be called last on the module's operations: it keeps what fallocate and init_config were and calls them.
 */
void leaf_operations_init(struct fsal_obj_ops *operations);

/* Clones end before an export that they use is removed. To be called on each export of the FSAL. */
void leaf_export_init(struct fsal_export *export);

#endif
