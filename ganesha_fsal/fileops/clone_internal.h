/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A running clone: shared by clone.c, clone_share.c and clone_copy.c. */
#pragma once

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
bool clone_continues(const struct clone *clone);

/* clone.c: EBUSY if the source has changed since the start of the clone. */
int clone_check_source(const struct clone *clone);

/* clone_share.c: shares as much as possible from the start on.
 * 0: all; ECANCELED; ENOSPC and others; EAGAIN: the rest must be copied, for `reason`. */
int clone_by_sharing(struct clone *clone);

/* clone_copy.c: copies from `from` to the end. Holes stay holes. The destination is empty from `from` on. */
int clone_by_copying(struct clone *clone, uint64_t from);
