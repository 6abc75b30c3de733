/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../fileops/changes.h"
#include "../fileops/interlock.h"
#include "../fileops/retry.h"
#include "file_systems.h"
#include "fsal_convert.h"
#include "object.h"

/* FSAL_VFS's own, which these call. Set once, before the first export is made. */
static struct fsal_obj_ops below;
static fsal_status_t (*below_dynamic_info)(struct fsal_export *export, struct fsal_obj_handle *object, fsal_dynamicfsinfo_t *info);

static fsal_status_t from_errno(int error)
{
    return fsalstat(error == EOPNOTSUPP ? ERR_FSAL_NOTSUPP : posix2fsal_error(error == EDQUOT ? ENOSPC : error), error);
}

static bool has_no_space(fsal_status_t status)
{
    return status.major == ERR_FSAL_NOSPC || status.major == ERR_FSAL_DQUOT;
}

static dev_t device_of(const struct fsal_obj_handle *object)
{
    return makedev((unsigned int)object->fs->dev.major, (unsigned int)object->fs->dev.minor);
}

static struct fileops_dataset *dataset_of(struct fsal_obj_handle *object)
{
    return object->type == REGULAR_FILE ? zvaai_object(object)->dataset : NULL;
}

/* The present size; UINT64_MAX where it can't be read. */
static uint64_t size_of(struct fsal_obj_handle *object)
{
    struct fsal_attrlist attributes;
    uint64_t size = UINT64_MAX;

    fsal_prepare_attrs(&attributes, ATTR_SIZE);
    if (!FSAL_IS_ERROR(below.getattrs(object, &attributes)))
        size = attributes.filesize;
    fsal_release_attrs(&attributes);
    return size;
}

/* Admits what may make the file `end` bytes large. */
static int begin(struct fsal_obj_handle *object, uint64_t end, struct admission_change *change)
{
    struct fileops_dataset *dataset = dataset_of(object);
    int error = fileops_growth_begin(dataset, object->fileid, end, change);
    uint64_t size;

    if (error != ENODATA)
        return error;
    size = size_of(object);
    error = size == UINT64_MAX ? ESTALE : fileops_growth_count(dataset, object->fileid, size);
    return error != 0 ? error : fileops_growth_begin(dataset, object->fileid, end, change);
}

/* `kept`: the file is as large as it was admitted. */
static void end(struct fsal_obj_handle *object, const struct admission_change *change, bool kept)
{
    if (change->entered)
        fileops_growth_end(dataset_of(object), change, kept ? UINT64_MAX : size_of(object));
}

/* Whether what failed with the status is to be tried again; if no longer, the status says so to the client. */
static bool again(struct fsal_obj_handle *object, fsal_status_t *status, struct fileops_retry *retry)
{
    fsal_errors_t open_error = ERR_FSAL_NO_ERROR;
    bool retries;
    int fd;

    if (!has_no_space(*status))
        return false;
    fd = fileops_dataset_is_thick(dataset_of(object)) ? vfs_fsal_open(&zvaai_object(object)->vfs, O_RDONLY, &open_error) : -1;
    retries = fileops_may_retry(dataset_of(object), ENOSPC, fd, retry);
    if (fd >= 0)
        close(fd);
    if (retries)
        return true;
    *status = retry->exhausted ? fsalstat(ERR_FSAL_DELAY, EAGAIN) : from_errno(ENOSPC);
    return false;
}

/* vfs_write2() calls back before it returns; what it says is kept here. */
static void keep_status(struct fsal_obj_handle *object, fsal_status_t status, void *io, void *kept)
{
    (void)object;
    (void)io;
    *(fsal_status_t *)kept = status;
}

static uint64_t length_of(const struct fsal_io_arg *io)
{
    uint64_t length = 0;

    for (int part = 0; part < io->iov_count; part++)
        length += io->iov[part].iov_len;
    return length;
}

static void space_write(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    const bool stable = io->fsal_stable;
    const uint64_t length = length_of(io);
    struct fileops_retry retry = { 0 };
    struct admission_change change;
    fsal_status_t status;
    int error;

    if (dataset_of(object) == NULL) {
        below.write2(object, bypass, done, io, argument);
        return;
    }
    error = begin(object, io->offset + length, &change);
    if (error != 0) {
        done(object, from_errno(error), io, argument);
        return;
    }
    do {
        io->fsal_stable = stable;
        below.write2(object, bypass, keep_status, io, &status);
    } while (again(object, &status, &retry));
    end(object, &change, FSAL_IS_SUCCESS(status) && io->io_amount == length);
    done(object, status, io, argument);
}

/* A size is set: blocks beyond it are freed, or the file grows. */
static fsal_status_t set_size(struct fsal_obj_handle *object, bool bypass, struct state_t *state, struct fsal_attrlist *attributes)
{
    struct fileops_retry retry = { 0 };
    struct admission_change change;
    fsal_status_t status;
    int error = begin(object, attributes->filesize, &change);

    if (error != 0)
        return from_errno(error);
    error = fileops_freeing_begin(device_of(object), object->fileid);
    status = from_errno(error);
    if (error == 0) {
        do {
            status = below.setattr2(object, bypass, state, attributes);
        } while (again(object, &status, &retry));
        fileops_freeing_end(device_of(object), object->fileid);
    }
    end(object, &change, false);
    return status;
}

static fsal_status_t space_setattr(struct fsal_obj_handle *object, bool bypass, struct state_t *state,
                                   struct fsal_attrlist *attributes)
{
    if (dataset_of(object) == NULL || !FSAL_TEST_MASK(attributes->valid_mask, ATTR_SIZE))
        return below.setattr2(object, bypass, state, attributes);
    return set_size(object, bypass, state, attributes);
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
    struct stat found = { .st_ino = object->fileid };
    struct admission_change change = { 0 };
    struct fsal_obj_handle *emptied;
    fsal_status_t status;
    bool truncates = zvaai_object(object)->dataset != NULL && (flags & FSAL_O_TRUNC) != 0;

    if (truncates && name != NULL)
        truncates = look(object, name, &found);
    if (truncates && fileops_freeing_begin(device_of(object), found.st_ino) != 0)
        return from_errno(EBUSY);
    if (truncates)
        (void)fileops_growth_begin(zvaai_object(object)->dataset, found.st_ino, 0, &change);
    status = below.open2(object, state, flags, mode, name, attributes_in, verifier, opened, attributes_out, caller_perm_check,
                         parent_before, parent_after);
    if (truncates)
        fileops_freeing_end(device_of(object), found.st_ino);
    emptied = name != NULL ? *opened : object;
    if (change.entered) /* the name may have been given to another file meanwhile: then it stays admitted */
        fileops_growth_end(zvaai_object(object)->dataset, &change,
                           FSAL_IS_SUCCESS(status) && emptied->fileid == found.st_ino ? size_of(emptied) : UINT64_MAX);
    return status;
}

static fsal_status_t space_reopen(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags)
{
    struct admission_change change;
    fsal_status_t status;
    int error;

    if (dataset_of(object) == NULL || (flags & FSAL_O_TRUNC) == 0)
        return below.reopen2(object, state, flags);
    error = begin(object, 0, &change);
    if (error != 0)
        return from_errno(error);
    error = fileops_freeing_begin(device_of(object), object->fileid);
    status = error != 0 ? from_errno(error) : below.reopen2(object, state, flags);
    if (error == 0)
        fileops_freeing_end(device_of(object), object->fileid);
    end(object, &change, false);
    return status;
}

/*
 * ALLOCATE (RFC 7862 15.1) promises that later writes don't fail for want of space. ZFS can't promise that for a range of a file, and fallocate(2) on it only
 * looks whether there is room now.
 */
static fsal_status_t space_fallocate(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                     bool allocate)
{
    fsal_status_t status;
    int error;

    if (offset > INT64_MAX || length > INT64_MAX - offset)
        return from_errno(EFBIG);
    if (dataset_of(object) == NULL)
        return below.fallocate(object, state, offset, length, allocate);
    if (allocate)
        return from_errno(EOPNOTSUPP);
    error = fileops_freeing_begin(device_of(object), object->fileid);
    if (error != 0)
        return from_errno(error);
    status = below.fallocate(object, state, offset, length, allocate);
    fileops_freeing_end(device_of(object), object->fileid);
    return status;
}

/* A file's last name is gone: it counts until nobody has it open. */
static void removed(struct fileops_dataset *dataset, uint64_t inode)
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
    const bool replaces = dataset != NULL && fileops_dataset_is_thick(dataset) && look(new_directory, new_name, &replaced) &&
                          replaced.st_nlink == 1 && replaced.st_ino != object->fileid;
    const fsal_status_t status = below.rename(object, old_directory, old_name, new_directory, new_name, old_before, old_after,
                                              new_before, new_after);

    if (replaces && FSAL_IS_SUCCESS(status))
        removed(dataset, replaced.st_ino);
    return status;
}

/* Whether no name leads to the file any more. Unsure counts as no: it stays admitted until files are counted again. */
static bool is_nameless(struct fsal_obj_handle *object)
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

    if (FSAL_IS_SUCCESS(status) && dataset_of(object) != NULL && is_nameless(object))
        removed(dataset_of(object), object->fileid);
    return status;
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
        file_systems_leave(dataset);
}

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static fsal_status_t space_dynamic_info(struct fsal_export *export, struct fsal_obj_handle *object, fsal_dynamicfsinfo_t *info)
{
    const fsal_status_t status = below_dynamic_info(export, object, info);
    struct fileops_dataset *dataset = zvaai_object(object)->dataset;
    struct fileops_dataset_status found;
    uint64_t left;

    if (FSAL_IS_ERROR(status) || dataset == NULL || !fileops_dataset_is_thick(dataset))
        return status;
    fileops_dataset_status(dataset, &found);
    left = found.admitted < found.size ? found.size - found.admitted : 0;
    /* While files are counted: not more than ZFS has. */
    left = found.counting ? least(left, info->avail_bytes) : left;
    info->total_bytes = found.size;
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
