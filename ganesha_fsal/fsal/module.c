/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* The module: FSAL_VFS's own registration (vfs/main-c.in.cmake of the source package, under the name ZVAAI) calls these functions where it would call
 * FSAL_VFS's (meson.build). */
#include "config.h"

#include "fsal.h"
#include "fsal_convert.h"

#include "exports.h"
#include "leaf.h"
#include "places.h"
#include "space.h"
#include "stable.h"
#include "vfs_methods.h"

void zvaai_handle_ops_init(struct fsal_obj_ops *operations);
fsal_status_t zvaai_create_export(struct fsal_module *module, void *parse_node, struct config_error_type *errors,
                                  const struct fsal_up_vector *up_ops);
fsal_status_t zvaai_update_export(struct fsal_module *module, void *parse_node, struct config_error_type *errors,
                                  struct fsal_export *original, struct fsal_module *updated_super);

/* Operations on objects, for clients. */
void zvaai_handle_ops_init(struct fsal_obj_ops *operations)
{
    vfs_handle_ops_init(operations);
    space_operations_init(operations);
    stable_operations_init(operations);
    leaf_operations_init(operations);
    exports_init();
}

/* The first byte of FSAL_VFS's handles (os/linux/handle_syscalls.c). */
#define HANDLE_DUMMY 0x20
#define HANDLE_TYPE_MASK 0xC0

/* A dummy handle represents the root of another FSAL's file system, and contains no kernel handle. FSAL_VFS checks the length of a dummy, but then reads
 * the handle by the type inside: a forged handle with both would make it copy 4 GiB. */
static bool module_is_forged(const struct gsh_buffdesc *wire)
{
    uint8_t flags = wire->len > 0 ? *(const uint8_t *)wire->addr : 0;

    return (flags & HANDLE_DUMMY) != 0 && (flags & HANDLE_TYPE_MASK) != 0;
}

static fsal_status_t zvaai_create_handle(struct fsal_export *export, struct gsh_buffdesc *wire, struct fsal_obj_handle **object,
                                         struct fsal_attrlist *attributes)
{
    if (module_is_forged(wire))
        return fsalstat(ERR_FSAL_BADHANDLE, 0);
    return vfs_create_handle(export, wire, object, attributes);
}

fsal_status_t zvaai_create_export(struct fsal_module *module, void *parse_node, struct config_error_type *errors,
                                  const struct fsal_up_vector *up_ops)
{
    struct fsal_export *export;
    fsal_status_t status;
    int error;

    if (!places_have(CTX_FULLPATH(op_ctx)))
        return fsalstat(ERR_FSAL_ACCESS, EACCES);
    status = vfs_create_export(module, parse_node, errors, up_ops);
    if (FSAL_IS_ERROR(status))
        return status;
    export = op_ctx->fsal_export;
    export->exp_ops.create_handle = zvaai_create_handle;
    leaf_export_init(export);
    space_export_init(export);
    error = exports_add(export, parse_node, errors);
    if (error != 0) {
        export->exp_ops.release(export);
        op_ctx->fsal_export = NULL;
        status = fsalstat(posix2fsal_error(error), error);
    }
    return status;
}

fsal_status_t zvaai_update_export(struct fsal_module *module, void *parse_node, struct config_error_type *errors,
                                  struct fsal_export *original, struct fsal_module *updated_super)
{
    const fsal_status_t status = vfs_update_export(module, parse_node, errors, original, updated_super);
    int error;

    if (FSAL_IS_ERROR(status))
        return status;
    error = exports_update(original, parse_node, errors);
    return fsalstat(error == 0 ? ERR_FSAL_NO_ERROR : posix2fsal_error(error), error);
}
