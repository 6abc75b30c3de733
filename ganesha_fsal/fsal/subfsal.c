/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The functions that FSAL_VFS expects from an FSAL compiled with it (subfsal.h of the source package). */
#include "config.h"

#include "fsal.h"

#include "exports.h"
#include "file_systems.h"
#include "object.h"
#include "vfs_methods.h"
#include "subfsal.h"

/* The functions of vfs/subfsal_vfs.c, renamed in meson.build. */
void vfs_default_sub_fini(struct vfs_fsal_export *export);
int vfs_default_sub_init_handle(struct vfs_fsal_export *export, struct vfs_fsal_obj_handle *object, const char *path);

void vfs_sub_fini(struct vfs_fsal_export *export)
{
    exports_remove(&export->export);
    vfs_default_sub_fini(export);
}

struct vfs_fsal_obj_handle *vfs_sub_alloc_handle(void)
{
    struct zvaai_object *object = gsh_calloc(1, sizeof(*object));

    object->vfs.handle = &object->wire;
    return &object->vfs;
}

int vfs_sub_init_handle(struct vfs_fsal_export *export, struct vfs_fsal_obj_handle *object, const char *path)
{
    struct zvaai_object *handle_object = zvaai_object(&object->obj_handle);
    const struct fsal_filesystem *file_system = object->obj_handle.fs;

    if (vfs_default_sub_init_handle(export, object, path) < 0)
        goto fail;
    /* handle_object() needs only the root of another FSAL's file system that is mounted below. */
    if (file_system->fsal == export->export.fsal && file_systems_get(file_system, &handle_object->dataset) != 0)
        goto fail;
    if (object->obj_handle.type == REGULAR_FILE)
        object_begin(handle_object);
    return 0;
fail:
    /* alloc_handle() of FSAL_VFS frees the object, but does not remove it from the module's list. */
    fsal_obj_handle_fini(&object->obj_handle, true);
    return -1;
}
