/* SPDX-License-Identifier: LGPL-3.0-or-later */
#ifndef ZVAAI_FSAL_OBJECT_H
#define ZVAAI_FSAL_OBJECT_H

#include "fsal.h"
#include "vfs_methods.h"

struct fileops_space;

/* FSAL_VFS's object with what is ours behind it: vfs.handle points at `wire`. */
struct zvaai_object {
    struct vfs_fsal_obj_handle vfs;
    vfs_file_handle_t wire;
    struct fileops_space *space; /* the books of its file system; NULL: it has none */
    struct glist_head living;    /* in the table of objects in use; regular files only */
};

static inline struct zvaai_object *zvaai_object(struct fsal_obj_handle *object)
{
    return container_of(object, struct zvaai_object, vfs.obj_handle);
}

/*
 * Objects of regular files in use, by their books and inode number. A file without a name stays as long as it has one: whoever
 * has it open has an object of it.
 */
void object_begin(struct zvaai_object *object);
/* Returns whether it was the last one of its file. */
bool object_end(struct zvaai_object *object);
bool object_in_use(const struct fileops_space *space, uint64_t inode);

#endif
