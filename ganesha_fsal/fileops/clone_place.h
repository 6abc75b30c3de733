/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The temporary file of a clone by name: in a folder at the dataset's root, renamed at the end. (O_TMPFILE would
 * do too, but on ZFS its linkat(2) waits for a transaction group.) */
#pragma once

#include "clone.h"

struct clone_place {
    int root, folder, file; /* -1: none */
    char name[40];          /* in the folder; empty: none */
};

/* Makes the file. EPERM: something else has the folder's name. ESTALE: the dataset is no longer mounted at its root.
 * `place` owns the descriptors until clone_place_end(). No lock is held. */
int clone_place_make(const struct fileops_clone_request *request, struct clone_place *place);
/* Syncs the file and renames it, unless cancelled. */
int clone_place_put(const struct fileops_clone_request *request, struct clone_place *place, uint64_t size);
/* Removes a file that was not renamed, and closes. */
void clone_place_end(struct clone_place *place);
