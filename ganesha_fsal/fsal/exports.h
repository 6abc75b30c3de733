/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_EXPORTS_H
#define ZVAAI_FSAL_EXPORTS_H

#include "fsal.h"

/*
 * What is ours of an export: the parameter Thick_Size of its FSAL block, and a reference to the dataset of its root. Thick_Size is the size in bytes that
 * a thick datastore promises; without it the datastore is thin. Exports of one dataset have the same, or the last one that is read counts.
 */

/* Has FSAL_VFS leave Thick_Size to us. To be called before the first export is made. */
void exports_init(void);

/* A new export that FSAL_VFS has made, and its block. 0, or an errno value (logged); EINVAL with the errors counted. */
int exports_add(struct fsal_export *export, void *parse_node, struct config_error_type *errors);

/* The block was read again. As exports_add(). */
int exports_update(struct fsal_export *export, void *parse_node, struct config_error_type *errors);

/* The export ends; nothing where it was never added. */
void exports_remove(const struct fsal_export *export);

#endif
