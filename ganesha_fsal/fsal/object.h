/* SPDX-License-Identifier: LGPL-3.0-or-later */
#pragma once

#include "fsal.h"
#include "vfs_methods.h"

struct fileops_dataset;

/* FSAL_VFS's object, then the fields of FSAL_ZVAAI: vfs.handle points at `wire`. */
struct zvaai_object {
    struct vfs_fsal_obj_handle vfs;
    vfs_file_handle_t wire;
    struct fileops_dataset *dataset; /* of its file system, with a reference; NULL: another FSAL's */
    struct glist_head living;        /* in the table of objects in use; regular files only */
    bool nameless;                   /* the file has no name left; guarded by the table's lock */
};

static inline struct zvaai_object *zvaai_object(struct fsal_obj_handle *object)
{
    return container_of(object, struct zvaai_object, vfs.obj_handle);
}

/* Objects of regular files in use, by their dataset and inode number. A file without a name exists as long as it has an object: an open file has one. Each
 * function takes one mutex, of its bucket, and holds none on return. */
void object_begin(struct zvaai_object *object);
/* Returns whether it was the last object of a file without a name. */
bool object_end(struct zvaai_object *object);
/* The file has no name left. False: no object of it exists. */
bool object_mark_nameless(const struct fileops_dataset *dataset, uint64_t inode);
