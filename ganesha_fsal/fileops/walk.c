/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_DEPTH 64 /* open folders; ESXi makes two levels */

struct walk {
    walk_visit *visit;
    void *context;
    dev_t device;
    char path[(MOST_DEPTH + 1) * 256];
};

int walk_file_status(const struct walk_name *name, struct stat *status)
{
    if (name->error != 0)
        return name->error;
    if (name->is_folder)
        return ENOENT;
    if (fstatat(name->folder, name->name, status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
        return errno;
    return S_ISREG(status->st_mode) && status->st_dev == name->device ? 0 : ENOENT;
}

static int walk_folder(struct walk *walk, int folder, size_t length, unsigned int depth);

/* `length`: of the folder's path. */
static int walk_enter(struct walk *walk, struct walk_name *name, size_t length)
{
    struct stat status;
    const int inner = openat(name->folder, name->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (inner < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) /* replaced meanwhile */
        return 0;
    if (inner < 0 || fstat(inner, &status) != 0)
        name->error = errno;
    else if (status.st_dev == walk->device && name->depth < MOST_DEPTH)
        return walk_folder(walk, inner, length, name->depth + 1);
    else if (status.st_dev == walk->device)
        name->error = ELOOP;
    if (inner >= 0)
        close(inner);
    return name->error == 0 ? 0 : walk->visit(walk->context, name);
}

/* The first `length` bytes of walk->path are the folder's path, with a slash. */
static int walk_visit_name(struct walk *walk, int folder, const struct dirent *entry, size_t length, unsigned int depth)
{
    const size_t name_length = strlen(entry->d_name);
    struct walk_name name = {.folder = folder,
                             .name = walk->path + length,
                             .path = walk->path,
                             .device = walk->device,
                             .depth = depth,
                             .is_folder = entry->d_type == DT_DIR};
    struct stat status;

    /* .zfs: snapshots, which would all be mounted. */
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || (depth == 0 && strcmp(entry->d_name, ".zfs") == 0))
        return 0;
    if (length + name_length >= sizeof(walk->path))
        return ENAMETOOLONG;
    memcpy(walk->path + length, entry->d_name, name_length + 1);
    if (entry->d_type == DT_UNKNOWN && fstatat(folder, name.name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0)
        name.is_folder = S_ISDIR(status.st_mode);
    const int error = walk->visit(walk->context, &name);
    if (error == 0 && name.is_folder)
        return walk_enter(walk, &name, length + name_length);
    return error == WALK_SKIP ? 0 : error;
}

/* Closes `folder`. `length`: of its path, which is empty or gets a slash. */
static int walk_folder(struct walk *walk, int folder, size_t length, unsigned int depth)
{
    DIR *stream = fdopendir(folder);
    struct dirent *entry;
    int error = 0;

    if (stream == NULL) {
        error = errno;
        close(folder);
        return error;
    }
    if (length > 0)
        walk->path[length++] = '/';
    for (errno = 0; error == 0 && (entry = readdir(stream)) != NULL; errno = 0)
        error = walk_visit_name(walk, folder, entry, length, depth);
    if (error == 0 && errno != 0) {
        walk->path[length] = 0;
        error = walk->visit(walk->context, &(struct walk_name){.folder = folder, .name = "", .path = walk->path, .error = errno});
    }
    closedir(stream);
    return error;
}

int walk_files(int at, const char *root, walk_visit *visit, void *context)
{
    struct walk walk = {.visit = visit, .context = context};
    struct stat status;
    const int folder = openat(at, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return errno;
    if (fstat(folder, &status) != 0) {
        const int error = errno;
        close(folder);
        return error;
    }
    walk.device = status.st_dev;
    const int error = walk_folder(&walk, folder, 0, 0);
    return error == WALK_END ? 0 : error;
}
