/* Promises to files: made, grown, taken back. */
#include "space_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#define MIB (UINT64_C(1) << 20)
#define AHEAD_LEAST (64 * MIB)

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* zfs(8) failed, for whatever reason: it may do better later. */
static int not_now(int error)
{
    return error && error != ENOMEM ? EAGAIN : error;
}

static int make_thick(struct fileops_space *space, struct fileops_ledger_file *row, uint64_t size)
{
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find_or_make(space, row);
    if (!file) {
        pthread_mutex_unlock(&space->state);
        return ENOMEM;
    }
    const bool was = file->row.thick;
    const uint64_t before = file->row.promised;
    int error = space_set_thick(space, file, true);
    if (error) {
        space_forget_if_nothing(space, file);
        pthread_mutex_unlock(&space->state);
        return error;
    }
    file->row.promised = size;
    file->row.block_size = row->block_size;
    space_count(space, file);
    *row = file->row;
    pthread_mutex_unlock(&space->state);

    error = not_now(space_measure(space, false));
    if (!error && !was && !space->figures.can_promise)
        error = EOPNOTSUPP;
    if (!error && space->figures.held != space->held) {
        space->foreign_changes++;
        space->held = space->figures.held;
    }
    if (!error) {
        space_compute(space);
        /* Not less than is held now: that is for looks. */
        error = space_hold_needed(space, larger(AHEAD_LEAST, space->held > space->needed ? space->held - space->needed : 0));
        if (error != ENOSPC)
            error = not_now(error);
    }
    if (!error) {
        fileops_ledger_begin(space->ledger);
        fileops_ledger_put_file(space->ledger, row);
        error = fileops_ledger_commit(space->ledger);
    }
    if (!error) {
        atomic_store(&space->gate, true);
        return 0;
    }
    pthread_mutex_lock(&space->state);
    file = space_find(space, row->inode);
    if (file) {
        file->row.promised = before;
        space_set_thick(space, file, was);
        space_count(space, file);
        space_forget_if_nothing(space, file);
    }
    pthread_mutex_unlock(&space->state);
    space_follow(space); /* what was held for it goes back */
    return error;
}

/* Blocks that nobody told us of may be shared with it: all of it counts, as far as the pool knows of sharing. */
static int count_unknown(struct fileops_space *space, const struct fileops_ledger_file *row, const struct stat *status)
{
    struct fileops_references added = {0};
    const struct fileops_clone_range all = {.source = row->inode, .destination = FILEOPS_OTHER_DATASET,
                                            .length = space_round_up((uint64_t)status->st_size, row->block_size)};
    int error = not_now(space_measure(space, false));
    if (error)
        return error;
    pthread_mutex_lock(&space->state);
    if (space->figures.shared > fileops_share_map_bytes(space->map) && !fileops_share_map_has(space->map, row->inode) && status->st_size > 0 &&
        status->st_blocks > 0) {
        error = space_find_or_make(space, row) ? 0 : ENOMEM;
        if (!error)
            error = fileops_share_map_clone(space->map, &all, NULL, 0, false, 2, &added);
    }
    pthread_mutex_unlock(&space->state);
    if (!error && added.count) {
        fileops_ledger_begin(space->ledger);
        fileops_ledger_put_file(space->ledger, row);
        for (size_t i = 0; i < added.count; i++)
            fileops_ledger_put_reference(space->ledger, &added.list[i]);
        error = fileops_ledger_commit(space->ledger);
    }
    free(added.list);
    return error;
}

/* One block grows with its file up to those of new files; more stay as they are. */
static uint32_t grown_block_size(int file, const struct stat *status)
{
    struct statvfs file_system;
    const bool one = status->st_size <= status->st_blksize;
    const uint64_t now = (uint64_t)status->st_blksize, most = one && !fstatvfs(file, &file_system) ? file_system.f_bsize : 0;
    return (uint32_t)larger(now, most);
}

/* Its last name went before the books knew of it: nobody told them, but whoever has it open tells when that ends. */
static void note_nameless(struct fileops_space *space, int file)
{
    struct stat status;
    if (fstat(file, &status) || status.st_nlink)
        return;
    pthread_mutex_lock(&space->state);
    struct known_file *known = space_find(space, status.st_ino);
    if (known && !known->removed)
        known->removed = known->open = true;
    pthread_mutex_unlock(&space->state);
}

void space_note_growth(struct fileops_space *space, uint64_t inode)
{
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    if (file && file->row.thick)
        file->grown = space_milliseconds();
    pthread_mutex_unlock(&space->state);
}

static int promise(struct fileops_space *space, int file, uint64_t least, enum space_promise_for purpose, uint64_t *reserved)
{
    struct fileops_ledger_file row;
    struct stat status;
    int error = space_identify(space, file, &row, &status);
    if (error)
        return error;
    pthread_mutex_lock(&space->order);
    error = space_ask_holder(space);
    if (error) {
        space_order_end(space);
        return error;
    }
    pthread_mutex_lock(&space->state);
    const struct known_file *known = space_find(space, row.inode);
    const bool done = known && space_is_same_file(&row, &known->row) && known->row.thick &&
                      known->row.promised >= larger((uint64_t)status.st_size, least);
    pthread_mutex_unlock(&space->state);
    if (!done) {
        const bool counted = atomic_load(&space->gate);
        /* Thin files' changes are counted from now on. */
        if (!counted) {
            atomic_store(&space->limit, UINT64_MAX);
            atomic_store(&space->gate, true);
        }
        /* What is empty, and is to grow, adds nothing to what the last look saw. */
        if (!counted || status.st_size || purpose != SPACE_GROWS)
            error = not_now(space_settle_marked(space)); /* so that the figures are of one moment */
        if (!error && fstat(file, &status))
            error = errno;
        if (!error && purpose == SPACE_GROWS)
            row.block_size = grown_block_size(file, &status);
        if (!error && status.st_size && purpose != SPACE_CLONED)
            error = count_unknown(space, &row, &status);
        if (!error)
            error = make_thick(space, &row, larger((uint64_t)status.st_size, least));
        if (!error && purpose == SPACE_GROWS)
            space_note_growth(space, row.inode);
        if (!error)
            note_nameless(space, file);
    }
    space_order_end(space);
    if (!error && reserved)
        *reserved = (uint64_t)status.st_size;
    return error;
}

int fileops_reserve(struct fileops_space *space, int file, uint64_t *reserved)
{
    return promise(space, file, 0, SPACE_RESERVED, reserved);
}

int fileops_reserve_size(struct fileops_space *space, int file, uint64_t size)
{
    return size > INT64_MAX ? EFBIG : promise(space, file, size, SPACE_RESERVED, NULL);
}

int space_promise(struct fileops_space *space, int file, uint64_t size, enum space_promise_for purpose)
{
    return promise(space, file, size, purpose, NULL);
}

/* A thick file is to be larger. In steps, where there is room: each costs a transaction group. */
int space_grow_promise(struct fileops_space *space, uint64_t inode, uint64_t size)
{
    int error = 0;
    if (size > INT64_MAX)
        return EFBIG;
    pthread_mutex_lock(&space->order);
    pthread_mutex_lock(&space->state);
    const struct known_file *file = space_find(space, inode);
    struct fileops_ledger_file row = file ? file->row : (struct fileops_ledger_file){0};
    pthread_mutex_unlock(&space->state);
    const bool grows = row.thick && row.promised < size;
    if (grows)
        error = space_ask_holder(space);
    if (error == EOPNOTSUPP)
        error = ENOSPC; /* nothing can be held for it */
    if (grows && !error) {
        struct fileops_ledger_file larger = row;
        error = make_thick(space, &larger, space_round_up(size, 64 * MIB));
        if (error == ENOSPC && size != space_round_up(size, 64 * MIB)) {
            larger = row;
            error = make_thick(space, &larger, size);
        }
    }
    space_order_end(space);
    return error;
}

int fileops_unreserve(struct fileops_space *space, int file)
{
    struct fileops_ledger_file row;
    struct stat status;
    int error = space_identify(space, file, &row, &status);
    if (error)
        return error;
    pthread_mutex_lock(&space->order);
    pthread_mutex_lock(&space->state);
    struct known_file *known = space_find(space, row.inode);
    const bool thick = known && known->row.thick;
    if (thick)
        row = known->row;
    pthread_mutex_unlock(&space->state);
    if (thick) {
        row.thick = false;
        row.promised = 0;
        fileops_ledger_begin(space->ledger);
        fileops_ledger_put_file(space->ledger, &row);
        error = fileops_ledger_commit(space->ledger);
        if (!error) {
            pthread_mutex_lock(&space->state);
            known = space_find(space, row.inode);
            space_set_thick(space, known, false);
            known->row = row;
            space_forget_if_nothing(space, known);
            pthread_mutex_unlock(&space->state);
            /* What was written to it was not counted as thin: it must be in the figures. A look does it later otherwise. */
            if (atomic_load(&space->has_holder) && !space_settle_marked(space) && !space_measure(space, false))
                space_follow(space);
        }
    }
    space_order_end(space);
    return error;
}
