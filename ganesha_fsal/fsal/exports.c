/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "exports.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../fileops/dataset.h"
#include "file_systems.h"
#include "subfsal.h"
#include "vfs_methods.h"

/* FSAL_VFS's parameters are refused: the appliance sets none of them. */
static struct config_item vfs_parameters[] = {
    CONF_ITEM_NOOP("name"),
    CONF_ITEM_NOOP("Thick_Size"),
    CONFIG_EOL,
};

static struct config_block vfs_block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.fsal.zvaai-vfs-export%d",
    .blk_desc.name = "FSAL",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.u.blk.init = noop_conf_init,
    .blk_desc.u.blk.params = vfs_parameters,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

struct parameters {
    uint64_t thick_size;
};

static struct config_item zvaai_parameters[] = {
    CONF_ITEM_NOOP("name"),
    CONF_ITEM_UI64("Thick_Size", 0, INT64_MAX, 0, parameters, thick_size),
    CONFIG_EOL,
};

static struct config_block zvaai_block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.fsal.zvaai-export%d",
    .blk_desc.name = "FSAL",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.u.blk.init = noop_conf_init,
    .blk_desc.u.blk.params = zvaai_parameters,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

struct entry {
    struct entry *next;
    const struct fsal_export *export;
    struct fileops_dataset *dataset;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *all;

void exports_init(void)
{
    vfs_sub_export_param = &vfs_block;
}

/* The link to the export's entry, or to the end. With `lock`. */
static struct entry **exports_find(const struct fsal_export *export)
{
    struct entry **link = &all;

    while (*link != NULL && (*link)->export != export)
        link = &(*link)->next;
    return link;
}

static int exports_set_thick(struct fileops_dataset *dataset, const struct fsal_export *export, uint64_t size)
{
    const int error = fileops_dataset_set_thick(dataset, size);

    if (error != 0)
        LogCrit(COMPONENT_FSAL, "%s can't be made thick: %s", export->root_fs->path, strerror(error));
    return error;
}

int exports_add(struct fsal_export *export, void *parse_node, struct config_error_type *errors)
{
    struct parameters parameters = {0};
    struct entry *entry;
    int error;

    if (load_config_from_node(parse_node, &zvaai_block, &parameters, true, errors) != 0)
        return EINVAL;
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return ENOMEM;
    entry->export = export;
    error = file_systems_get(export->root_fs, &entry->dataset);
    if (error == 0) {
        error = exports_set_thick(entry->dataset, export, parameters.thick_size);
        if (error != 0)
            file_systems_put(entry->dataset);
    }
    if (error != 0) {
        free(entry);
        return error;
    }
    pthread_mutex_lock(&lock);
    entry->next = all;
    all = entry;
    pthread_mutex_unlock(&lock);
    return 0;
}

int exports_update(struct fsal_export *export, void *parse_node, struct config_error_type *errors)
{
    struct parameters parameters = {0};
    struct fileops_dataset *dataset;

    if (load_config_from_node(parse_node, &zvaai_block, &parameters, true, errors) != 0)
        return EINVAL;
    /* ganesha changes one export at a time: the entry stays. */
    pthread_mutex_lock(&lock);
    dataset = *exports_find(export) == NULL ? NULL : (*exports_find(export))->dataset;
    pthread_mutex_unlock(&lock);
    return dataset == NULL ? ESTALE : exports_set_thick(dataset, export, parameters.thick_size);
}

void exports_remove(const struct fsal_export *export)
{
    struct entry **link, *entry;

    pthread_mutex_lock(&lock);
    link = exports_find(export);
    entry = *link;
    if (entry != NULL)
        *link = entry->next;
    pthread_mutex_unlock(&lock);
    if (entry != NULL) {
        fileops_dataset_stop(entry->dataset);
        file_systems_put(entry->dataset);
    }
    free(entry);
}
