/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_LEAF_CALL_H
#define VAAI_NAS_LEAF_CALL_H

#include "fsal_api.h"
#include "config_parsing.h"

struct fileops_dataset;

/*
 * How adapter_ganesha.c reaches FSAL_ZVAAI's own object below MDCACHE: it sets `vaai_nas_leaf_call` for its thread and calls MDCACHE's
 * fallocate, which calls the leaf's and then drops the attributes it has cached of the object. The leaf's fallocate begins with
 *
 *     if (vaai_nas_leaf_call != NULL)
 *         return vaai_nas_leaf_run(obj_hdl);
 *
 * so that no client's ALLOCATE can be mistaken for such a call.
 */
struct vaai_nas_leaf_call {
    fsal_status_t (*run)(struct vaai_nas_leaf_call *call, struct fsal_obj_handle *leaf);
};

extern _Thread_local struct vaai_nas_leaf_call *vaai_nas_leaf_call;

static inline fsal_status_t vaai_nas_leaf_run(struct fsal_obj_handle *leaf)
{
    struct vaai_nas_leaf_call *call = vaai_nas_leaf_call;

    vaai_nas_leaf_call = NULL; /* for one call only */
    return call->run(call, leaf);
}

/* What the FSAL gives the adapter. */

/* A new descriptor of the object, that the caller closes; flags as of open(2). -1 with errno. */
int fsal_zvaai_open_leaf(struct fsal_obj_handle *leaf, int flags);

/* The dataset of the object; NULL on a file system of another FSAL. It lives as long as the object. */
struct fileops_dataset *fsal_zvaai_dataset(struct fsal_obj_handle *leaf);

/*
 * Enters an opening (FSAL_O_READ, FSAL_O_RDWR; FSAL_O_CLOSED: none) among the share reservations of the file, to be taken out again with the
 * same flags. ERR_FSAL_SHARE_DENIED where a client's is in the way.
 */
fsal_status_t fsal_zvaai_share_begin(struct fsal_obj_handle *leaf, fsal_openflags_t flags);
void fsal_zvaai_share_end(struct fsal_obj_handle *leaf, fsal_openflags_t flags);

/* Whether the export is being removed; from before vaai_nas_export_ends() is called for it on. */
bool fsal_zvaai_export_is_ending(const struct fsal_export *export);

/*
 * What the adapter gives the FSAL: starts the service as the block VAAI_NAS of ganesha's configuration says (docs/vaai_nas.md), when
 * the daemon has come up. 0, or -1 with the errors counted. Called again for a configuration read again: does nothing.
 */
int vaai_nas_start(config_file_t configuration, struct config_error_type *errors);

/* An export is being removed: cancels the clones that read or write in it, and waits some seconds for their end. */
void vaai_nas_export_ends(uint16_t export_id);

#endif
