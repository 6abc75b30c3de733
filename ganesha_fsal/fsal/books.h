/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_BOOKS_H
#define ZVAAI_FSAL_BOOKS_H

#include "fsal.h"

struct fileops_space;

/*
 * The books (fileops/space.h) of the file systems that exports reach. They are open as long as an export reaches their file system,
 * whether it was the one that opened them or not: a dataset can be unmounted once nothing of it is exported.
 */

/*
 * The books of `file_system`, opened if they are not yet, and used by `export` from now on. NULL in `space` for a file system nothing
 * can be written to. Errors: errno values, logged with what to do.
 */
int books_use(const struct fsal_export *export, const struct fsal_filesystem *file_system, struct fileops_space **space);

/* No object of the file is left; nothing happens where the books are closed already. */
void books_file_closed(const struct fileops_space *space, uint64_t inode);

/* The export uses none any more. Called before ganesha takes back the export's own claims. */
void books_leave(const struct fsal_export *export);

#endif
