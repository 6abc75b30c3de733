/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The seams that FSAL_VFS leaves to what it is compiled with (subfsal.h of the source package). */
#include "config.h"

#include "fsal.h"

#include "vfs_methods.h"
#include "subfsal.h"

/* Those of vfs/subfsal_vfs.c, renamed in meson.build. */
void vfs_default_sub_fini(struct vfs_fsal_export *export);
int vfs_default_sub_init_export(struct vfs_fsal_export *export);
struct vfs_fsal_obj_handle *vfs_default_sub_alloc_handle(void);
int vfs_default_sub_init_handle(struct vfs_fsal_export *export, struct vfs_fsal_obj_handle *object, const char *path);

void vfs_sub_fini(struct vfs_fsal_export *export)
{
    vfs_default_sub_fini(export);
}

int vfs_sub_init_export(struct vfs_fsal_export *export)
{
    return vfs_default_sub_init_export(export);
}

struct vfs_fsal_obj_handle *vfs_sub_alloc_handle(void)
{
    return vfs_default_sub_alloc_handle();
}

int vfs_sub_init_handle(struct vfs_fsal_export *export, struct vfs_fsal_obj_handle *object, const char *path)
{
    return vfs_default_sub_init_handle(export, object, path);
}
