/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "leaf.h"

#include <errno.h>
#include <pthread.h>

#include "../vaai_nas/leaf_call.h"
#include "FSAL/fsal_commonlib.h"
#include "places.h"
#include "vfs_methods.h"

static struct fsal_obj_ops below; /* the operations that those of this file call */
static fsal_status_t (*module_init_config)(struct fsal_module *module, config_file_t configuration,
                                           struct config_error_type *errors);
static void (*module_release_export)(struct fsal_export *export);

/* Exports from the start of their removal to the end of the last reference to them. */
static pthread_mutex_t ending_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ending {
    const struct fsal_export *export;
    struct ending *next;
} *ending;

static fsal_status_t leaf_fallocate(struct fsal_obj_handle *object, struct state_t *state, uint64_t offset, uint64_t length,
                                    bool allocate)
{
    fsal_status_t status;

    return vaai_nas_leaf_called(object, &status) ? status : below.fallocate(object, state, offset, length, allocate);
}

/* On the stack: FSAL_VFS's read2 and write2 call `done` before they return. */
struct transfer {
    bool write, stable; /* a stable write */
    fsal_async_cb done;
    void *argument;
    struct timespec began;
};

static void leaf_transferred(struct fsal_obj_handle *object, fsal_status_t status, void *io, void *argument)
{
    const struct transfer *transfer = argument;
    /* FSAL_VFS reports a stable write whose commit failed as an unstable one. RFC 1813 3.3.7 allows no less than what the client requests. */
    if (FSAL_IS_SUCCESS(status) && transfer->stable && !((struct fsal_io_arg *)io)->fsal_stable)
        status = fsalstat(ERR_FSAL_IO, EIO);
    const uint64_t bytes = FSAL_IS_SUCCESS(status) ? ((struct fsal_io_arg *)io)->io_amount : 0;

    vaai_nas_count_client_transfer(transfer->write, FSAL_IS_SUCCESS(status), bytes, &transfer->began);
    transfer->done(object, status, io, transfer->argument);
}

static void leaf_read(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    struct transfer transfer = {.write = false, .done = done, .argument = argument};

    clock_gettime(CLOCK_MONOTONIC, &transfer.began);
    below.read2(object, bypass, leaf_transferred, io, &transfer);
}

static void leaf_write(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    struct transfer transfer = {.write = true, .stable = io->fsal_stable, .done = done, .argument = argument};

    clock_gettime(CLOCK_MONOTONIC, &transfer.began);
    below.write2(object, bypass, leaf_transferred, io, &transfer);
}

int fsal_zvaai_open_leaf(struct fsal_obj_handle *leaf, int flags)
{
    fsal_errors_t error = ERR_FSAL_NO_ERROR;
    int fd = vfs_fsal_open(container_of(leaf, struct vfs_fsal_obj_handle, obj_handle), flags, &error);

    if (fd < 0)
        errno = -fd;
    return fd < 0 ? -1 : fd;
}

static struct fsal_share *leaf_share_of(struct fsal_obj_handle *leaf)
{
    return &container_of(leaf, struct vfs_fsal_obj_handle, obj_handle)->u.file.share;
}

fsal_status_t fsal_zvaai_share_begin(struct fsal_obj_handle *leaf, fsal_openflags_t flags)
{
    if (flags == FSAL_O_CLOSED)
        return fsalstat(ERR_FSAL_NO_ERROR, 0);
    return check_share_conflict_and_update_locked(leaf, leaf_share_of(leaf), FSAL_O_CLOSED, flags, false);
}

void fsal_zvaai_share_end(struct fsal_obj_handle *leaf, fsal_openflags_t flags)
{
    if (flags != FSAL_O_CLOSED)
        update_share_counters_locked(leaf, leaf_share_of(leaf), flags, FSAL_O_CLOSED);
}

bool fsal_zvaai_export_is_ending(const struct fsal_export *export)
{
    const struct ending *entry;

    pthread_mutex_lock(&ending_lock);
    for (entry = ending; entry != NULL && entry->export != export;)
        entry = entry->next;
    pthread_mutex_unlock(&ending_lock);
    return entry != NULL;
}

static void leaf_prepare_unexport(struct fsal_export *export)
{
    struct ending *entry = gsh_malloc(sizeof(*entry));

    entry->export = export;
    pthread_mutex_lock(&ending_lock);
    entry->next = ending;
    ending = entry;
    pthread_mutex_unlock(&ending_lock);
    vaai_nas_export_ends(export->export_id);
}

static void leaf_release_export(struct fsal_export *export)
{
    pthread_mutex_lock(&ending_lock);
    for (struct ending **link = &ending; *link != NULL;) {
        struct ending *entry = *link;
        if (entry->export == export) {
            *link = entry->next;
            gsh_free(entry);
        } else {
            link = &entry->next;
        }
    }
    pthread_mutex_unlock(&ending_lock);
    module_release_export(export);
}

void leaf_export_init(struct fsal_export *export)
{
    module_release_export = export->exp_ops.release; /* FSAL_VFS's, the same for all */
    export->exp_ops.release = leaf_release_export;
    export->exp_ops.prepare_unexport = leaf_prepare_unexport;
}

static fsal_status_t leaf_init_config(struct fsal_module *module, config_file_t configuration, struct config_error_type *errors)
{
    fsal_status_t status = module_init_config(module, configuration, errors);

    if (FSAL_IS_SUCCESS(status) && (places_init(configuration, errors) != 0 || vaai_nas_start(configuration, errors) != 0))
        status = fsalstat(ERR_FSAL_INVAL, 0);
    return status;
}

void leaf_operations_init(struct fsal_obj_ops *operations)
{
    struct vfs_fsal_module *module = container_of(operations, struct vfs_fsal_module, handle_ops);

    below = *operations;
    operations->fallocate = leaf_fallocate;
    operations->read2 = leaf_read;
    operations->write2 = leaf_write;
    module_init_config = module->module.m_ops.init_config;
    module->module.m_ops.init_config = leaf_init_config;
}
