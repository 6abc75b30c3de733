/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_DEPTH 64 /* open folders; ESXi makes two levels */

static int walk_folder(int folder, dev_t device, unsigned int depth, walk_visit *visit, void *context);

static int walk_visit_name(int folder, const char *name, dev_t device, unsigned int depth, walk_visit *visit, void *context)
{
    struct walk_file file = {.folder = folder, .name = name};

    /* .zfs: snapshots, which would all be mounted. */
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (depth == 0 && strcmp(name, ".zfs") == 0))
        return 0;
    if (fstatat(folder, name, &file.status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
        return errno == ENOENT ? 0 : errno;
    if (file.status.st_dev != device)
        return 0;
    if (S_ISREG(file.status.st_mode))
        return visit(context, &file);
    if (!S_ISDIR(file.status.st_mode))
        return 0;
    const int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) /* ENOTDIR, ELOOP: replaced meanwhile */
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : errno;
    return walk_folder(inner, device, depth + 1, visit, context);
}

/* Closes `folder`. */
static int walk_folder(int folder, dev_t device, unsigned int depth, walk_visit *visit, void *context)
{
    DIR *stream = depth > MOST_DEPTH ? NULL : fdopendir(folder);
    struct dirent *entry;
    int error = 0;

    if (stream == NULL) {
        error = depth > MOST_DEPTH ? ELOOP : errno;
        close(folder);
        return error;
    }
    for (errno = 0; error == 0 && (entry = readdir(stream)) != NULL; errno = 0)
        error = walk_visit_name(folder, entry->d_name, device, depth, visit, context);
    if (error == 0)
        error = errno;
    closedir(stream);
    return error;
}

int walk_files(const char *root, walk_visit *visit, void *context)
{
    struct stat status;
    const int folder = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return errno;
    if (fstat(folder, &status) != 0) {
        const int error = errno;
        close(folder);
        return error;
    }
    return walk_folder(folder, status.st_dev, 0, visit, context);
}
