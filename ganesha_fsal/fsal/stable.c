/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "stable.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "vfs_methods.h"

static struct fsal_obj_ops below; /* the operations that those of this file call */

/* Only the object's own descriptor commits all: ZFS logs changes of attributes with their object. An object that can't be opened for this (a device, a
 * symbolic link, a file without a name) needs the whole file system. */
fsal_status_t stable_after(fsal_status_t status, struct fsal_obj_handle *object)
{
    const bool opens = object->type == REGULAR_FILE || object->type == DIRECTORY;
    fsal_errors_t ignored;

    if (FSAL_IS_ERROR(status)) /* EDQUOT from the dataset's refquota: nobody has set hosts a quota */
        return status.major == ERR_FSAL_DQUOT ? fsalstat(ERR_FSAL_NOSPC, ENOSPC) : status;
    const int fd = opens ? vfs_fsal_open(container_of(object, struct vfs_fsal_obj_handle, obj_handle), O_RDONLY, &ignored) : -1;
    const int error = (fd >= 0 ? fsync(fd) : syncfs(root_fd(object->fs))) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (error != 0)
        LogCrit(COMPONENT_FSAL, "a change in %s can't be made stable: %s", object->fs->path, strerror(error));
    return fsalstat(error == 0 ? ERR_FSAL_NO_ERROR : ERR_FSAL_IO, error);
}

fsal_status_t stable_after_making(fsal_status_t status, struct fsal_obj_handle *folder, struct fsal_obj_handle **made)
{
    const fsal_status_t after = stable_after(status, folder);

    if (FSAL_IS_SUCCESS(status) && FSAL_IS_ERROR(after)) {
        (*made)->obj_ops->release(*made);
        *made = NULL;
    }
    return after;
}

static fsal_status_t stable_mkdir(struct fsal_obj_handle *folder, const char *name, struct fsal_attrlist *in,
                                  struct fsal_obj_handle **made, struct fsal_attrlist *out, struct fsal_attrlist *before,
                                  struct fsal_attrlist *after)
{
    return stable_after_making(below.mkdir(folder, name, in, made, out, before, after), folder, made);
}

static fsal_status_t stable_mknode(struct fsal_obj_handle *folder, const char *name, object_file_type_t type,
                                   struct fsal_attrlist *in, struct fsal_obj_handle **made, struct fsal_attrlist *out,
                                   struct fsal_attrlist *before, struct fsal_attrlist *after)
{
    return stable_after_making(below.mknode(folder, name, type, in, made, out, before, after), folder, made);
}

static fsal_status_t stable_symlink(struct fsal_obj_handle *folder, const char *name, const char *target,
                                    struct fsal_attrlist *in, struct fsal_obj_handle **made, struct fsal_attrlist *out,
                                    struct fsal_attrlist *before, struct fsal_attrlist *after)
{
    return stable_after_making(below.symlink(folder, name, target, in, made, out, before, after), folder, made);
}

static fsal_status_t stable_link(struct fsal_obj_handle *object, struct fsal_obj_handle *folder, const char *name,
                                 struct fsal_attrlist *before, struct fsal_attrlist *after)
{
    return stable_after(below.link(object, folder, name, before, after), folder);
}

void stable_operations_init(struct fsal_obj_ops *operations)
{
    below = *operations;
    operations->mkdir = stable_mkdir;
    operations->mknode = stable_mknode;
    operations->symlink = stable_symlink;
    operations->link = stable_link;
}
