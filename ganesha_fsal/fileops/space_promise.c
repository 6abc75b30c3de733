/* How much must be held, and holding it. */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define AHEAD_LEAST (64 * MIB)
#define AHEAD_MOST (8192 * MIB)
#define SLACK_MOST (1024 * MIB)

static void tell(struct fileops_space *space, const char *text)
{
    snprintf(space->problem, sizeof space->problem, "%s", text);
}

struct thick_list {
    struct fileops_ledger_file *rows;
    size_t count, room;
};

static void add_thick(void *context, struct known_file *file)
{
    struct thick_list *list = context;
    if (file->row.thick && list->count < list->room)
        list->rows[list->count++] = file->row;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* What nobody holds. */
static uint64_t free_for_all(const struct fileops_held *figures)
{
    const uint64_t unused = figures->held > figures->referenced ? figures->held - figures->referenced : 0;
    return figures->available > unused ? figures->available - unused : 0;
}

/* Sets `needed`: what thick files, all that shares, and thin files as they are now need, with slack. */
int space_read_needed(struct fileops_space *space, struct fileops_held *figures)
{
    struct thick_list list = {0};
    uint64_t cost = 0, allocated = 0, sizes = 0;

    pthread_mutex_lock(&space->state);
    list.room = space->thick_count;
    uint64_t shared = fileops_share_map_bytes(space->map);
    list.rows = calloc(list.room ? list.room : 1, sizeof *list.rows);
    if (list.rows)
        space_each(space, add_thick, &list);
    pthread_mutex_unlock(&space->state);
    if (!list.rows)
        return ENOMEM;
    /* Before the dataset's figure: what comes in between counts as thin too, rather than not at all. */
    for (size_t i = 0; i < list.count; i++) {
        struct stat status;
        const int file = space_open_row(space, &list.rows[i], O_RDONLY);
        sizes = add(sizes, list.rows[i].promised);
        cost = add(cost, space->holder.cost(space->holder.context, list.rows[i].promised, list.rows[i].block_size));
        if (file >= 0 && !fstat(file, &status))
            allocated += (uint64_t)status.st_blocks * 512;
        if (file >= 0)
            close(file);
    }
    free(list.rows);
    const int error = space->holder.read(space->holder.context, figures);
    if (error)
        return error;
    /* No more can be shared than the pool knows of. */
    if (figures->shared < shared)
        shared = figures->shared;
    uint64_t slack = sizes / 64;
    slack = slack < space->holder.slack ? space->holder.slack : slack > SLACK_MOST && SLACK_MOST > space->holder.slack ? SLACK_MOST : slack;
    const uint64_t thin = figures->referenced > allocated ? figures->referenced - allocated : 0;
    space->needed = list.count ? add(add(add(cost, thin), shared), slack) : 0;
    pthread_mutex_lock(&space->state);
    /* Far from full, nothing hurts the pool's books. */
    space->overdraft = add(figures->overdraft, free_for_all(figures) / 2);
    pthread_mutex_unlock(&space->state);
    return 0;
}

/* Sets what is held. The ledger knows of it first, so that a crash in between is no change behind our back. Lowering does not wait
 * for that: on a full pool the ledger can't always be written, and what is not lowered makes the pool promise more than it has. */
int space_hold(struct fileops_space *space, uint64_t bytes)
{
    if (bytes == space->held)
        return 0;
    fileops_ledger_begin(space->ledger);
    fileops_ledger_set(space->ledger, "held_before", space->held);
    fileops_ledger_set(space->ledger, "held", bytes);
    int error = fileops_ledger_commit(space->ledger);
    if (error && bytes > space->held)
        return error;
    error = space->holder.hold(space->holder.context, bytes);
    if (!error)
        space->held = bytes;
    return error;
}

/* Holds so much more than now: for what is about to be shared. What thin files may take stays as it is. */
int space_hold_more(struct fileops_space *space, uint64_t bytes)
{
    if (!bytes)
        return 0;
    const int error = space_hold(space, add(space->held, bytes));
    if (!error)
        space->needed = add(space->needed, bytes);
    return error;
}

/* Holds what is needed, and some more for what thin files take until the next look. */
int space_follow(struct fileops_space *space)
{
    struct fileops_held figures = {0};
    const uint64_t ended = atomic_load(&space->ended);
    int error;

    if (!space->has_holder)
        return 0;
    const uint64_t expected = space->held;
    error = space_settle(space);
    if (!error)
        error = space_read_needed(space, &figures);
    if (error) {
        tell(space, "zfs did not answer: what is held may be too little");
        return error;
    }
    const bool foreign = figures.held != expected;
    pthread_mutex_lock(&space->state);
    const bool thick = space->thick_count != 0;
    pthread_mutex_unlock(&space->state);
    if (!thick) {
        atomic_store(&space->gate, false);
        /* What others have set is theirs, as long as we promise nothing. */
        if (foreign)
            space->held = 0;
        else if (expected)
            error = space_hold(space, 0);
        space->problem[0] = 0;
        return error;
    }
    if (foreign) {
        space->foreign_changes++;
        space->held = figures.held;
    }
    uint64_t ahead = free_for_all(&figures) / 8;
    ahead = ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
    const uint64_t wanted = add(space->needed, ahead);
    /* A set costs a transaction group: small differences stay. */
    if (space->held < space->needed || space->held < add(space->needed, ahead / 2) || space->held > add(wanted, ahead / 4 + 16 * MIB)) {
        error = space_hold(space, wanted);
        if (error == ENOSPC && space->held < space->needed)
            error = space_hold(space, space->needed);
        else if (error == ENOSPC)
            error = 0;
    }
    if (error || space->held < space->needed) {
        char text[sizeof space->problem];
        snprintf(text, sizeof text, "%" PRIu64 " MiB are needed for promises, %" PRIu64 " are held and no more can be", space->needed / MIB, space->held / MIB);
        tell(space, text);
    } else {
        space->problem[0] = 0;
    }
    atomic_store(&space->limit, add(ended, space->held > space->needed ? space->held - space->needed : 0));
    atomic_store(&space->gate, true);
    return error;
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
    if (!was)
        space->thick_count++;
    file->row.thick = true;
    file->row.promised = size;
    file->row.block_size = row->block_size;
    *row = file->row;
    pthread_mutex_unlock(&space->state);

    struct fileops_held figures;
    int error = space_read_needed(space, &figures);
    const uint64_t held = figures.held;
    if (!error && held != space->held) {
        space->foreign_changes++;
        space->held = held;
    }
    const uint64_t needed = space->needed;
    if (!error && needed > space->held) {
        error = space_hold(space, add(needed, AHEAD_LEAST));
        if (error == ENOSPC)
            error = space_hold(space, needed);
    }
    if (!error) {
        fileops_ledger_begin(space->ledger);
        fileops_ledger_put_file(space->ledger, row);
        error = fileops_ledger_commit(space->ledger);
    }
    if (!error) {
        atomic_store(&space->limit, add(atomic_load(&space->ended), space->held > needed ? space->held - needed : 0));
        atomic_store(&space->gate, true);
        return 0;
    }
    pthread_mutex_lock(&space->state);
    file = space_find(space, row->inode);
    if (file) {
        if (!was)
            space->thick_count--;
        file->row.thick = was;
        file->row.promised = before;
        space_forget_if_nothing(space, file);
    }
    pthread_mutex_unlock(&space->state);
    space_follow(space); /* what was held for it goes back */
    return error;
}

/* Blocks that nobody told us of may be shared with it: all of it counts, as far as the pool knows of sharing. */
static int count_unknown(struct fileops_space *space, const struct fileops_ledger_file *row, const struct stat *status)
{
    struct fileops_held figures;
    struct fileops_reference added[2];
    size_t count = 0;
    int error = space->holder.read(space->holder.context, &figures);
    if (error)
        return error;
    pthread_mutex_lock(&space->state);
    if (figures.shared > fileops_share_map_bytes(space->map) && !fileops_share_map_has(space->map, row->inode) && status->st_size > 0 &&
        status->st_blocks > 0) {
        error = space_find_or_make(space, row) ? 0 : ENOMEM;
        if (!error)
            error = fileops_share_map_clone(space->map, row->inode, 0, FILEOPS_OTHER_DATASET, 0,
                                            space_round_up((uint64_t)status->st_size, row->block_size), NULL, 0, false, added, 2, &count);
    }
    pthread_mutex_unlock(&space->state);
    if (error || !count)
        return error;
    fileops_ledger_begin(space->ledger);
    fileops_ledger_put_file(space->ledger, row);
    for (size_t i = 0; i < count; i++)
        fileops_ledger_put_reference(space->ledger, &added[i]);
    return fileops_ledger_commit(space->ledger);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int reserve(struct fileops_space *space, int file, uint64_t least, uint64_t *reserved)
{
    struct fileops_ledger_file row;
    struct stat status;
    int error = space_identify(space, file, &row, &status);
    if (error)
        return error;
    if (!space->has_holder)
        return EOPNOTSUPP;
    pthread_mutex_lock(&space->order);
    pthread_mutex_lock(&space->state);
    const struct known_file *known = space_find(space, row.inode);
    const bool done = known && space_is_same_file(&row, &known->row) && known->row.thick && known->row.promised >= larger((uint64_t)status.st_size, least);
    pthread_mutex_unlock(&space->state);
    if (!done) {
        error = space_settle(space); /* so that the figures are of one moment */
        if (!error && !fstat(file, &status))
            error = count_unknown(space, &row, &status);
        if (!error)
            error = make_thick(space, &row, larger((uint64_t)status.st_size, least));
    }
    pthread_mutex_unlock(&space->order);
    if (!error && reserved)
        *reserved = (uint64_t)status.st_size;
    return error;
}

int fileops_reserve(struct fileops_space *space, int file, uint64_t *reserved)
{
    return reserve(space, file, 0, reserved);
}

int fileops_reserve_size(struct fileops_space *space, int file, uint64_t size)
{
    return size > INT64_MAX ? EFBIG : reserve(space, file, size, NULL);
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
    if (grows && !space->has_holder)
        error = ENOSPC; /* nothing can be held for it at present */
    else if (grows) {
        struct fileops_ledger_file larger = row;
        error = make_thick(space, &larger, space_round_up(size, 64 * MIB));
        if (error == ENOSPC && size != space_round_up(size, 64 * MIB)) {
            larger = row;
            error = make_thick(space, &larger, size);
        }
    }
    pthread_mutex_unlock(&space->order);
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
            known->row = row;
            space->thick_count--;
            space_forget_if_nothing(space, known);
            pthread_mutex_unlock(&space->state);
            space_follow(space);
        }
    }
    pthread_mutex_unlock(&space->order);
    return error;
}
