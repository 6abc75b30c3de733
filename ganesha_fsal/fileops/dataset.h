/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* A dataset (or another file system) with exports: thin or thick, and its background work.
 *
 * Thin: clones share blocks, and nothing is reserved. Thick: every byte of the datastore's size is reserved, and nothing is shared.
 * The reservation is the dataset's refreservation, which the appliance sets. This library admits growth up to the size (admission.h).
 *
 * Thread-safe. Functions return 0 or an errno value. They take their locks themselves and hold none on return. The caller has a reference to
 * the dataset. Only functions whose comment says so wait for the pool. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Exists at the root of the dataset while clones by name are made. The next opening removes files left by a crash. */
#define FILEOPS_CLONES_FOLDER ".zvaai-clones"

struct fileops_dataset;

/* Opens the file system mounted at `root`, thin, with one reference, and removes clones left by a crash. No descriptor of it
 * stays open: it can be unmounted. ENOMEM; otherwise the error of the kernel for `root`. */
int fileops_dataset_open(const char *root, struct fileops_dataset **dataset);
void fileops_dataset_ref(struct fileops_dataset *dataset);
/* Gives a reference back; the last frees the dataset. */
void fileops_dataset_put(struct fileops_dataset *dataset);

/* Makes it thick with a size in bytes, or thin (0). Returns after the last step of a clone that shares blocks in a thick dataset
 * has ended. From thin to thick its files are counted in the background. ENOMEM; EAGAIN: no thread for that; EBUSY: a step does not end. Then it is thin. */
int fileops_dataset_set_thick(struct fileops_dataset *dataset, uint64_t size);
bool fileops_dataset_is_thick(const struct fileops_dataset *dataset);

/* Ends running counts, which have files open, and waits for their end, at most a second. An export calls it before it releases its file system. */
void fileops_dataset_stop(struct fileops_dataset *dataset);

struct fileops_dataset_status {
    bool thick;
    bool counting;     /* the files are still being counted: `admitted` is a part */
    uint64_t size;     /* bytes; 0: thin */
    uint64_t admitted; /* bytes of the files, as admission.h counts them */
    char problem[192]; /* for people; empty: none */
};
void fileops_dataset_status(struct fileops_dataset *dataset, struct fileops_dataset_status *status);

/* Blocks of all its files that are shared; see statistics.h for the figures. */
struct fileops_dataset_shared {
    bool complete; /* all files are counted */
    uint64_t shared, deduplicated;
};

/* Counts them in the background. The first call starts a count. `restart` ends a running count and starts another one. EOPNOTSUPP: the kernel module is not
 * loaded or does not know this file system; otherwise the error that ended the count. */
int fileops_dataset_shared(struct fileops_dataset *dataset, bool restart, struct fileops_dataset_shared *shared);
