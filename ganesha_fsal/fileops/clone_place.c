/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "clone_place.h"

#include "dataset_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 10 /* the folder may be removed by another clone's end just after it was made */

/* Creates the folder if needed. Only this user can create files in it. */
static int clone_place_open_folder(int root)
{
    struct stat status;
    int folder;

    if (mkdirat(root, FILEOPS_CLONES_FOLDER, 0700) != 0 && errno != EEXIST)
        return -1;
    folder = openat(root, FILEOPS_CLONES_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0)
        return folder;
    close(folder);
    errno = EPERM;
    return -1;
}

static int clone_place_make_file(struct clone_place *place)
{
    uint64_t number[2];

    if (getrandom(number, sizeof(number), 0) != sizeof(number))
        return EIO;
    snprintf(place->name, sizeof(place->name), "%016" PRIx64 "%08" PRIx32, number[0], (uint32_t)number[1]);
    for (int attempt = 0;; attempt++) {
        place->folder = clone_place_open_folder(place->root);
        if (place->folder >= 0)
            place->file = openat(place->folder, place->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (place->file >= 0)
            return 0;
        const int error = errno;
        if (place->folder >= 0)
            close(place->folder);
        place->folder = -1;
        if (error != ENOENT || attempt == ATTEMPTS) {
            place->name[0] = 0;
            return error;
        }
    }
}

int clone_place_make(const struct fileops_clone_request *request, struct clone_place *place)
{
    const struct fileops_dataset *dataset = request->destination_dataset;
    struct stat status;
    int error = 0;

    *place = (struct clone_place){.folder = -1, .file = -1};
    place->root = open(dataset->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->root < 0 || fstat(place->root, &status) != 0)
        error = errno;
    else if (status.st_dev != dataset->device)
        error = ESTALE;
    if (error == 0)
        error = clone_place_make_file(place);
    if (error != 0)
        clone_place_end(place);
    return error;
}

int clone_place_put(const struct fileops_clone_request *request, struct clone_place *place, uint64_t size)
{
    if (fchown(place->file, request->owner, request->group) != 0 || fchmod(place->file, request->mode_bits) != 0)
        return errno;
    if (fsync(place->file) != 0)
        return errno;
    /* The last chance to cancel: the destination does not exist yet. */
    if (request->progress != NULL && !request->progress(request->progress_context, size, size))
        return ECANCELED;
    if (renameat2(place->folder, place->name, request->directory, request->name, RENAME_NOREPLACE) != 0)
        return errno;
    place->name[0] = 0;
    return fsync(request->directory) != 0 ? errno : 0;
}

void clone_place_end(struct clone_place *place)
{
    if (place->name[0] != 0)
        unlinkat(place->folder, place->name, 0);
    if (place->file >= 0)
        close(place->file);
    if (place->folder >= 0) {
        close(place->folder);
        unlinkat(place->root, FILEOPS_CLONES_FOLDER, AT_REMOVEDIR); /* not while another clone has a file in it */
    }
    if (place->root >= 0)
        close(place->root);
    *place = (struct clone_place){.root = -1, .folder = -1, .file = -1};
}
