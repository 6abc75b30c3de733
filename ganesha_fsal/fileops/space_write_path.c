/* What is told of every change of a file. For files the books know nothing of: two loads. */
#include "space_internal.h"

#include <errno.h>
#include <sys/statvfs.h>
#include <time.h>

#define RETRY_MILLISECONDS 20000
#define WAIT_ROUNDS 8
#define SECONDS_FOR_CLONES 10
#define MOST_WAITING 16u /* deallocations and truncations, for clones */
/* Looks for who may write no more: so often, and not again so soon after one that found nothing. */
#define MILLISECONDS_BETWEEN_LOOKS 250
#define MILLISECONDS_A_LOOK_HOLDS 1000
#define CHARGE_MILLISECONDS 10000 /* then the client is to ask again */

/* What a thin file may newly take by a change. */
static uint64_t charge_of(const struct fileops_space *space, enum fileops_change_kind kind, uint64_t offset, uint64_t length)
{
    if ((kind != FILEOPS_WRITE && kind != FILEOPS_ALLOCATE) || !length)
        return 0;
    const uint64_t unit = space->block_size, from = offset / unit * unit;
    return space_round_up(offset + length, unit) - from;
}

/* Takes from what thin files may take. False: not so much is left. */
static bool charge(struct fileops_space *space, uint64_t bytes)
{
    const uint64_t before = atomic_fetch_add(&space->charged, bytes);
    const uint64_t limit = atomic_load(&space->limit);
    if (before + bytes <= limit) {
        if (limit - before - bytes < SPACE_LITTLE && space_milliseconds() - atomic_load(&space->looked) > MILLISECONDS_A_LOOK_HOLDS)
            space_wake(space);
        return true;
    }
    atomic_fetch_sub(&space->charged, bytes);
    return false;
}

static int charge_or_look(struct fileops_space *space, uint64_t bytes)
{
    const int64_t begun = space_milliseconds();
    while (!charge(space, bytes)) {
        int64_t wait = 0;
        int error = 0;
        pthread_mutex_lock(&space->order);
        const int64_t since = space_milliseconds() - atomic_load(&space->looked);
        bool done = charge(space, bytes) || !atomic_load(&space->gate);
        if (!done && since < MILLISECONDS_A_LOOK_HOLDS && (space->look_error || (space->no_more && space->left < bytes))) {
            error = space_refusal(space, space->look_error, bytes);
        } else if (!done && since < MILLISECONDS_BETWEEN_LOOKS) {
            wait = MILLISECONDS_BETWEEN_LOOKS - since;
        } else if (!done) {
            /* It may find that nothing of it was taken, or that there is more. */
            space->asked_for = bytes;
            error = space_lower(space, true);
            space->asked_for = 0;
            done = charge(space, bytes) || !atomic_load(&space->gate);
            /* What it let thin files take others may have taken by now: only a pool that has no more is full. */
            const bool full = space->no_more || space->held < space->needed + bytes;
            error = done || (!error && !full) ? 0 : space_refusal(space, error, bytes);
        }
        space_order_end(space);
        if (done || error)
            return error;
        if (space_milliseconds() - begun > CHARGE_MILLISECONDS)
            return EAGAIN;
        nanosleep(&(struct timespec){.tv_nsec = wait * 1000 * 1000}, NULL);
    }
    return 0;
}

/* With too much overwritten that was shared, the pool's own books would promise more than there is, and it would refuse even what
 * gives space back. */
static void wait_for_lowering(struct fileops_space *space)
{
    for (int round = 0; round < WAIT_ROUNDS; round++) {
        pthread_mutex_lock(&space->state);
        const bool wait = space_is_overdrawn(space);
        pthread_mutex_unlock(&space->state);
        if (!wait)
            return;
        pthread_mutex_lock(&space->order);
        pthread_mutex_lock(&space->state);
        const bool still = space_is_overdrawn(space);
        pthread_mutex_unlock(&space->state);
        if (still)
            space_lower(space, true);
        space_order_end(space);
    }
}

static int begin_known(struct fileops_space *space, struct fileops_change *change, bool filler, bool *known)
{
    const uint64_t end = change->offset > UINT64_MAX - change->length ? UINT64_MAX : change->offset + change->length;
    const uint64_t size = change->kind == FILEOPS_TRUNCATE ? change->offset : change->kind == FILEOPS_DEALLOCATE ? 0 : end;
    for (;;) {
        pthread_mutex_lock(&space->state);
        struct known_file *file = space_find(space, change->inode);
        *known = file != NULL;
        if (!file) {
            pthread_mutex_unlock(&space->state);
            return 0;
        }
        if (file->row.unfinished && !filler) { /* what is changed now would be lost, should it be emptied */
            const bool left = !file->filling;
            pthread_mutex_unlock(&space->state);
            if (left)
                space_wake(space);
            return EBUSY;
        }
        change->thick = file->row.thick;
        if (!file->row.thick || size <= file->row.promised) {
            file->changes++;
            space_touch(space, file);
            if (file->row.thick)
                space->written_begun += charge_of(space, change->kind, change->offset, change->length);
            change->known = true;
            change->clonings = file->clonings;
            /* While a clone is under way nobody knows which came first: what it shares stays counted. */
            change->sequence = file->clones ? 0 : fileops_share_map_sequence(space->map);
            const bool wait = space_is_overdrawn(space) && fileops_share_map_has(space->map, change->inode);
            pthread_mutex_unlock(&space->state);
            if (wait)
                wait_for_lowering(space);
            return 0;
        }
        pthread_mutex_unlock(&space->state);
        const int error = space_grow_promise(space, change->inode, size);
        if (error)
            return error;
        space_note_growth(space, change->inode);
    }
}

static bool is_cloned(struct fileops_space *space, uint64_t inode)
{
    const struct known_file *file = space_find(space, inode);
    return file && file->clones;
}

/* Blocks are freed: not while they are being cloned. */
static int begin_freeing(struct fileops_space *space, struct fileops_change *change)
{
    pthread_mutex_lock(&space->state);
    /* Each that waits keeps a thread of the server: others need some too. */
    const bool cloned = is_cloned(space, change->inode), wait = cloned && space->waiting_to_free < MOST_WAITING;
    space->waiting_to_free += wait;
    change->frees = wait ? space_wait_calm(space, is_cloned, change->inode, SECONDS_FOR_CLONES) : !cloned;
    space->waiting_to_free -= wait;
    if (change->frees) {
        change->next_freeing = space->freeing;
        space->freeing = change;
    }
    pthread_mutex_unlock(&space->state);
    return change->frees ? 0 : EBUSY;
}

int fileops_change_begin(struct fileops_space *space, uint64_t inode, enum fileops_change_kind kind, uint64_t offset,
                         uint64_t length, struct fileops_change *change)
{
    return space_change_begin(space, inode, kind, offset, length, false, change);
}

int space_change_begin(struct fileops_space *space, uint64_t inode, enum fileops_change_kind kind, uint64_t offset, uint64_t length,
                       bool filler, struct fileops_change *change)
{
    const bool maybe = atomic_load_explicit(&space->filter[space_bucket(inode)], memory_order_acquire) != 0;
    const bool gate = atomic_load_explicit(&space->gate, memory_order_acquire);
    change->known = change->thick = change->frees = false;
    change->charge = 0;
    change->kind = kind;
    change->length = length;
    const bool frees = kind == FILEOPS_DEALLOCATE || kind == FILEOPS_TRUNCATE;
    if (!maybe && !gate && !frees)
        return 0;
    *change = (struct fileops_change){.inode = inode, .kind = kind, .offset = offset, .length = kind == FILEOPS_TRUNCATE ? 0 : length};
    if (gate)
        change->charge = charge_of(space, kind, offset, length);
    bool known = false;
    int error = maybe ? begin_known(space, change, filler, &known) : 0;
    if (change->thick || !gate)
        change->charge = 0;
    if (!error && change->charge) {
        error = charge_or_look(space, change->charge);
        if (error) {
            change->charge = 0;
            fileops_change_end(space, change, error);
        }
    }
    if (!error && frees) {
        error = begin_freeing(space, change);
        if (error)
            fileops_change_end(space, change, error);
    }
    return error;
}

static void note(struct fileops_space *space, struct known_file *file, const struct fileops_change *change)
{
    /* It was cloned meanwhile: nobody knows which came first. */
    const uint64_t sequence = file->clonings == change->clonings ? change->sequence : 0;
    const uint64_t unit = file->row.block_size ? file->row.block_size : 1, end = change->offset + change->length;
    const uint64_t whole_from = space_round_up(change->offset, unit);
    switch (change->kind) {
    case FILEOPS_WRITE: /* each block that is touched is a new one */
        if (space->overwrites_unshare)
            space_overwritten(space, file, change->offset / unit * unit, space_round_up(end, unit) - change->offset / unit * unit,
                              sequence);
        break;
    case FILEOPS_DEALLOCATE:
        if (end / unit * unit > whole_from)
            space_overwritten(space, file, whole_from, end / unit * unit - whole_from, sequence);
        break;
    case FILEOPS_TRUNCATE:
        space_overwritten(space, file, whole_from, UINT64_MAX - whole_from, sequence);
        file->resized = true;
        break;
    case FILEOPS_ALLOCATE:
        break;
    }
}

void fileops_change_end(struct fileops_space *space, struct fileops_change *change, int error)
{
    if (change->charge)
        atomic_fetch_add(&space->ended, change->charge);
    change->charge = 0;
    if (!change->known && !change->frees)
        return;
    pthread_mutex_lock(&space->state);
    if (change->frees) {
        struct fileops_change **place = &space->freeing;
        while (*place != change)
            place = &(*place)->next_freeing;
        *place = change->next_freeing;
        pthread_cond_broadcast(&space->calm);
    }
    if (change->known && change->thick)
        space->written_over += charge_of(space, change->kind, change->offset, change->length);
    struct known_file *file = change->known ? space_find(space, change->inode) : NULL;
    if (file && file->changes) {
        file->changes--;
        space_touch(space, file);
        if (!error)
            note(space, file, change);
    }
    pthread_mutex_unlock(&space->state);
    change->known = change->frees = false;
}

/* While it syncs, OpenZFS counts what clones take before what they save: a pool with much left is full for that moment. */
static bool has_room(struct fileops_space *space, uint64_t bytes)
{
    struct statvfs file_system;
    if (!atomic_load(&space->has_holder) || space_milliseconds() - atomic_load(&space->found_full) < MILLISECONDS_A_LOOK_HOLDS)
        return false;
    const bool settled = !space_settle(space);
    if (!settled) /* the figures may be of that moment: others are to find out themselves */
        nanosleep(&(struct timespec){.tv_nsec = MILLISECONDS_BETWEEN_LOOKS * 1000 * 1000}, NULL);
    const uint64_t room = !fstatvfs(space->root, &file_system) ? (uint64_t)file_system.f_bavail * file_system.f_frsize : 0;
    if (space_is_plenty(room, bytes))
        return true;
    if (settled)
        atomic_store(&space->found_full, space_milliseconds());
    return false;
}

int fileops_change_retry(struct fileops_space *space, struct fileops_change *change, unsigned attempt)
{
    if (attempt == 0 || !change->first_retry)
        change->first_retry = space_milliseconds();
    if (space_milliseconds() - change->first_retry > RETRY_MILLISECONDS)
        return ENOSPC;
    if (!change->thick)
        return has_room(space, change->kind == FILEOPS_DEALLOCATE ? 0 : change->length) ? 0 : ENOSPC;
    space_settle(space);
    return 0;
}

void fileops_file_removed(struct fileops_space *space, uint64_t inode, bool open)
{
    if (!atomic_load_explicit(&space->filter[space_bucket(inode)], memory_order_acquire))
        return;
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    if (file) {
        space_touch(space, file);
        file->removed = true;
        file->open = open;
    }
    pthread_mutex_unlock(&space->state);
    if (file && !open)
        space_wake(space);
}

void fileops_file_closed(struct fileops_space *space, uint64_t inode)
{
    if (!atomic_load_explicit(&space->filter[space_bucket(inode)], memory_order_acquire))
        return;
    pthread_mutex_lock(&space->state);
    struct known_file *file = space_find(space, inode);
    const bool gone = file && file->removed;
    if (gone) {
        file->open = false;
        space_touch(space, file);
    }
    pthread_mutex_unlock(&space->state);
    if (gone)
        space_wake(space);
}
