/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"

struct fileops_dataset;

/* The datasets (../fileops/dataset.h) of exported file systems, one per file system. Exports and objects have references: MDCACHE gives objects of an
 * export to other exports, and releases some after the end of their export. */

/* The dataset of `file_system`, opened if needed. The caller releases its reference by file_systems_put(). Errors: errno values, logged. */
int file_systems_get(const struct fsal_filesystem *file_system, struct fileops_dataset **dataset);

/* Releases the reference. Takes the table's mutex; makes no system call. */
void file_systems_put(struct fileops_dataset *dataset);
