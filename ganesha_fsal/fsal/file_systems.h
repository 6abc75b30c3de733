/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_FILE_SYSTEMS_H
#define ZVAAI_FSAL_FILE_SYSTEMS_H

#include "fsal.h"

struct fileops_dataset;

/*
 * The datasets (../fileops/dataset.h) of the file systems that exports reach, one each. Exports and objects have references: MDCACHE gives objects of one
 * export to others, and lets go of some after their export has gone.
 */

/* The dataset of `file_system`, opened if it is not yet, with a reference for the caller. Errors: errno values, logged. */
int file_systems_use(const struct fsal_filesystem *file_system, struct fileops_dataset **dataset);

/* Puts the reference. Takes a mutex; no call of the kernel. */
void file_systems_leave(struct fileops_dataset *dataset);

#endif
