/* Sums over promised files, kept as these change: of what is promised, of what that can take, and of what they have already. Each change
 * touches its file, which is looked at when the pool is asked next; the others have what they had. */
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Of files that nobody has touched, for what local programs do to them: so many, and by looks this part of them where that is more. */
#define UNTOUCHED_AT_ONCE 256u
#define LOOKS_FOR_ALL 8u

struct looked_at {
    struct fileops_ledger_file row;
    uint64_t allocated;
    bool seen;     /* what it has */
    bool answered; /* that, or it has no name any more */
};

struct space_looked_at {
    bool all; /* promised files */
    size_t count;
    struct looked_at files[];
};

static void change_sum(unsigned __int128 *sum, uint64_t *part, uint64_t value)
{
    *sum = *sum - *part + value;
    *part = value;
}

static void recount_cost(struct fileops_space *space, struct known_file *file)
{
    change_sum(&space->sum_cost, &file->part.cost, space->holder.cost(space->holder.context, file->row.promised, file->row.block_size));
    change_sum(&space->sum_unseen, &file->part.unseen, file->seen ? 0 : file->part.cost);
}

static void put_last(struct fileops_space *space, struct known_file *file, bool touched)
{
    TAILQ_INSERT_TAIL(touched ? &space->touched : &space->untouched, file, place);
    *(touched ? &space->touched_count : &space->untouched_count) += 1;
    file->touched = touched;
}

static void take_out(struct fileops_space *space, struct known_file *file)
{
    TAILQ_REMOVE(file->touched ? &space->touched : &space->untouched, file, place);
    *(file->touched ? &space->touched_count : &space->untouched_count) -= 1;
}

void space_touch(struct fileops_space *space, struct known_file *file)
{
    if (!file->counted)
        return;
    file->touch = ++space->touches;
    if (file->touched)
        return;
    take_out(space, file);
    put_last(space, file, true);
}

void space_count(struct fileops_space *space, struct known_file *file)
{
    if (file->row.thick && !file->counted) {
        file->part = (struct space_part){0};
        file->seen = false;
        put_last(space, file, true);
    } else if (!file->row.thick && file->counted) {
        take_out(space, file);
        change_sum(&space->sum_promised, &file->part.promised, 0);
        change_sum(&space->sum_cost, &file->part.cost, 0);
        change_sum(&space->sum_allocated, &file->part.allocated, 0);
        change_sum(&space->sum_unseen, &file->part.unseen, 0);
    }
    file->counted = file->row.thick;
    if (file->counted)
        change_sum(&space->sum_promised, &file->part.promised, file->row.promised);
    space_touch(space, file);
}

void space_recount_costs(struct fileops_space *space)
{
    struct known_file *file;
    TAILQ_FOREACH(file, &space->touched, place)
        recount_cost(space, file);
    if (space->costs_known && space->cost_version == space->figures.cost_version)
        return;
    TAILQ_FOREACH(file, &space->untouched, place)
        recount_cost(space, file);
    space->costs_known = true;
    space->cost_version = space->figures.cost_version;
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct space_looked_at *list_files(struct fileops_space *space, bool all_soon)
{
    const size_t part = all_soon ? space->untouched_count / LOOKS_FOR_ALL + 1 : 0;
    const size_t untouched = lesser(space->untouched_count, part > UNTOUCHED_AT_ONCE ? part : UNTOUCHED_AT_ONCE);
    const size_t count = space->touched_count + untouched;
    struct space_looked_at *looked_at = malloc(sizeof *looked_at + count * sizeof looked_at->files[0]);
    struct known_file *file;
    if (!looked_at)
        return NULL;
    looked_at->count = 0;
    looked_at->all = untouched == space->untouched_count;
    TAILQ_FOREACH(file, &space->touched, place)
        looked_at->files[looked_at->count++] = (struct looked_at){.row = file->row};
    TAILQ_FOREACH(file, &space->untouched, place) {
        if (looked_at->count == count)
            break;
        looked_at->files[looked_at->count++] = (struct looked_at){.row = file->row};
    }
    return looked_at;
}

static void look_at(struct fileops_space *space, struct looked_at *one)
{
    struct stat status;
    const int file = space_open_row(space, &one->row, O_RDONLY);
    one->answered = file < 0 && errno == ESTALE;
    if (file >= 0 && !fstat(file, &status)) {
        one->allocated = (uint64_t)status.st_blocks * 512;
        one->answered = one->seen = true;
    }
    if (file >= 0) {
        close(file);
    } else if (one->answered) { /* the next looks find out whether it is gone */
        pthread_mutex_lock(&space->state);
        struct known_file *known = space_find(space, one->row.inode);
        if (known && space_is_same_file(&one->row, &known->row) && !known->removed)
            known->resized = true;
        pthread_mutex_unlock(&space->state);
    }
}

struct space_looked_at *space_look_at_files(struct fileops_space *space, bool all_soon)
{
    pthread_mutex_lock(&space->state);
    struct space_looked_at *looked_at = list_files(space, all_soon);
    pthread_mutex_unlock(&space->state);
    for (size_t i = 0; looked_at && i < looked_at->count; i++)
        look_at(space, &looked_at->files[i]);
    return looked_at;
}

/* Until all that came to it was in the pool when it was looked at, it is looked at again. */
static bool is_settled(const struct fileops_space *space, const struct known_file *file)
{
    return !file->changes && !file->clones && file->touch <= space->mark.touches;
}

void space_looked_at_end(struct fileops_space *space, struct space_looked_at *looked_at, bool counts)
{
    pthread_mutex_lock(&space->state);
    for (size_t i = 0; counts && i < looked_at->count; i++) {
        const struct looked_at *one = &looked_at->files[i];
        struct known_file *file = space_find(space, one->row.inode);
        if (!file || !file->counted || !space_is_same_file(&one->row, &file->row))
            continue;
        change_sum(&space->sum_allocated, &file->part.allocated, one->allocated); /* 0: too much is held, rather than too little */
        file->seen = one->seen;
        recount_cost(space, file);
        const bool again = !one->answered || (file->touched && !is_settled(space, file));
        take_out(space, file);
        put_last(space, file, again);
    }
    if (counts)
        space->seen_all = looked_at->all;
    pthread_mutex_unlock(&space->state);
    free(looked_at);
}
