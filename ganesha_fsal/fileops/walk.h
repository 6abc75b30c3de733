/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* All regular files of a file system, each once for each of its names. */
#ifndef FILEOPS_WALK_H
#define FILEOPS_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

struct walk_file {
    int folder; /* open */
    const char *name;
    struct stat status;
};

/* 0 to go on, else an errno value that ends the walk. */
typedef int walk_visit(void *context, const struct walk_file *file);

/* Walks the file system mounted at `root`, into no other one and by no symbolic link. What is removed meanwhile is left out. Errors: those of `visit`
 * and of the kernel. Takes as long as reading all folders does, and waits for the disks. */
int walk_files(const char *root, walk_visit *visit, void *context);

#endif
