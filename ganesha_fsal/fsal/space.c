/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "../fileops/growth.h"
#include "../fileops/space.h"
#include "books.h"
#include "fsal_convert.h"
#include "object.h"

#define SECONDS_BETWEEN_REFUSALS 5 /* in the log */

/* What is below: FSAL_VFS's own and those of hidden.c. Set once, before the first export is made. */
static struct fsal_obj_ops below;

static fsal_status_t from_errno(int error)
{
    return fsalstat(error == EOPNOTSUPP ? ERR_FSAL_NOTSUPP : posix2fsal_error(error), error);
}

/* ZFS refuses bursts by ENOSPC though space is held for the file: then the books wait for the pool, and it is to be tried again. */
static bool again(struct fileops_space *space, struct fileops_change *change, fsal_status_t status, unsigned attempt)
{
    return status.major == ERR_FSAL_NOSPC && fileops_change_retry(space, change, attempt) == 0;
}

/* An error for fileops_change_end(): 0 only when all was done. */
static int change_error(fsal_status_t status)
{
    if (FSAL_IS_SUCCESS(status))
        return 0;
    return status.minor != 0 ? status.minor : EIO;
}

/* As fstat(2) tells it: clones into the file lock it by that. */
static dev_t device_of(const struct fsal_obj_handle *object)
{
    return makedev((unsigned int)object->fs->dev.major, (unsigned int)object->fs->dev.minor);
}

/* vfs_write2() calls back before it returns; what it says is kept here. */
static void keep_status(struct fsal_obj_handle *object, fsal_status_t status, void *io, void *kept)
{
    (void)object;
    (void)io;
    *(fsal_status_t *)kept = status;
}

/* A guest stops for want of space: whose word that was is asked first. */
static void log_refusal(const struct fsal_obj_handle *object, int error, const char *why)
{
    static _Atomic time_t last;
    const time_t now = time(NULL);

    if (error != ENOSPC || now - last < SECONDS_BETWEEN_REFUSALS)
        return;
    last = now;
    LogWarn(COMPONENT_FSAL, "%s: no space for a write of file %" PRIu64 ", %s", object->fs->path, object->fileid, why);
}

static uint64_t length_of(const struct fsal_io_arg *io)
{
    uint64_t length = 0;

    for (int part = 0; part < io->iov_count; part++)
        length += io->iov[part].iov_len;
    return length;
}

/*
 * What comes before a change that may make a file `end` bytes large: in a dataset whose files are thick by default it is promised first, or stays
 * as it is. A file that nothing can open any more has no name, and goes with who uses it.
 */
static int promise(struct fsal_obj_handle *object, uint64_t end, bool in_steps)
{
    struct fileops_space *space = zvaai_object(object)->space;
    fsal_errors_t open_error = ERR_FSAL_NO_ERROR;
    int error, fd;

    if (!fileops_growth_needs_promise(space, object->fileid, end))
        return 0;
    fd = vfs_fsal_open(&zvaai_object(object)->vfs, O_RDONLY, &open_error);
    if (fd < 0)
        return fd == -ESTALE || fd == -ENOENT ? 0 : -fd;
    error = fileops_promise_growth(space, fd, end, in_steps);
    close(fd);
    return error;
}

static void space_write(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    struct fileops_space *space = zvaai_object(object)->space;
    struct fileops_change change;
    fsal_status_t status;
    const bool stable = io->fsal_stable;
    int error;

    if (space == NULL) {
        below.write2(object, bypass, done, io, argument);
        return;
    }
    error = promise(object, io->offset + length_of(io), true);
    if (error == 0)
        error = fileops_change_begin(space, object->fileid, FILEOPS_WRITE, io->offset, length_of(io), &change);
    if (error != 0) {
        log_refusal(object, error, "as what is left is promised to others, or can't be promised to it");
        done(object, from_errno(error), io, argument);
        return;
    }
    for (unsigned attempt = 0;; attempt++) {
        io->fsal_stable = stable;
        fileops_growth_begin(device_of(object), object->fileid, false);
        below.write2(object, bypass, keep_status, io, &status);
        fileops_growth_end(device_of(object), object->fileid);
        if (!again(space, &change, status, attempt))
            break;
    }
    error = change_error(status);
    log_refusal(object, error, "as the file system says");
    /* A write that was cut short is a success here, but did not replace all blocks. */
    if (error == 0 && io->io_amount < length_of(io))
        error = EIO;
    fileops_change_end(space, &change, error);
    done(object, status, io, argument);
}

static fsal_status_t space_setattr(struct fsal_obj_handle *object, bool bypass, struct state_t *state,
                                   struct fsal_attrlist *attributes)
{
    struct fileops_space *space = object->type == REGULAR_FILE ? zvaai_object(object)->space : NULL;
    struct fileops_change change;
    fsal_status_t status;
    int error;

    if (space == NULL || !FSAL_TEST_MASK(attributes->valid_mask, ATTR_SIZE))
        return below.setattr2(object, bypass, state, attributes);
    error = promise(object, attributes->filesize, false);
    if (error == 0)
        error = fileops_change_begin(space, object->fileid, FILEOPS_TRUNCATE, attributes->filesize, 0, &change);
    if (error != 0)
        return from_errno(error);
    for (unsigned attempt = 0;; attempt++) {
        fileops_growth_begin(device_of(object), object->fileid, false);
        status = below.setattr2(object, bypass, state, attributes);
        fileops_growth_end(device_of(object), object->fileid);
        if (!again(space, &change, status, attempt))
            break;
    }
    fileops_change_end(space, &change, change_error(status));
    return status;
}

/* What a name in a directory means right now. False: nothing, or no regular file. */
static bool look(struct fsal_obj_handle *directory, const char *name, struct stat *found)
{
    fsal_errors_t error = ERR_FSAL_NO_ERROR;
    bool there;
    int fd = vfs_fsal_open(&zvaai_object(directory)->vfs, O_PATH | O_NOACCESS, &error);

    if (fd < 0)
        return false;
    there = fstatat(fd, name, found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found->st_mode);
    close(fd);
    return there;
}

static fsal_status_t space_open(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags,
                                enum fsal_create_mode mode, const char *name, struct fsal_attrlist *attributes_in,
                                fsal_verifier_t verifier, struct fsal_obj_handle **opened, struct fsal_attrlist *attributes_out,
                                bool *caller_perm_check, struct fsal_attrlist *parent_before,
                                struct fsal_attrlist *parent_after)
{
    struct fileops_space *space = zvaai_object(object)->space;
    struct fileops_change change;
    struct stat found = { 0 };
    fsal_status_t status;
    uint64_t inode = object->fileid;
    bool counted = space != NULL && (flags & FSAL_O_TRUNC) != 0;
    int error;

    if (counted && name != NULL) {
        counted = look(object, name, &found);
        inode = found.st_ino;
    }
    if (counted) {
        error = fileops_change_begin(space, inode, FILEOPS_TRUNCATE, 0, 0, &change);
        if (error != 0)
            return from_errno(error);
    }
    status = below.open2(object, state, flags, mode, name, attributes_in, verifier, opened, attributes_out, caller_perm_check,
                         parent_before, parent_after);
    if (counted) {
        error = change_error(status);
        /* The name was given to another file meanwhile: that one's blocks stay counted. */
        if (error == 0 && name != NULL && (*opened)->fileid != inode)
            error = ESTALE;
        fileops_change_end(space, &change, error);
    }
    return status;
}

static fsal_status_t space_reopen(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags)
{
    struct fileops_space *space = zvaai_object(object)->space;
    struct fileops_change change;
    fsal_status_t status;
    int error;

    if (space == NULL || (flags & FSAL_O_TRUNC) == 0)
        return below.reopen2(object, state, flags);
    error = fileops_change_begin(space, object->fileid, FILEOPS_TRUNCATE, 0, 0, &change);
    if (error != 0)
        return from_errno(error);
    status = below.reopen2(object, state, flags);
    fileops_change_end(space, &change, change_error(status));
    return status;
}

/* Makes the file `end` bytes large unless it is: with all others who could make it larger kept away. */
static fsal_status_t extend_alone(struct fsal_obj_handle *object, struct state_t *state, int fd, uint64_t end)
{
    struct fsal_attrlist attributes;
    struct stat found;
    fsal_status_t status;
    int error = fileops_growth_begin(device_of(object), object->fileid, true);

    if (error != 0)
        return from_errno(error);
    status = from_errno(fstat(fd, &found) != 0 ? errno : 0);
    if (FSAL_IS_SUCCESS(status) && (uint64_t)found.st_size < end) {
        fsal_prepare_attrs(&attributes, 0);
        attributes.valid_mask = ATTR_SIZE;
        attributes.filesize = end;
        status = below.setattr2(object, false, state, &attributes);
        fsal_release_attrs(&attributes);
    }
    fileops_growth_end(device_of(object), object->fileid);
    return status;
}

/*
 * ALLOCATE (RFC 7862 15.1) promises that later writes don't fail for want of space. fallocate(2) on ZFS promises nothing, so that it is
 * the books that do, for the file as a whole up to the end of the range, or nobody.
 */
static fsal_status_t allocate_promised(struct fsal_obj_handle *object, struct state_t *state, uint64_t end)
{
    struct fileops_space *space = zvaai_object(object)->space;
    struct fileops_change change;
    fsal_status_t status;
    fsal_errors_t open_error = ERR_FSAL_NO_ERROR;
    int error;
    const int fd = vfs_fsal_open(&zvaai_object(object)->vfs, O_RDWR, &open_error);

    if (fd < 0)
        return fsalstat(open_error, -fd);
    error = fileops_reserve_size(space, fd, end);
    if (error == 0)
        error = fileops_change_begin(space, object->fileid, FILEOPS_ALLOCATE, end, 0, &change);
    status = from_errno(error);
    for (unsigned attempt = 0; error == 0; attempt++) {
        status = extend_alone(object, state, fd, end);
        if (!again(space, &change, status, attempt))
            break;
    }
    if (error == 0)
        fileops_change_end(space, &change, change_error(status));
    close(fd);
    return status;
}

static fsal_status_t space_fallocate(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                     bool allocate)
{
    struct fileops_space *space = zvaai_object(object)->space;
    const bool promised = strcmp(object->fs->type, "zfs") == 0;
    struct fileops_change change;
    fsal_status_t status;
    int error;

    if (offset > INT64_MAX || length > INT64_MAX - offset)
        return from_errno(EFBIG);
    if (allocate && promised)
        return space != NULL ? allocate_promised(object, state, offset + length) : from_errno(EOPNOTSUPP);
    if (space == NULL)
        return below.fallocate(object, state, offset, length, allocate);
    error = fileops_change_begin(space, object->fileid, allocate ? FILEOPS_ALLOCATE : FILEOPS_DEALLOCATE, offset, length, &change);
    if (error != 0)
        return from_errno(error);
    for (unsigned attempt = 0;; attempt++) {
        status = below.fallocate(object, state, offset, length, allocate);
        if (!again(space, &change, status, attempt))
            break;
    }
    fileops_change_end(space, &change, change_error(status));
    return status;
}

static void removed(struct fileops_space *space, uint64_t inode)
{
    fileops_file_removed(space, inode, object_in_use(space, inode));
}

static fsal_status_t space_rename(struct fsal_obj_handle *object, struct fsal_obj_handle *old_directory, const char *old_name,
                                  struct fsal_obj_handle *new_directory, const char *new_name, struct fsal_attrlist *old_before,
                                  struct fsal_attrlist *old_after, struct fsal_attrlist *new_before,
                                  struct fsal_attrlist *new_after)
{
    struct fileops_space *space = zvaai_object(new_directory)->space;
    struct stat replaced;
    const bool replaces = space != NULL && look(new_directory, new_name, &replaced) && replaced.st_nlink == 1 &&
                          replaced.st_ino != object->fileid;
    const fsal_status_t status = below.rename(object, old_directory, old_name, new_directory, new_name, old_before, old_after,
                                              new_before, new_after);

    if (replaces && FSAL_IS_SUCCESS(status))
        removed(space, replaced.st_ino);
    return status;
}

/* Whether no name leads to the file any more. Unsure counts as no: what is in the books stays until they are opened again. */
static bool nameless(struct fsal_obj_handle *object)
{
    struct fsal_attrlist attributes;
    fsal_status_t status;
    bool result;

    fsal_prepare_attrs(&attributes, ATTR_NUMLINKS);
    status = below.getattrs(object, &attributes);
    result = FSAL_IS_ERROR(status) ? status.major == ERR_FSAL_STALE || status.major == ERR_FSAL_NOENT : attributes.numlinks == 0;
    fsal_release_attrs(&attributes);
    return result;
}

static fsal_status_t space_unlink(struct fsal_obj_handle *directory, struct fsal_obj_handle *object, const char *name,
                                  struct fsal_attrlist *parent_before, struct fsal_attrlist *parent_after)
{
    const fsal_status_t status = below.unlink(directory, object, name, parent_before, parent_after);

    if (FSAL_IS_SUCCESS(status) && object->type == REGULAR_FILE && zvaai_object(object)->space != NULL && nameless(object))
        removed(zvaai_object(object)->space, object->fileid);
    return status;
}

static void space_release(struct fsal_obj_handle *object)
{
    const struct fileops_space *space = zvaai_object(object)->space;
    const uint64_t inode = object->fileid;
    const bool last = object->type == REGULAR_FILE && object_end(zvaai_object(object));

    below.release(object);
    if (last && space != NULL)
        books_file_closed(space, inode);
}

void space_operations_init(struct fsal_obj_ops *operations)
{
    below = *operations;
    operations->write2 = space_write;
    operations->setattr2 = space_setattr;
    operations->open2 = space_open;
    operations->reopen2 = space_reopen;
    operations->fallocate = space_fallocate;
    operations->rename = space_rename;
    operations->unlink = space_unlink;
    operations->release = space_release;
}
