/* What follows changes: lowering the books once overwrites are in the pool. */
#include "clone_internal.h"
#include "space_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANGES_AT_ONCE 256
#define MILLISECONDS_AHEAD 30000    /* a promise stays larger than its file after that grew */
#define MILLISECONDS_A_SETTING 30000 /* until it is asked again how the dataset is set */
#define MOST_TURNS 8 /* transaction groups that a clone waits for others that are under way */

/* What is in the pool once a wait that begins now has ended. */
struct before_the_wait {
    struct timespec begun; /* by the clock of files' times */
    uint64_t cloned;
};

static struct before_the_wait note_before(struct fileops_space *space)
{
    struct before_the_wait before;
    clock_gettime(CLOCK_REALTIME_COARSE, &before.begun);
    pthread_mutex_lock(&space->state);
    before.cloned = space->cloned_over;
    pthread_mutex_unlock(&space->state);
    return before;
}

static bool is_later(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec > other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec > other->tv_nsec);
}

/* Two waits may go on at once, and end in any order. */
static void note_after(struct fileops_space *space, const struct before_the_wait *before)
{
    pthread_mutex_lock(&space->state);
    if (before->cloned > space->cloned_settled)
        space->cloned_settled = before->cloned;
    if (is_later(&before->begun, &space->settled_from))
        space->settled_from = before->begun;
    pthread_mutex_unlock(&space->state);
}

int space_settle(struct fileops_space *space)
{
    int error = 0;
    pthread_mutex_lock(&space->settling);
    /* One that begins from now on will do; all who wait share it. */
    const uint64_t wanted = space->settle_begun + 1;
    while (space->settle_done < wanted && !error) {
        if (space->settle_busy) {
            pthread_cond_wait(&space->settled, &space->settling);
            continue;
        }
        space->settle_busy = true;
        const uint64_t number = ++space->settle_begun;
        pthread_mutex_unlock(&space->settling);
        const struct before_the_wait before = note_before(space);
        if (atomic_load(&space->has_holder))
            error = space->holder.settle(space->holder.context);
        else if (space->find_holder) /* on ZFS, syncfs(2) does not end a transaction group */
            error = EAGAIN;
        else
            error = syncfs(space->root) ? errno : 0;
        if (!error)
            note_after(space, &before);
        pthread_mutex_lock(&space->settling);
        space->settle_busy = false;
        if (!error)
            space->settle_done = number;
        pthread_cond_broadcast(&space->settled);
    }
    pthread_mutex_unlock(&space->settling);
    return error;
}

bool space_settled_since(struct fileops_space *space, const struct timespec *change)
{
    pthread_mutex_lock(&space->state);
    const struct timespec from = space->settled_from;
    pthread_mutex_unlock(&space->state);
    return is_later(&from, change);
}

/* The same without a program, which takes longer to start than the pool to sync: asking for a hole of a file that was just written waits
 * until that is in the pool (dmu_offset_next). On a pool that hangs so does this: not for who holds `order`. */
static int settle_by_kernel(struct fileops_space *space)
{
    const struct before_the_wait before = note_before(space);
    if (!atomic_load(&space->has_holder) || !clone_kernel_settles() || pwrite(space->lock, "", 1, 0) != 1 || lseek(space->lock, 0, SEEK_HOLE) < 0)
        return space_settle(space);
    note_after(space, &before);
    return 0;
}

static bool is_turn(struct fileops_space *space, uint64_t bytes, uint64_t available)
{
    pthread_mutex_lock(&space->state);
    const uint64_t unsettled = space->cloned_begun - space->cloned_settled;
    const bool turn = !unsettled || unsettled + bytes <= available / 2;
    if (turn)
        space->cloned_begun += bytes;
    pthread_mutex_unlock(&space->state);
    return turn;
}

void space_turn_begin(struct fileops_space *space, uint64_t bytes, uint64_t available)
{
    bool turn = is_turn(space, bytes, available);
    for (int round = 0; !turn && round < MOST_TURNS; round++) {
        /* One wait is shared by all: who gets here next asks first. */
        pthread_mutex_lock(&space->turning);
        turn = is_turn(space, bytes, available);
        const int error = turn ? 0 : settle_by_kernel(space);
        pthread_mutex_unlock(&space->turning);
        if (error)
            break;
        turn = turn || is_turn(space, bytes, available);
    }
    if (turn)
        return;
    pthread_mutex_lock(&space->state);
    space->cloned_begun += bytes;
    pthread_mutex_unlock(&space->state);
}

void space_turn_end(struct fileops_space *space, uint64_t bytes)
{
    pthread_mutex_lock(&space->state);
    space->cloned_over += bytes;
    pthread_mutex_unlock(&space->state);
}

void space_wake(struct fileops_space *space)
{
    pthread_mutex_lock(&space->thread_state);
    space->wake = true;
    pthread_cond_signal(&space->thread_wake);
    pthread_mutex_unlock(&space->thread_state);
}

/* One thing that will be stable after the next transaction group. */
struct work {
    uint64_t inode;
    bool gone;
    bool resized;
    struct fileops_overwritten *ranges;
    size_t count;
};

struct work_list {
    struct work *work;
    size_t count, room;
    uint64_t bytes;
    bool failed;
};

/* A thick file whose size is nobody's to change at this moment: one that a clone comes into was emptied, and is to be larger. */
static bool is_settled_thick(const struct known_file *file)
{
    return file->row.thick && !file->changes && !file->clones && !file->row.unfinished;
}

static void collect(void *context, struct known_file *file)
{
    struct work_list *list = context;
    if (file->grown && space_milliseconds() - file->grown > MILLISECONDS_AHEAD && is_settled_thick(file)) {
        file->grown = 0;
        file->resized = true;
    }
    const bool gone = file->removed && !file->open && !file->clones && !file->changes;
    const bool resized = file->resized && is_settled_thick(file);
    if (!gone && !resized && !file->overwritten_count)
        return;
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 32;
        struct work *larger = realloc(list->work, list->room * sizeof *larger);
        if (!larger) {
            list->failed = true;
            return;
        }
        list->work = larger;
    }
    struct work *work = &list->work[list->count++];
    *work = (struct work){.inode = file->row.inode, .gone = gone, .resized = resized};
    if (file->overwritten_count) {
        work->ranges = malloc(file->overwritten_count * sizeof *work->ranges);
        if (!work->ranges) {
            list->failed = true;
            return;
        }
        memcpy(work->ranges, file->overwritten, file->overwritten_count * sizeof *work->ranges);
        work->count = file->overwritten_count;
    }
}

/* A reference that is no longer, or is shorter, goes to the ledger. */
static void write_reference(void *context, const struct fileops_reference *before, const struct fileops_reference *left, size_t count)
{
    struct fileops_space *space = context;
    if (!count)
        fileops_ledger_remove_reference(space->ledger, before->id);
    for (size_t i = 0; i < count; i++)
        fileops_ledger_put_reference(space->ledger, &left[i]);
}

static int by_all(const void *one, const void *other)
{
    const struct fileops_overwritten *a = one, *b = other;
    if (a->offset != b->offset)
        return a->offset > b->offset ? 1 : -1;
    if (a->length != b->length)
        return a->length > b->length ? 1 : -1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

/* The ranges that were settled leave the list; those that came since stay. */
static void drop_settled(struct known_file *file, const struct work *work)
{
    size_t kept = 0;
    if (work->count)
        qsort(work->ranges, work->count, sizeof *work->ranges, by_all);
    for (size_t i = 0; i < file->overwritten_count; i++)
        if (!bsearch(&file->overwritten[i], work->ranges, work->count, sizeof *work->ranges, by_all))
            file->overwritten[kept++] = file->overwritten[i];
    file->overwritten_count = kept;
}

static void apply(struct fileops_space *space, const struct work *work, bool ranges_hold)
{
    struct known_file *file = space_find(space, work->inode);
    if (!file)
        return;
    for (size_t i = 0; i < work->count && ranges_hold; i++) {
        if (i % RANGES_AT_ONCE == RANGES_AT_ONCE - 1) { /* writers wait no longer than for so many */
            pthread_mutex_unlock(&space->state);
            sched_yield();
            pthread_mutex_lock(&space->state);
        }
        fileops_share_map_remove(space->map, work->inode, work->ranges[i].offset, work->ranges[i].length, work->ranges[i].sequence,
                                 MOST_REFERENCES, write_reference, space);
    }
    drop_settled(file, work);
    bool gone = work->gone && file->removed && !file->clones && !file->changes;
    if (!gone && work->resized && file->resized && is_settled_thick(file)) {
        struct stat status;
        const int open = space_open_row(space, &file->row, O_RDONLY);
        /* It was removed on the server, or whoever did that is about to tell: then he has by the next look. */
        const bool missing = open < 0 && errno == ESTALE && !file->removed && !file->filling;
        gone = missing && file->missing;
        file->resized = file->missing = missing;
        if (open >= 0 && !fstat(open, &status) && (uint64_t)status.st_size < file->row.promised) {
            file->row.promised = (uint64_t)status.st_size;
            space_count(space, file);
            fileops_ledger_put_file(space->ledger, &file->row);
        }
        if (open >= 0)
            close(open);
    }
    if (gone) {
        fileops_share_map_remove(space->map, work->inode, 0, UINT64_MAX, UINT64_MAX, SIZE_MAX, write_reference, space);
        fileops_ledger_remove_file(space->ledger, work->inode);
        space_forget(space, file);
    }
}

static void forget_idle(struct fileops_space *space, uint64_t inode)
{
    struct known_file *file = space_find(space, inode);
    if (!file)
        return;
    const bool had_row = !file->row.thick && !file->row.unfinished;
    space_forget_if_nothing(space, file);
    if (had_row && !space_find(space, inode))
        fileops_ledger_remove_file(space->ledger, inode);
}

static void lower(struct fileops_space *space, const struct work_list *list, bool ranges_hold, uint64_t unshared)
{
    for (size_t i = 0; i < list->count; i++) {
        /* With `state` held: a reference that goes must not be written down again. Writers wait for one file at a time. */
        pthread_mutex_lock(&space->state);
        apply(space, &list->work[i], ranges_hold);
        forget_idle(space, list->work[i].inode);
        pthread_mutex_unlock(&space->state);
    }
    pthread_mutex_lock(&space->state);
    space->unshared_bytes -= unshared < space->unshared_bytes ? unshared : space->unshared_bytes;
    pthread_mutex_unlock(&space->state);
}

/* The first `count` of what other datasets' files have let go of. */
static void lower_others(struct fileops_space *space, size_t count)
{
    if (!count)
        return;
    pthread_mutex_lock(&space->state);
    for (size_t i = 0; i < count; i++)
        fileops_share_map_let_go(space->map, FILEOPS_OTHER_DATASET, space->let_go[i].after, space->let_go[i].last, write_reference, space);
    space->let_go_count -= count;
    memmove(space->let_go, space->let_go + count, space->let_go_count * sizeof *space->let_go);
    pthread_mutex_unlock(&space->state);
}

int space_lower(struct fileops_space *space, bool settle_always)
{
    struct work_list list = {0};
    if (fileops_ledger_error(space->ledger)) /* is there room again? */
        space_mark_open(space);
    int error = space_ask_holder(space);
    const bool holds = !error, never = error == EOPNOTSUPP;

    pthread_mutex_lock(&space->state);
    space_each(space, collect, &list);
    const uint64_t unshared = space->unshared_bytes;
    const size_t others = space->let_go_count;
    const bool unshare_before = space->overwrites_unshare, wanted = space->figures_wanted;
    pthread_mutex_unlock(&space->state);
    /* Should it not answer: what was followed stays. */
    if (holds && space_milliseconds() - space->setting_read > MILLISECONDS_A_SETTING)
        space_follow_setting(space);
    const bool look = holds && (list.count || others || settle_always || wanted || atomic_load(&space->gate));
    error = list.failed ? ENOMEM : never ? 0 : error;
    bool measured = false;
    if (!error && look) {
        error = space_settle_marked(space);
        if (!error)
            error = space_measure(space, true);
        measured = !error;
    } else if (!error && (list.count || others)) {
        error = space_settle(space);
    }
    if (!error && (list.count || others)) {
        fileops_ledger_begin(space->ledger);
        /* Set to another checksum meanwhile: nobody knows which overwrites changed nothing. They stay counted. */
        lower(space, &list, !unshare_before || space->overwrites_unshare, unshared);
        lower_others(space, others);
        /* Should that fail, the ledger has more than there is. */
        error = fileops_ledger_commit(space->ledger);
    }
    for (size_t i = 0; i < list.count; i++)
        free(list.work[i].ranges);
    free(list.work);
    if (measured) {
        const int held_error = space_follow(space);
        space_note_refusal(space, atomic_load(&space->gate) && (held_error == ENOSPC || (!held_error && space->no_more)));
        error = error ? error : held_error;
    } else { /* what it would have found nobody knows, so that others before it say nothing */
        space_note_refusal(space, false);
    }
    space->look_error = error;
    atomic_store(&space->looked, space_milliseconds());
    pthread_mutex_lock(&space->state);
    pthread_cond_broadcast(&space->calm); /* some wait for its figures */
    pthread_mutex_unlock(&space->state);
    return error;
}

static bool is_same(const struct space_cloned *one, const struct space_cloned *other)
{
    return one->taken == other->taken && one->shared == other->shared;
}

int fileops_space_maintain(struct fileops_space *space)
{
    return space_maintain(space, true);
}

int space_maintain(struct fileops_space *space, bool figures_at_once)
{
    pthread_mutex_lock(&space->state);
    if (space->figures_old && (figures_at_once || is_same(&space->begun, &space->begun_at_pass)))
        space->figures_wanted = true;
    space->begun_at_pass = space->begun;
    pthread_mutex_unlock(&space->state);
    space_empty_unfinished(space);
    pthread_mutex_lock(&space->order);
    const int error = space_lower(space, false);
    fileops_ledger_shrink(space->ledger);
    space_order_end(space);
    return error;
}
