/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "hidden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fileops/space.h"
#include "vfs_methods.h"

/* FSAL_VFS's own, which these call. Set once, before the first export is made. */
static struct fsal_obj_ops vfs;

static bool is_hidden_name(struct fsal_obj_handle *directory, const char *name)
{
    struct stat root;

    if (strcmp(name, FILEOPS_FOLDER) != 0 || directory->fs->fsal != directory->fsal)
        return false;
    return fstat(root_fd(directory->fs), &root) == 0 && root.st_ino == directory->fileid;
}

/* Whether an inode is that of a folder or lies right in it. */
static enum hidden is_in(int parent, const char *name, uint64_t inode)
{
    struct stat folder;
    struct dirent *entry;
    bool found, unread;
    DIR *stream;
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? HIDDEN_NO : HIDDEN_UNSURE;
    if (fstat(fd, &folder) != 0 || (stream = fdopendir(fd)) == NULL) {
        close(fd);
        return HIDDEN_UNSURE;
    }
    found = folder.st_ino == inode;
    errno = 0;
    while (!found && (entry = readdir(stream)) != NULL)
        found = entry->d_ino == inode && strcmp(entry->d_name, "..") != 0;
    unread = !found && errno != 0;
    closedir(stream);
    return found ? HIDDEN_YES : unread ? HIDDEN_UNSURE : HIDDEN_NO;
}

enum hidden hidden_is_object(const struct fsal_obj_handle *object, const struct fsal_attrlist *attributes)
{
    enum hidden hidden;

    if (object->fs->fsal != object->fsal)
        return HIDDEN_NO;
    /* A clone in the making is given its owner just before its name; all else in there is root's. */
    hidden = is_in(root_fd(object->fs), FILEOPS_FOLDER "/" FILEOPS_CLONES, object->fileid);
    if (hidden == HIDDEN_NO && attributes->owner == 0)
        hidden = is_in(root_fd(object->fs), FILEOPS_FOLDER, object->fileid);
    return hidden;
}

static fsal_status_t not_there(void)
{
    return fsalstat(ERR_FSAL_NOENT, ENOENT);
}

/* What nobody can see can't be said to exist; it is not the caller's to make. */
static fsal_status_t not_yours(void)
{
    return fsalstat(ERR_FSAL_ACCESS, EACCES);
}

static fsal_status_t hidden_lookup(struct fsal_obj_handle *directory, const char *name, struct fsal_obj_handle **object,
                                   struct fsal_attrlist *attributes)
{
    if (is_hidden_name(directory, name))
        return not_there();
    return vfs.lookup(directory, name, object, attributes);
}

static fsal_status_t hidden_mkdir(struct fsal_obj_handle *directory, const char *name, struct fsal_attrlist *attributes_in,
                                  struct fsal_obj_handle **object, struct fsal_attrlist *attributes_out,
                                  struct fsal_attrlist *parent_before, struct fsal_attrlist *parent_after)
{
    if (is_hidden_name(directory, name))
        return not_yours();
    return vfs.mkdir(directory, name, attributes_in, object, attributes_out, parent_before, parent_after);
}

static fsal_status_t hidden_mknode(struct fsal_obj_handle *directory, const char *name, object_file_type_t type,
                                   struct fsal_attrlist *attributes_in, struct fsal_obj_handle **object,
                                   struct fsal_attrlist *attributes_out, struct fsal_attrlist *parent_before,
                                   struct fsal_attrlist *parent_after)
{
    if (is_hidden_name(directory, name))
        return not_yours();
    return vfs.mknode(directory, name, type, attributes_in, object, attributes_out, parent_before, parent_after);
}

static fsal_status_t hidden_symlink(struct fsal_obj_handle *directory, const char *name, const char *target,
                                    struct fsal_attrlist *attributes_in, struct fsal_obj_handle **object,
                                    struct fsal_attrlist *attributes_out, struct fsal_attrlist *parent_before,
                                    struct fsal_attrlist *parent_after)
{
    if (is_hidden_name(directory, name))
        return not_yours();
    return vfs.symlink(directory, name, target, attributes_in, object, attributes_out, parent_before, parent_after);
}

static fsal_status_t hidden_link(struct fsal_obj_handle *object, struct fsal_obj_handle *directory, const char *name,
                                 struct fsal_attrlist *parent_before, struct fsal_attrlist *parent_after)
{
    if (is_hidden_name(directory, name))
        return not_yours();
    return vfs.link(object, directory, name, parent_before, parent_after);
}

static fsal_status_t hidden_open(struct fsal_obj_handle *object, struct state_t *state, fsal_openflags_t flags,
                                 enum fsal_create_mode mode, const char *name, struct fsal_attrlist *attributes_in,
                                 fsal_verifier_t verifier, struct fsal_obj_handle **opened, struct fsal_attrlist *attributes_out,
                                 bool *caller_perm_check, struct fsal_attrlist *parent_before,
                                 struct fsal_attrlist *parent_after)
{
    if (name != NULL && is_hidden_name(object, name))
        return mode == FSAL_NO_CREATE ? not_there() : not_yours();
    return vfs.open2(object, state, flags, mode, name, attributes_in, verifier, opened, attributes_out, caller_perm_check,
                     parent_before, parent_after);
}

static fsal_status_t hidden_rename(struct fsal_obj_handle *object, struct fsal_obj_handle *old_directory, const char *old_name,
                                   struct fsal_obj_handle *new_directory, const char *new_name,
                                   struct fsal_attrlist *old_before, struct fsal_attrlist *old_after,
                                   struct fsal_attrlist *new_before, struct fsal_attrlist *new_after)
{
    if (is_hidden_name(old_directory, old_name))
        return not_there();
    if (is_hidden_name(new_directory, new_name))
        return not_yours();
    return vfs.rename(object, old_directory, old_name, new_directory, new_name, old_before, old_after, new_before, new_after);
}

static fsal_status_t hidden_unlink(struct fsal_obj_handle *directory, struct fsal_obj_handle *object, const char *name,
                                   struct fsal_attrlist *parent_before, struct fsal_attrlist *parent_after)
{
    if (is_hidden_name(directory, name))
        return not_there();
    return vfs.unlink(directory, object, name, parent_before, parent_after);
}

/* A listing that leaves out one name. */
struct listing {
    struct fsal_obj_handle *directory;
    fsal_readdir_cb callback;
    void *state;
};

static enum fsal_dir_result listing_entry(const char *name, struct fsal_obj_handle *object, struct fsal_attrlist *attributes,
                                          void *state, fsal_cookie_t cookie)
{
    struct listing *listing = state;

    if (is_hidden_name(listing->directory, name)) {
        object->obj_ops->release(object);
        return DIR_CONTINUE;
    }
    return listing->callback(name, object, attributes, listing->state, cookie);
}

static fsal_status_t hidden_readdir(struct fsal_obj_handle *directory, fsal_cookie_t *whence, void *state,
                                    fsal_readdir_cb callback, attrmask_t mask, bool *eof)
{
    struct listing listing = { .directory = directory, .callback = callback, .state = state };

    return vfs.readdir(directory, whence, &listing, listing_entry, mask, eof);
}

void hidden_operations_init(struct fsal_obj_ops *operations)
{
    vfs = *operations;
    operations->lookup = hidden_lookup;
    operations->mkdir = hidden_mkdir;
    operations->mknode = hidden_mknode;
    operations->symlink = hidden_symlink;
    operations->link = hidden_link;
    operations->readdir = hidden_readdir;
    operations->open2 = hidden_open;
    operations->rename = hidden_rename;
    operations->unlink = hidden_unlink;
}
