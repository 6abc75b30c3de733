/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"

/* FSAL_ZVAAI's part of an export: the parameter Thick_Size of its FSAL block, and a reference to the dataset of its root. Thick_Size is the size in bytes
 * of a thick datastore; without it the datastore is thin. Exports of a dataset must have the same Thick_Size, otherwise the last one read applies.
 * Functions take the table's mutex themselves. The table has a reference to each dataset. */

/* Makes FSAL_VFS ignore Thick_Size. Call it before the first export is made. */
void exports_init(void);

/* Adds an export that FSAL_VFS has created, with its block. 0, or an errno value (logged); EINVAL with the errors counted. */
int exports_add(struct fsal_export *export, void *parse_node, struct config_error_type *errors);

/* The block was read again; like exports_add(). */
int exports_update(struct fsal_export *export, void *parse_node, struct config_error_type *errors);

/* The export ends. Puts its dataset, after a second at most, in which files that are open for statistics are closed. Does nothing if the export was never added. */
void exports_remove(const struct fsal_export *export);
