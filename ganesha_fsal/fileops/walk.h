/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* All names of a file system. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct walk_name {
    int folder;              /* open */
    const char *name, *path; /* `path` from the root of the walk */
    dev_t device;            /* of the file system */
    unsigned int depth;      /* folders above it */
    bool is_folder;
    int error; /* not 0: the walk could not read `path` and leaves out the rest of it */
};

enum {
    WALK_SKIP = -1, /* do not enter this folder */
    WALK_END = -2,  /* end the walk, without an error */
};

/* Called for each name, for a folder before its contents, and once more for what can't be read. 0 to continue, one of the above, or an errno value that ends the walk. */
typedef int walk_visit(void *context, const struct walk_name *name);

/* Walks the file system at `root`, which is relative to the open folder `at` as for openat(2), but no other one, and follows no symbolic link. Leaves out .zfs, and
 * what is removed or replaced meanwhile. Errors: those of `visit`, and the kernel's for the root. Takes as long as reading all folders does, and waits for the disks. */
int walk_files(int at, const char *root, walk_visit *visit, void *context);

/* The status of a regular file. ENOENT: it is none, or was removed; otherwise an error of the walk or of the kernel. */
int walk_file_status(const struct walk_name *name, struct stat *status);
