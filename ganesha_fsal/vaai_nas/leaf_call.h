/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef VAAI_NAS_LEAF_CALL_H
#define VAAI_NAS_LEAF_CALL_H

#include "fsal_api.h"

struct fileops_space;

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

/* The books of the export that op_ctx is at (the leaf's export); NULL where its file system has none. They live as long as the export. */
struct fileops_space *fsal_zvaai_space(struct fsal_export *leaf_export);

/* What FSAL_ZVAAI's configuration says of the service. Called once, when the FSAL is loaded; 0 or an errno value. */
struct vaai_nas_configuration {
    uint16_t port;              /* of the RPC program, 0 for any that is free; registered with rpcbind */
    bool program;               /* serve the RPC program */
    const char *control_socket; /* statistics as JSON; NULL for none */
};
int vaai_nas_start(const struct vaai_nas_configuration *configuration);

/* Ends jobs and threads, when the FSAL is unloaded. */
void vaai_nas_stop(void);

#endif
