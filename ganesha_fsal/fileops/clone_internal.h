/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A running clone: what clone.c, clone_share.c and clone_copy.c share. */
#ifndef FILEOPS_CLONE_INTERNAL_H
#define FILEOPS_CLONE_INTERNAL_H

#include "clone.h"
#include "dataset_internal.h"

#include <sys/stat.h>

struct clone {
    const struct fileops_clone_request *request;
    struct fileops_clone_result *result;
    int destination;
    uint64_t length;
    struct stat source_status, destination_status;
    enum fileops_fallback reason; /* why the rest is copied */
};

/* clone.c: reports progress. False: cancelled. */
bool clone_goes_on(const struct clone *clone);

/* clone.c: EBUSY where the source is not as it was when the clone began. */
int clone_check_source(const struct clone *clone);

/* clone_share.c: shares as much as it can from the beginning on.
 * 0: all; ECANCELED; ENOSPC and others; EAGAIN: the rest is to be copied, and `reason` says why. */
int clone_by_sharing(struct clone *clone);

/* clone_copy.c: copies from `from` to the end. Holes stay holes. The destination is empty from `from` on. */
int clone_by_copying(struct clone *clone, uint64_t from);

#endif
