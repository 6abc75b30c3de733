/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "leaf.h"

#include <errno.h>

#include "../vaai_nas/leaf_call.h"
#include "vfs_methods.h"

static fsal_status_t (*client_fallocate)(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                         bool allocate);
static fsal_status_t (*module_init_config)(struct fsal_module *module, config_file_t configuration,
                                           struct config_error_type *errors);

static fsal_status_t leaf_fallocate(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                    bool allocate)
{
    if (vaai_nas_leaf_call != NULL)
        return vaai_nas_leaf_run(object);
    return client_fallocate(object, state, offset, length, allocate);
}

int fsal_zvaai_open_leaf(struct fsal_obj_handle *leaf, int flags)
{
    fsal_errors_t error = ERR_FSAL_NO_ERROR;
    int fd = vfs_fsal_open(container_of(leaf, struct vfs_fsal_obj_handle, obj_handle), flags, &error);

    if (fd < 0)
        errno = -fd;
    return fd < 0 ? -1 : fd;
}

static void leaf_prepare_unexport(struct fsal_export *export)
{
    vaai_nas_export_ends(export->export_id);
}

void leaf_export_init(struct fsal_export *export)
{
    export->exp_ops.prepare_unexport = leaf_prepare_unexport;
}

static fsal_status_t leaf_init_config(struct fsal_module *module, config_file_t configuration, struct config_error_type *errors)
{
    fsal_status_t status = module_init_config(module, configuration, errors);

    if (FSAL_IS_SUCCESS(status) && vaai_nas_start(configuration, errors) != 0)
        status = fsalstat(ERR_FSAL_INVAL, 0);
    return status;
}

void leaf_operations_init(struct fsal_obj_ops *operations)
{
    struct vfs_fsal_module *module = container_of(operations, struct vfs_fsal_module, handle_ops);

    client_fallocate = operations->fallocate;
    operations->fallocate = leaf_fallocate;
    module_init_config = module->module.m_ops.init_config;
    module->module.m_ops.init_config = leaf_init_config;
}
