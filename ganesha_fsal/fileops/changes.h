/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Changes of files' sizes for clients: growth in a thick dataset is admitted (admission.h). In a thin dataset these functions do nothing and take no lock.
 * The caller has a reference to the dataset and holds no lock of it. */
#pragma once

#include "admission.h"
#include "dataset.h"

/* As admission_begin(), _count(), _end() and _forget(). */
int fileops_growth_begin(struct fileops_dataset *dataset, uint64_t inode, uint64_t end, struct admission_change *change);
int fileops_growth_count(struct fileops_dataset *dataset, uint64_t inode, uint64_t size);
void fileops_growth_end(struct fileops_dataset *dataset, const struct admission_change *change, uint64_t size);
void fileops_growth_forget(struct fileops_dataset *dataset, uint64_t inode);

/* Whether an open file can be overwritten in a full pool: in a thick dataset, after its size is admitted.
 * ENOSPC: the dataset is thin and reserves nothing, or the size is not admitted. EAGAIN: files are still being counted. */
int fileops_reserve(struct fileops_dataset *dataset, int file);
