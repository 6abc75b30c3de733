/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* All regular files of a file system, once per name. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct walk_file {
    int folder; /* open */
    const char *name;
    struct stat status;
};

/* 0 to continue, otherwise an errno value that ends the walk. */
typedef int walk_visit(void *context, const struct walk_file *file);

/* Walks the file system mounted at `root`, but no other one, and follows no symbolic link. Skips files and folders that are removed or replaced meanwhile.
 * Errors: those of `visit` and of the kernel. Takes as long as reading all folders does, and waits for the disks. */
int walk_files(const char *root, walk_visit *visit, void *context);
