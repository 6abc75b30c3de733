/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Keeps blocks from being freed while they are cloned: OpenZFS up to 2.3.9 may free such a block twice (openzfs#18853).
 *
 * Truncations and deallocations of a file exclude steps of clones from and into it, and vice versa; operations of one kind run concurrently.
 * A step waits for freeing operations and gives them priority, so that a clone of many steps does not starve them.
 *
 * Files of a dataset share a fixed number of locks, by a hash of the inode number: a pool that hangs delays no other. Thread-safe. */
#pragma once

#include <stdint.h>

struct fileops_dataset;

/* Timeout of either wait in seconds: a hung pool blocks no thread for longer. */
#define FILEOPS_INTERLOCK_SECONDS 10

/* 0: the end must follow, in any thread; EBUSY: steps of clones did not end in time. */
int fileops_freeing_begin(struct fileops_dataset *dataset, uint64_t inode);
void fileops_freeing_end(struct fileops_dataset *dataset, uint64_t inode);

struct interlock_file {
    struct fileops_dataset *dataset;
    uint64_t inode;
};

/* A step of a clone of one file to another. 0, or EBUSY. */
int interlock_step_begin(const struct interlock_file *source, const struct interlock_file *destination);
void interlock_step_end(const struct interlock_file *source, const struct interlock_file *destination);
