/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/changes.h"
#include "../fileops/interlock.h"
#include "../fileops/retry.h"
#include "file_systems.h"
#include "fsal_convert.h"
#include "object.h"
#include "stable.h"

/* FSAL_VFS's operations, which the functions below call. Set once, before the first export is made. */
static struct fsal_obj_ops below;
static fsal_status_t (*below_dynamic_info)(struct fsal_export *export, struct fsal_obj_handle *object,
                                           fsal_dynamicfsinfo_t *info);

static bool space_has_no_space(fsal_status_t status)
{
    return status.major == ERR_FSAL_NOSPC || status.major == ERR_FSAL_DQUOT;
}

static struct fileops_dataset *space_dataset_of(struct fsal_obj_handle *object)
{
    return object->type == REGULAR_FILE ? zvaai_object(object)->dataset : NULL;
}

/* The current size; UINT64_MAX if it cannot be read. */
static uint64_t space_size_of(struct fsal_obj_handle *object)
{
    struct fsal_attrlist attributes;
    uint64_t size = UINT64_MAX;

    fsal_prepare_attrs(&attributes, ATTR_SIZE);
    if (!FSAL_IS_ERROR(below.getattrs(object, &attributes)))
        size = attributes.filesize;
    fsal_release_attrs(&attributes);
    return size;
}

/* Admits a change that may make the file `end` bytes large. */
static int space_begin(struct fsal_obj_handle *object, uint64_t end, struct admission_change *change)
{
    struct fileops_dataset *dataset = space_dataset_of(object);
    int error = fileops_growth_begin(dataset, object->fileid, end, change);
    uint64_t size;

    if (error != ENODATA)
        return error;
    size = space_size_of(object);
    error = size == UINT64_MAX ? ESTALE : fileops_growth_count(dataset, object->fileid, size);
    return error != 0 ? error : fileops_growth_begin(dataset, object->fileid, end, change);
}

/* `full`: the file is as large as admitted. */
static void space_end(struct fsal_obj_handle *object, const struct admission_change *change, bool full)
{
    if (change->entered)
        fileops_growth_end(space_dataset_of(object), change, full ? UINT64_MAX : space_size_of(object));
}

/* Whether the operation that failed with the status must be repeated. If not, sets the status for the client. */
static bool space_may_repeat(struct fsal_obj_handle *object, fsal_status_t *status, struct fileops_retry *retry)
{
    fsal_errors_t open_error = ERR_FSAL_NO_ERROR;
    bool retries;
    int fd;

    if (!space_has_no_space(*status))
        return false;
    fd = fileops_dataset_is_thick(space_dataset_of(object)) ? vfs_fsal_open(&zvaai_object(object)->vfs, O_RDONLY, &open_error)
                                                            : -1;
    retries = fileops_may_retry(space_dataset_of(object), ENOSPC, fd, retry);
    if (fd >= 0)
        close(fd);
    if (retries)
        return true;
    *status = retry->exhausted ? fsalstat(ERR_FSAL_DELAY, EAGAIN) : posix2fsal_status(ENOSPC);
    return false;
}

/* vfs_write2() calls this before it returns, to store the status. */
static void space_store_status(struct fsal_obj_handle *object, fsal_status_t status, void *io, void *stored)
{
    (void)object;
    (void)io;
    *(fsal_status_t *)stored = status;
}

static uint64_t space_length_of(const struct fsal_io_arg *io)
{
    uint64_t length = 0;

    for (int part = 0; part < io->iov_count; part++)
        length += io->iov[part].iov_len;
    return length;
}

static void space_write(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    const bool stable = io->fsal_stable;
    const uint64_t length = space_length_of(io);
    struct fileops_retry retry = {0};
    struct admission_change change;
    fsal_status_t status;
    int error;

    if (space_dataset_of(object) == NULL) {
        below.write2(object, bypass, done, io, argument);
        return;
    }
    error = space_begin(object, io->offset + length, &change);
    if (error != 0) {
        done(object, posix2fsal_status(error), io, argument);
        return;
    }
    do {
        io->fsal_stable = stable;
        below.write2(object, bypass, space_store_status, io, &status);
    } while (space_may_repeat(object, &status, &retry));
    space_end(object, &change, FSAL_IS_SUCCESS(status) && io->io_amount == length);
    done(object, status, io, argument);
}

/* Sets a new size: blocks beyond it are freed, or the file grows. */
static fsal_status_t space_set_size(struct fsal_obj_handle *object, bool bypass, struct state_t *state,
                                    struct fsal_attrlist *attributes)
{
    struct fileops_retry retry = {0};
    struct admission_change change;
    fsal_status_t status;
    int error = space_begin(object, attributes->filesize, &change);

    if (error != 0)
        return posix2fsal_status(error);
    error = fileops_freeing_begin(space_dataset_of(object), object->fileid);
    status = posix2fsal_status(error);
    if (error == 0) {
        do {
            status = below.setattr2(object, bypass, state, attributes);
        } while (space_may_repeat(object, &status, &retry));
        fileops_freeing_end(space_dataset_of(object), object->fileid);
    }
    space_end(object, &change, false);
    return status;
}

static fsal_status_t space_setattr(struct fsal_obj_handle *object, bool bypass, struct state_t *state,
                                   struct fsal_attrlist *attributes)
{
    const bool sizes = space_dataset_of(object) != NULL && FSAL_TEST_MASK(attributes->valid_mask, ATTR_SIZE);

    return stable_after(sizes ? space_set_size(object, bypass, state, attributes)
                              : below.setattr2(object, bypass, state, attributes),
                        object);
}

/* The current file of a name in a directory. False: none, or no regular file. */
static bool space_lookup_regular(struct fsal_obj_handle *directory, const char *name, struct stat *status)
{
    fsal_errors_t error = ERR_FSAL_NO_ERROR;
    bool regular;
    int fd = vfs_fsal_open(&zvaai_object(directory)->vfs, O_PATH | O_NOACCESS, &error);

    if (fd < 0)
        return false;
    regular = fstatat(fd, name, status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status->st_mode);
    close(fd);
    return regular;
}

/* Makes what an open made or emptied stable; on an error nothing stays open. A repeated exclusive create has no name: its file may be from a call that has
 * not committed it yet. */
static fsal_status_t space_opened(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags,
                                  enum fsal_create_mode mode, const char *name, struct fsal_obj_handle **opened)
{
    struct fsal_obj_handle *file = name != NULL ? *opened : object;
    fsal_status_t status = fsalstat(ERR_FSAL_NO_ERROR, 0);

    if ((flags & FSAL_O_TRUNC) != 0 || (mode != FSAL_NO_CREATE && name == NULL))
        status = stable_after(status, file);
    if (mode != FSAL_NO_CREATE && name != NULL)
        status = stable_after(status, object);
    if (FSAL_IS_ERROR(status) && state != NULL)
        below.close2(file, state);
    if (FSAL_IS_ERROR(status) && name != NULL) {
        file->obj_ops->release(file);
        *opened = NULL;
    }
    return status;
}

static fsal_status_t space_open(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags,
                                enum fsal_create_mode mode, const char *name, struct fsal_attrlist *attributes_in,
                                fsal_verifier_t verifier, struct fsal_obj_handle **opened, struct fsal_attrlist *attributes_out,
                                bool *caller_perm_check, struct fsal_attrlist *parent_before, struct fsal_attrlist *parent_after)
{
    struct stat file = {.st_ino = object->fileid};
    struct admission_change change = {0};
    struct fsal_obj_handle *emptied;
    fsal_status_t status;
    bool truncates = zvaai_object(object)->dataset != NULL && (flags & FSAL_O_TRUNC) != 0;

    if (truncates && name != NULL)
        truncates = space_lookup_regular(object, name, &file);
    if (truncates && fileops_freeing_begin(zvaai_object(object)->dataset, file.st_ino) != 0)
        return posix2fsal_status(EBUSY);
    if (truncates)
        (void)fileops_growth_begin(zvaai_object(object)->dataset, file.st_ino, 0, &change);
    status = below.open2(object, state, flags, mode, name, attributes_in, verifier, opened, attributes_out, caller_perm_check,
                         parent_before, parent_after);
    if (truncates)
        fileops_freeing_end(zvaai_object(object)->dataset, file.st_ino);
    emptied = name != NULL ? *opened : object;
    if (change.entered) /* the name may belong to another file now: then the size stays admitted */
        fileops_growth_end(zvaai_object(object)->dataset, &change,
                           FSAL_IS_SUCCESS(status) && emptied->fileid == file.st_ino ? space_size_of(emptied) : UINT64_MAX);
    return FSAL_IS_ERROR(status) ? stable_after(status, object) : space_opened(object, state, flags, mode, name, opened);
}

static fsal_status_t space_reopen(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags)
{
    struct admission_change change;
    fsal_status_t status;
    int error;

    if (space_dataset_of(object) == NULL || (flags & FSAL_O_TRUNC) == 0)
        return below.reopen2(object, state, flags);
    error = space_begin(object, 0, &change);
    if (error != 0)
        return posix2fsal_status(error);
    error = fileops_freeing_begin(space_dataset_of(object), object->fileid);
    status = error != 0 ? posix2fsal_status(error) : below.reopen2(object, state, flags);
    if (error == 0)
        fileops_freeing_end(space_dataset_of(object), object->fileid);
    space_end(object, &change, false);
    return stable_after(status, object);
}

/* ALLOCATE (RFC 7862 15.1) guarantees that later writes do not fail for lack of space. ZFS cannot guarantee that for a range of a file: its fallocate(2)
 * only checks whether the pool has space now. */
static fsal_status_t space_fallocate(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                     bool allocate)
{
    fsal_status_t status;
    int error;

    if (offset > INT64_MAX || length > INT64_MAX - offset)
        return posix2fsal_status(EFBIG);
    if (space_dataset_of(object) == NULL)
        return below.fallocate(object, state, offset, length, allocate);
    if (allocate)
        return posix2fsal_status(EOPNOTSUPP);
    error = fileops_freeing_begin(space_dataset_of(object), object->fileid);
    if (error != 0)
        return posix2fsal_status(error);
    status = below.fallocate(object, state, offset, length, allocate);
    fileops_freeing_end(space_dataset_of(object), object->fileid);
    return stable_after(status, object);
}

/* The last name of a file was removed: it counts until no client has it open. */
static void space_removed(struct fileops_dataset *dataset, uint64_t inode)
{
    if (!object_mark_nameless(dataset, inode))
        fileops_growth_forget(dataset, inode);
}

static fsal_status_t space_rename(struct fsal_obj_handle *object, struct fsal_obj_handle *old_directory, const char *old_name,
                                  struct fsal_obj_handle *new_directory, const char *new_name, struct fsal_attrlist *old_before,
                                  struct fsal_attrlist *old_after, struct fsal_attrlist *new_before,
                                  struct fsal_attrlist *new_after)
{
    struct fileops_dataset *dataset = zvaai_object(new_directory)->dataset;
    struct stat replaced;
    const bool replaces = dataset != NULL && fileops_dataset_is_thick(dataset) &&
                          space_lookup_regular(new_directory, new_name, &replaced) && replaced.st_nlink == 1 &&
                          replaced.st_ino != object->fileid;
    const fsal_status_t status =
        below.rename(object, old_directory, old_name, new_directory, new_name, old_before, old_after, new_before, new_after);

    if (replaces && FSAL_IS_SUCCESS(status))
        space_removed(dataset, replaced.st_ino);
    /* One transaction changes both folders: committing one commits the other. */
    return stable_after(status, new_directory);
}

/* Whether the file has no name left. If that is unknown, the answer is no: its size stays admitted until files are counted again. */
static bool space_is_nameless(struct fsal_obj_handle *object)
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
    fsal_status_t status = below.unlink(directory, object, name, parent_before, parent_after);

    /* Another call removed the name meanwhile. STALE would be about the folder, and MDCACHE would drop it. */
    if (status.major == ERR_FSAL_STALE && status.minor == ENOENT)
        status = fsalstat(ERR_FSAL_NOENT, ENOENT);
    if (FSAL_IS_SUCCESS(status) && space_dataset_of(object) != NULL && space_is_nameless(object))
        space_removed(space_dataset_of(object), object->fileid);
    return stable_after(status, directory);
}

static void space_release(struct fsal_obj_handle *object)
{
    struct fileops_dataset *dataset = zvaai_object(object)->dataset;
    const uint64_t inode = object->fileid;
    const bool gone = object->type == REGULAR_FILE && object_end(zvaai_object(object));

    below.release(object);
    if (gone && dataset != NULL)
        fileops_growth_forget(dataset, inode);
    if (dataset != NULL)
        file_systems_put(dataset);
}

static uint64_t space_least(uint64_t left_bytes, uint64_t other)
{
    return left_bytes < other ? left_bytes : other;
}

static fsal_status_t space_dynamic_info(struct fsal_export *export, struct fsal_obj_handle *object, fsal_dynamicfsinfo_t *info)
{
    const fsal_status_t status = below_dynamic_info(export, object, info);
    struct fileops_dataset *dataset = zvaai_object(object)->dataset;
    struct fileops_dataset_status space;
    uint64_t left;

    if (FSAL_IS_ERROR(status) || dataset == NULL || !fileops_dataset_is_thick(dataset))
        return status;
    fileops_dataset_status(dataset, &space);
    left = space.admitted < space.size ? space.size - space.admitted : 0;
    /* During a count: at most what ZFS has available. */
    left = space.counting ? space_least(left, info->avail_bytes) : left;
    info->total_bytes = space.size;
    info->free_bytes = info->avail_bytes = left;
    return status;
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

void space_export_init(struct fsal_export *export)
{
    below_dynamic_info = export->exp_ops.get_fs_dynamic_info; /* FSAL_VFS's, the same for all */
    export->exp_ops.get_fs_dynamic_info = space_dynamic_info;
}
