/* SPDX-License-Identifier: LGPL-3.0-or-later */
#include "config.h"

#include "transfers.h"

#include <time.h>

#include "../vaai_nas/leaf_call.h"

/* The operations that the functions below call. Set once, before the first export is made. */
static struct fsal_obj_ops below;

/* On the stack: FSAL_VFS's read2 and write2 call `done` before they return. */
struct transfer {
    bool write;
    struct timespec began;
    fsal_async_cb done;
    void *argument;
};

static struct transfer transfers_begin(bool write, fsal_async_cb done, void *argument)
{
    struct transfer transfer = {.write = write, .done = done, .argument = argument};

    clock_gettime(CLOCK_MONOTONIC, &transfer.began);
    return transfer;
}

static void transfers_done(struct fsal_obj_handle *object, fsal_status_t status, void *io, void *argument)
{
    const struct transfer *transfer = argument;
    const struct fsal_io_arg *moved = io;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    vaai_nas_count_client_transfer(transfer->write, FSAL_IS_SUCCESS(status), FSAL_IS_SUCCESS(status) ? moved->io_amount : 0,
                                   (uint64_t)(now.tv_sec - transfer->began.tv_sec) * 1000000u +
                                       (uint64_t)((now.tv_nsec - transfer->began.tv_nsec) / 1000));
    transfer->done(object, status, io, transfer->argument);
}

static void transfers_read(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    struct transfer transfer = transfers_begin(false, done, argument);

    below.read2(object, bypass, transfers_done, io, &transfer);
}

static void transfers_write(struct fsal_obj_handle *object, bool bypass, fsal_async_cb done, struct fsal_io_arg *io, void *argument)
{
    struct transfer transfer = transfers_begin(true, done, argument);

    below.write2(object, bypass, transfers_done, io, &transfer);
}

void transfers_operations_init(struct fsal_obj_ops *operations)
{
    below = *operations;
    operations->read2 = transfers_read;
    operations->write2 = transfers_write;
}
