#include "clone_place.h"

#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PREFIX FILEOPS_CLONES "/"

int clone_place_make(const struct fileops_clone_request *request, struct clone_place *place)
{
    uint64_t number[2];
    place->file = -1;
    place->name[0] = 0;
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return EIO;
    snprintf(place->name, sizeof place->name, PREFIX "%016" PRIx64 "%08" PRIx32, number[0], (uint32_t)number[1]);
    place->file = openat(request->destination_space->folder, place->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (place->file < 0) {
        place->name[0] = 0;
        return errno;
    }
    return 0;
}

int clone_place_put(const struct fileops_clone_request *request, struct clone_place *place, const struct stat *source)
{
    struct fileops_space *space = request->destination_space;
    struct stat before;
    const mode_t mode = request->mode_bits == (mode_t)-1 ? source->st_mode & 07777 : request->mode_bits & 07777;
    const bool replaces = !fstatat(request->directory, request->name, &before, AT_SYMLINK_NOFOLLOW);

    if (replaces && (request->flags & FILEOPS_CLONE_GUARDED))
        return EEXIST;
    if (replaces && !S_ISREG(before.st_mode))
        return S_ISDIR(before.st_mode) ? EISDIR : EEXIST;
    if (fchown(place->file, request->owner, request->group) || fchmod(place->file, mode))
        return errno;
    if (fsync(place->file))
        return errno;
    /* The last moment at which nothing is there yet. */
    if (request->progress && !request->progress(request->progress_context, (uint64_t)source->st_size, (uint64_t)source->st_size))
        return ECANCELED;
    if (renameat2(space->folder, place->name, request->directory, request->name,
                  request->flags & FILEOPS_CLONE_GUARDED ? RENAME_NOREPLACE : 0))
        return errno;
    place->name[0] = 0;
    if (replaces && before.st_nlink == 1)
        fileops_file_removed(space, before.st_ino, false);
    /* It has its name. Where the folder can't be made stable by itself, all is. */
    if (fsync(request->directory) && errno != EINVAL) {
        const int error = errno;
        return space_settle(space) ? error : 0;
    }
    return 0;
}

bool clone_place_end(const struct fileops_clone_request *request, struct clone_place *place)
{
    struct fileops_space *space = request->destination_space;
    struct stat status;
    bool removed = false;
    if (place->name[0]) {
        const bool known = !fstat(place->file, &status);
        removed = !unlinkat(space->folder, place->name, 0);
        if (removed && known)
            fileops_file_removed(space, status.st_ino, false);
    }
    if (place->file >= 0)
        close(place->file);
    place->file = -1;
    place->name[0] = 0;
    return removed;
}
