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
#define LEAST_MORE (2 * MIB)
#define SMALL_BLOCK 4096 /* no block costs more for its size */
#define SLACK_MOST (1024 * MIB)
#define SLACK_SHARE 8 /* so much of the slack may be missing */
#define NO_ANSWER "zfs did not answer: what is held may be too little"
#define MILLISECONDS_BETWEEN_ASKING 5000

static void tell(struct fileops_space *space, const char *text)
{
    snprintf(space->problem, sizeof space->problem, "%s", text);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t clamp(unsigned __int128 value)
{
    return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t space_free_for_all(const struct fileops_held *figures)
{
    return difference(figures->available, figures->unused);
}

int space_settle_marked(struct fileops_space *space)
{
    struct space_mark mark = {.charged = atomic_load(&space->ended)};
    pthread_mutex_lock(&space->state);
    mark.cloned = space->over;
    mark.touches = space->touches;
    mark.written = space->written_over;
    pthread_mutex_unlock(&space->state);
    const int error = space_settle(space);
    if (error)
        tell(space, NO_ANSWER);
    else
        space->mark = mark;
    return error;
}

int space_measure(struct fileops_space *space, bool all_soon)
{
    struct fileops_held figures;
    /* Before the dataset's figure: what comes in between counts as thin too, rather than not at all. */
    struct space_looked_at *looked_at = space_look_at_files(space, all_soon);
    if (!looked_at)
        return ENOMEM;
    const int error = space->holder.read(space->holder.context, &figures);
    space_looked_at_end(space, looked_at, !error);
    if (error) {
        tell(space, NO_ANSWER);
        return error;
    }
    pthread_mutex_lock(&space->state);
    space->figures = figures;
    space->figures_over = space->mark.cloned;
    space->figures_time = space_milliseconds();
    space->figures_wanted = space->figures_old = false;
    space->overwrites_unshare = figures.overwrites_unshare;
    /* Whatever is free just now: others may take that before the next look. */
    space->overdraft = figures.overdraft;
    pthread_mutex_unlock(&space->state);
    return 0;
}

bool space_is_overdrawn(struct fileops_space *space)
{
    if (space->overdraft == UINT64_MAX || !space->unshared_bytes)
        return false;
    const unsigned sharers = space->holder.sharers ? space->holder.sharers(space->holder.context) : 1;
    return space->unshared_bytes > space->overdraft / (sharers ? sharers : 1);
}

uint64_t space_slack(const struct fileops_space *space, unsigned __int128 promised)
{
    const uint64_t least = space->holder.slack, most = least > SLACK_MOST ? least : SLACK_MOST, part = clamp(promised) / 64;
    return part < least ? least : part > most ? most : part;
}

/* What thick files, what they share, and thin files as they are now need, with slack. */
void space_compute(struct fileops_space *space)
{
    pthread_mutex_lock(&space->state);
    space_recount_costs(space);
    /* No more can be shared than the pool knows of, but for what it could not know when it was asked. */
    const uint64_t known = add(space->figures.shared, space->begun.shared - space->mark.cloned.shared);
    const uint64_t map = fileops_share_map_needed(space->map), shared = map < known ? map : known;
    const uint64_t taken = space->begun.taken - space->mark.cloned.taken;
    const uint64_t thin = add(difference(space->figures.referenced, clamp(space->sum_allocated)), taken);
    const uint64_t written = space->written_begun - space->mark.written;
    space->slack = space_slack(space, space->sum_promised);
    space->needed = space->thick_count ? add(add(add(clamp(space->sum_cost), thin), shared), space->slack) : 0;
    space->uncertain = add(add(taken, space->begun.shared - space->mark.cloned.shared), clamp(space->sum_unseen));
    if (written) /* with copies, metadata and parity, as the pool's figures have it */
        space->uncertain = add(space->uncertain, space->holder.cost(space->holder.context, written, SMALL_BLOCK));
    pthread_mutex_unlock(&space->state);
}

/* Sets what is held. The ledger knows of it first, so that a crash in between is no change behind our back. Lowering does not wait
 * for that: on a full pool the ledger can't always be written, and what is not lowered makes the pool promise more than it has. */
static int hold(struct fileops_space *space, uint64_t bytes)
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
    if (error == ENOSPC && bytes < space->held)
        error = space_hold_lifted(space, bytes);
    if (!error) {
        space->held = bytes;
        pthread_mutex_lock(&space->state);
        space->figures.held = bytes;
        pthread_mutex_unlock(&space->state);
    }
    return error;
}

/* Holds so much more than now: for what is about to be shared. What thin files may take stays as it is. */
int space_hold_more(struct fileops_space *space, uint64_t bytes)
{
    if (!bytes)
        return 0;
    const int error = hold(space, add(space->held, bytes));
    if (!error)
        space->needed = add(space->needed, bytes);
    return error;
}

/* From the mark on thin files may take so much. With `order` held. `no_more`: the pool, or the ledger, refused more. */
static void let_take(struct fileops_space *space, uint64_t bytes, bool no_more)
{
    const uint64_t limit = add(space->mark.charged, bytes);
    space->left = difference(limit, atomic_load(&space->charged));
    space->no_more = no_more;
    atomic_store(&space->limit, limit);
}

/* The pool has promised more than it has, which thin files do that overwrite what they share: ZFS counts no more for them than before, and
 * less for the pool. It comes out of what is held for them. False: nothing of that is left. */
static bool give_back(struct fileops_space *space, int *error)
{
    const uint64_t overcommitted = space->figures.overcommitted, before = space->held;
    if (!overcommitted)
        return false;
    /* None is let in until it is known what they have taken. */
    const uint64_t limit = atomic_exchange(&space->limit, 0);
    const uint64_t least = add(space->needed, difference(atomic_load(&space->charged), space->mark.charged));
    const uint64_t right = difference(space->held, overcommitted), wanted = right > least ? right : least;
    if (wanted >= space->held) {
        atomic_store(&space->limit, limit);
        return false;
    }
    *error = hold(space, wanted);
    pthread_mutex_lock(&space->state);
    space->figures.overcommitted = *error ? overcommitted : difference(overcommitted, before - wanted);
    pthread_mutex_unlock(&space->state);
    let_take(space, *error ? 0 : difference(space->held, space->needed), true);
    return true;
}

int space_hold_needed(struct fileops_space *space, uint64_t ahead)
{
    const uint64_t under_way = difference(atomic_load(&space->charged), space->mark.charged), asked = add(under_way, space->asked_for);
    const uint64_t let = difference(atomic_load(&space->limit), space->mark.charged), wanted = add(space->needed, ahead);
    bool refused = false;
    int error = 0;
    if (give_back(space, &error))
        return error;
    /* A set costs a transaction group: small differences stay. Not so where nothing is free: there, what is held beyond need is more
     * than the pool has once what was shared is overwritten, and soon the pool refuses to lower it too (`overdraft`). */
    const uint64_t room = space_free_for_all(&space->figures), most = ahead / 4 + 16 * MIB, more = room < most ? room : most;
    const bool small = space->held >= add(space->needed, ahead / 2) && space->held <= add(wanted, more < LEAST_MORE ? LEAST_MORE : more);
    if (!small || space->held < add(space->needed, let) || (space->asked_for && space->held < add(space->needed, asked))) {
        error = ahead >= let ? hold(space, wanted) : ENOSPC;
        refused = ahead >= let && error == ENOSPC;
    }
    if (error == ENOSPC) {
        /* Thin files may take less from now on. None is let in until it is known what they have taken. */
        atomic_store(&space->limit, 0);
        const uint64_t least = add(space->needed, difference(atomic_load(&space->charged), space->mark.charged));
        error = least > wanted ? ENOSPC : hold(space, wanted);
        refused = least <= wanted && error == ENOSPC;
        if (error == ENOSPC)
            error = space->held < least || space->held > wanted ? hold(space, least) : 0;
    }
    let_take(space, difference(space->held, space->needed), refused || error == ENOSPC);
    return error;
}

/* Nothing is promised: nothing is held by us. */
static int let_go(struct fileops_space *space, bool foreign)
{
    int error = 0;
    atomic_store(&space->gate, false);
    space->no_more = false;
    space->contradicted = space->short_of = (struct space_run){0};
    /* What others have set is theirs, as long as we promise nothing. */
    if (foreign)
        space->held = 0;
    else if (space->held)
        error = hold(space, 0);
    space->problem[0] = 0;
    return error;
}

/* Whether more of what is needed is not held than slack is for: a pool with nothing left takes indirect blocks of what is overwritten out of it.
 * `refused`: nor was room found for what thin files may have taken since the mark. */
static bool is_short(struct fileops_space *space, bool refused)
{
    const uint64_t taken = refused ? difference(atomic_load(&space->charged), space->mark.charged) : 0;
    return difference(add(space->needed, taken), space->held) > space->slack / SLACK_SHARE;
}

int space_follow(struct fileops_space *space)
{
    const bool foreign = space->figures.held != space->held;
    int error;
    space_compute(space);
    pthread_mutex_lock(&space->state);
    const bool thick = space->thick_count != 0;
    pthread_mutex_unlock(&space->state);
    if (!thick)
        return let_go(space, foreign);
    if (foreign) {
        space->foreign_changes++;
        space->held = space->figures.held;
    }
    uint64_t ahead = space_free_for_all(&space->figures) / 8;
    ahead = ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
    /* Of what is free what one writer wants at once beside those who write meanwhile, with what looks hold for all. */
    const uint64_t asked = add(space->asked_for, difference(atomic_load(&space->charged), space->mark.charged));
    if (!space_is_plenty(space_free_for_all(&space->figures), asked))
        space->asked_for = 0;
    else if (space->asked_for && ahead < add(asked, AHEAD_LEAST))
        ahead = add(asked, AHEAD_LEAST);
    error = space_hold_needed(space, ahead);
    if ((error && error != ENOSPC) || is_short(space, error != 0)) {
        char text[sizeof space->problem];
        snprintf(text, sizeof text, "%" PRIu64 " MiB are needed for promises, %" PRIu64 " are held and no more can be", space->needed / MIB,
                 space->held / MIB);
        tell(space, text);
    } else if (!space->figures.can_promise) {
        tell(space, "deduplication is on: what it shares is in no ledger, promises may not hold");
    } else {
        space->problem[0] = 0;
    }
    atomic_store(&space->gate, true);
    return error;
}

int space_ask_holder(struct fileops_space *space)
{
    struct fileops_space_holder holder;
    if (atomic_load(&space->has_holder))
        return 0;
    if (!space->find_holder)
        return EOPNOTSUPP;
    if (space->asked && space_milliseconds() - space->asked < MILLISECONDS_BETWEEN_ASKING)
        return EAGAIN;
    int error = space->find_holder(space->path, &holder);
    if (error == EOPNOTSUPP) {
        space->find_holder = NULL;
        pthread_mutex_lock(&space->state);
        space->overwrites_unshare = true;
        pthread_mutex_unlock(&space->state);
        return error;
    }
    if (!error) {
        space->holder = holder;
        error = space_follow_setting(space);
        if (!error)
            error = space_measure(space, false); /* last: from then on writers ask the holder */
        if (error && holder.close)
            holder.close(holder.context);
    }
    space->asked = space_milliseconds();
    pthread_mutex_lock(&space->state);
    const bool thick = space->thick_count != 0;
    pthread_mutex_unlock(&space->state);
    if (error) {
        tell(space, "zfs does not answer: nothing can be promised, and thin files may take nothing that may be promised");
        atomic_store(&space->gate, thick);
        return EAGAIN;
    }
    /* What somebody else has set is not ours to take away; a crash between ledger and holder is no change behind our back. */
    if (space->figures.held == fileops_ledger_get(space->ledger, "held_before", 0))
        space->held = space->figures.held;
    atomic_store(&space->has_holder, true);
    space->problem[0] = 0;
    return 0;
}
