/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_HIDDEN_H
#define ZVAAI_FSAL_HIDDEN_H

#include "fsal.h"

/*
 * The ledger's folder (FILEOPS_FOLDER) at the root of each dataset is no client's business: it is in no listing, no name reaches it, and a
 * handle that somebody made up for it or for what lies in it is stale. Elsewhere the name is a name like any other.
 */

/* Replaces those operations of FSAL_VFS that take or give names. To be called after vfs_handle_ops_init(). */
void hidden_operations_init(struct fsal_obj_ops *operations);

/* Unsure: what is there could not be read just now. Better a client that waits than the ledger open to it. */
enum hidden { HIDDEN_NO, HIDDEN_YES, HIDDEN_UNSURE };

/* Whether the object is the hidden folder or lies in it. Costs the listing of the clones that are being made, and of the folder itself where
 * root owns the object. */
enum hidden hidden_is_object(const struct fsal_obj_handle *object, const struct fsal_attrlist *attributes);

#endif
