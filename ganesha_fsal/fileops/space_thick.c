/* Datasets whose files are thick by default: what they are set to, and the promise of a file that is to be made larger. */
#include "space_internal.h"

#include <errno.h>
#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)
#define STEP (64 * MIB)
#define SETTING "thick_default" /* in the ledger: what was followed last, for when zfs does not answer */

void space_remember_setting(struct fileops_space *space)
{
    atomic_store(&space->thick_default, fileops_ledger_get(space->ledger, SETTING, 0) != 0);
}

int space_follow_setting(struct fileops_space *space)
{
    struct fileops_held figures;
    bool thick = false;
    int error = 0;
    space->setting_read = space_milliseconds();
    if (space->holder.read_thick_default)
        error = space->holder.read_thick_default(space->holder.context, &thick);
    if (error)
        return EAGAIN;
    atomic_store(&space->thick_default, thick);
    if ((fileops_ledger_get(space->ledger, SETTING, 0) != 0) != thick) {
        fileops_ledger_begin(space->ledger);
        fileops_ledger_set(space->ledger, SETTING, thick);
        fileops_ledger_commit(space->ledger); /* on a full pool: the next time */
    }
    /* Where something is promised looks ask whether anything can be. */
    if (!thick || atomic_load(&space->gate))
        return 0;
    if (space->holder.read(space->holder.context, &figures))
        return EAGAIN;
    pthread_mutex_lock(&space->state);
    space->figures.can_promise = figures.can_promise;
    pthread_mutex_unlock(&space->state);
    return 0;
}

int fileops_space_refresh(struct fileops_space *space)
{
    pthread_mutex_lock(&space->order);
    int error = space_ask_holder(space);
    if (!error)
        error = space_follow_setting(space);
    if (!error && atomic_load(&space->gate))
        space_lower(space, true); /* whether promises hold is told by `problem` */
    space_order_end(space);
    return error == EOPNOTSUPP ? 0 : error; /* what can't hold space has no such setting */
}

bool fileops_growth_needs_promise(struct fileops_space *space, uint64_t inode, uint64_t size)
{
    if (!atomic_load_explicit(&space->thick_default, memory_order_relaxed) || size <= FILEOPS_THICK_FROM)
        return false;
    if (!atomic_load_explicit(&space->filter[space_bucket(inode)], memory_order_acquire))
        return true;
    pthread_mutex_lock(&space->state);
    const struct known_file *file = space_find(space, inode);
    /* The number of a file that is gone may be another's by now. */
    const bool thick = file && file->row.thick && (!file->removed || file->open);
    pthread_mutex_unlock(&space->state);
    return !thick; /* what is promised grows by fileops_change_begin() */
}

int fileops_promise_growth(struct fileops_space *space, int file, uint64_t size, bool in_steps)
{
    struct stat status;
    if (size > INT64_MAX)
        return EFBIG;
    if (fstat(file, &status))
        return errno;
    if ((uint64_t)status.st_size >= size)
        return 0;
    int error = space_promise(space, file, in_steps ? space_round_up(size, STEP) : size, SPACE_GROWS);
    /* No room for a step; or the pool was full for the moment in which others' clones sync. */
    if (error == ENOSPC && !space_settle(space))
        error = space_promise(space, file, size, SPACE_GROWS);
    return error == EOPNOTSUPP ? ENOSPC : error;
}

int space_promise_clone(struct fileops_space *space, int file, uint64_t size, bool whole)
{
    if (!space || !atomic_load(&space->thick_default) || size <= FILEOPS_THICK_FROM)
        return 0;
    const int error = space_promise(space, file, size, whole ? SPACE_CLONED : SPACE_RESERVED);
    return error == EOPNOTSUPP ? ENOSPC : error;
}

/* Whether others refer to blocks of a file, or may: emptying it leaves those as they are. With `state` held. */
static bool may_share(struct fileops_space *space, uint64_t inode)
{
    return fileops_share_map_has(space->map, inode) || space->figures.shared > fileops_share_map_bytes(space->map);
}

/* Of what is held then, and of what can be. With `order` held, after a look at the figures. */
static bool is_room(struct fileops_space *space, const struct fileops_ledger_file *row, const struct stat *status, uint64_t size, uint64_t shared)
{
    const struct fileops_space_holder *holder = &space->holder;
    const uint64_t cost = holder->cost(holder->context, size, row->block_size);
    pthread_mutex_lock(&space->state);
    const struct fileops_held figures = space->figures;
    const struct known_file *file = space_find(space, row->inode);
    const bool thick = file && file->row.thick && space_is_same_file(row, &file->row);
    /* Of what is needed now what is not then. */
    const uint64_t own = thick ? file->part.cost : may_share(space, row->inode) ? 0 : (uint64_t)status->st_blocks * 512;
    const bool promises = space->thick_count != 0;
    const uint64_t now = promises ? space->needed : figures.referenced;
    const uint64_t slack = space_slack(space, space->sum_promised + size) - (promises ? space->slack : 0);
    pthread_mutex_unlock(&space->state);
    const uint64_t room = space_free_for_all(&figures), taken = figures.held > figures.own ? figures.held : figures.own;
    /* Beside promises more is held before blocks are shared, of what is free already: what the file has stays held until a look after it
     * was emptied. A thin file has the blocks charged, and they may be shared with promised ones besides. */
    if (promises && (unsigned __int128)shared * (thick ? 1 : 2) > room)
        return false;
    return (unsigned __int128)now + cost + shared + slack <= (unsigned __int128)room + taken + own;
}

int space_check_promise(struct fileops_space *space, int file, uint64_t size, uint64_t shared)
{
    struct fileops_ledger_file row;
    struct stat status;
    if (!atomic_load(&space->thick_default) || size <= FILEOPS_THICK_FROM)
        return 0;
    int error = space_identify(space, file, &row, &status);
    if (error)
        return error;
    pthread_mutex_lock(&space->order);
    error = space_ask_holder(space);
    if (!error && (space_settle_marked(space) || space_measure(space, false)))
        error = EAGAIN;
    if (!error && !space->figures.can_promise)
        error = ENOSPC;
    if (!error) {
        space_compute(space);
        error = is_room(space, &row, &status, size, shared) ? 0 : ENOSPC;
    }
    space_order_end(space);
    return error == EOPNOTSUPP ? ENOSPC : error;
}

bool space_may_promise(struct fileops_space *space, uint64_t size, uint64_t available)
{
    if (!atomic_load(&space->thick_default) || size <= FILEOPS_THICK_FROM)
        return true;
    pthread_mutex_lock(&space->state);
    const bool possible = space->figures.can_promise;
    pthread_mutex_unlock(&space->state);
    return possible && size <= available;
}
