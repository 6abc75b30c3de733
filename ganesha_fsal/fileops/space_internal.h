/* The books from inside: what the files space*.c, clone*.c and statistics.c share. */
#ifndef FILEOPS_SPACE_INTERNAL_H
#define FILEOPS_SPACE_INTERNAL_H

#include "ledger.h"
#include "share_map.h"
#include "space.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/stat.h>

#define FILTER_SIZE 65536u        /* places of the filter before the table of known files */
#define MOST_REFERENCES 4096u     /* of one file: beyond that they are no longer split */
#define MOST_LET_GO 4096u          /* clones across datasets to be lowered; beyond that they stay counted */
#define MOST_OVERWRITTEN 4096u    /* ranges of one file to be lowered; beyond that they stay counted */
#define SPACE_LITTLE (UINT64_C(64) << 20) /* no more than that is left: the pool is full, or soon is */

/* What clones take as new and as shared, counted up. */
struct space_cloned {
    uint64_t taken;  /* charged to files that are not thick, before it counts as saved */
    uint64_t shared; /* more shared than before, by the map */
};

/* What is in the pool's figures for certain: what had ended when the last wait for the pool began. */
struct space_mark {
    uint64_t charged; /* as `ended` of thin files' changes */
    struct space_cloned cloned;
    uint64_t touches, written; /* as `touches`, and `written_over` of promised files */
};

/* What a promised file adds to the sums over all of them, in bytes. */
struct space_part {
    uint64_t promised, cost;
    uint64_t allocated; /* blocks that it has already, when it was looked at last */
    uint64_t unseen;    /* its cost, where nobody could see what it has: it counts as having nothing */
};

/* Looks in a row that found something. */
struct space_run {
    int64_t since; /* when the first of them ended, in milliseconds */
    unsigned looks;
};

/* A file that the books know something of. */
struct known_file {
    struct fileops_ledger_file row;
    unsigned clones;    /* under way, from or to it */
    unsigned changes;   /* begun and not ended */
    unsigned clonings;  /* clones that began from it */
    bool resized;       /* made smaller, or missing: the promise follows */
    bool missing;       /* the last look that wanted to know its size did not find it */
    int64_t grown;      /* when the promise was made larger for what is to grow, in milliseconds; 0: the file was looked at since */
    bool filling;       /* a clone comes into it, or it is being emptied after one */
    bool removed, open; /* no name left; still open by us */
    struct fileops_overwritten *overwritten;
    size_t overwritten_count, overwritten_room;
    struct known_file *next;

    /* Of a promised file: its part of the sums over all of them, and its place among those to be looked at (space_sums.c). */
    bool counted;
    bool seen;      /* the last look at it told what it has */
    bool touched;   /* its blocks, its promise or its block size may be others than when it was looked at */
    uint64_t touch; /* number of the last of these changes */
    struct space_part part;
    TAILQ_ENTRY(known_file) place;
};
TAILQ_HEAD(space_files, known_file);

/* Sequence numbers beyond `after`, up to `last`. */
struct space_let_go {
    uint64_t after, last;
};

struct fileops_space {
    int root, folder, lock; /* file descriptors */
    char *path; /* of the root */
    struct fileops_space_holder holder; /* once `has_holder` */
    atomic_bool has_holder;
    struct fileops_ledger *ledger;

    /* What takes long (disk, zfs) is done one after the other. Taken before `state`; let go of by space_order_end(). */
    pthread_mutex_t order;
    /* What follows, but the atomics; never held over a system call that waits. */
    pthread_mutex_t state;
    struct fileops_share_map *map;
    struct known_file **known; /* FILTER_SIZE buckets */
    size_t thick_count;
    /* Promised files: those that may have changed since they were looked at, and the others, who waited longest first. */
    struct space_files touched, untouched;
    size_t touched_count, untouched_count;
    uint64_t touches; /* changes of them, counted up as they begin and end */
    unsigned __int128 sum_promised, sum_cost, sum_allocated, sum_unseen;
    bool costs_known;      /* `sum_cost` is of this holder, */
    uint64_t cost_version; /* by what its cost() was then */
    uint64_t written_begun, written_over; /* to promised files, counted up */
    uint64_t unshared_bytes; /* overwritten since the books were last lowered */
    uint64_t overdraft;      /* how many there may be in the pool before writers wait for that; UINT64_MAX: any number */
    /* Bytes of calls that share, counted up: of all that began, of those that ended, and of those whose transaction group ended too. */
    uint64_t cloned_begun, cloned_over, cloned_settled;
    struct timespec settled_from; /* when the last wait for the pool that succeeded began, by the clock of files' times */
    unsigned waiting_for_a_look;
    struct space_let_go *let_go; /* shared with other datasets' files that are gone; added with `state`, taken out with `order` held too */
    size_t let_go_count, let_go_room;
    struct fileops_change *freeing; /* deallocations and truncations under way */
    unsigned waiting_to_free; /* those that wait for a clone first */
    pthread_cond_t calm;     /* of `state`: one of them ended, or a clone, or a look */
    bool exact;              /* no crash has cost us the knowledge of overwrites */
    struct space_cloned begun, over; /* clones since the books were opened: all, and those that ended */
    bool overwrites_unshare; /* as the dataset is set */
    struct fileops_held figures; /* of the last look; changed with `order` held too */
    struct space_cloned figures_over; /* clones that had ended before that */
    int64_t figures_time;    /* when that was, in milliseconds; 0: never */
    bool figures_wanted;     /* somebody asked for newer ones */
    bool figures_old;        /* clones ended since */
    struct space_cloned begun_at_pass; /* as `begun` when the thread of the books came by last */
    struct fileops_space_status published; /* as it was when `order` was let go of last: who asks waits for no program */

    /* Guarded by `order`. */
    uint64_t held, needed;
    uint64_t slack;     /* what of `needed` is for no file */
    uint64_t uncertain; /* what of `needed` may be counted twice: it came after `mark`, or is of files that could not be seen */
    bool seen_all;      /* the last look at files left none out */
    struct space_mark mark;
    int (*find_holder)(const char *root, struct fileops_space_holder *holder); /* NULL: nothing can ever hold space here */
    int64_t setting_read; /* when it was asked how the dataset is set, in milliseconds */
    int64_t asked; /* when it was called last, in milliseconds; 0: never */
    uint64_t left; /* what thin files could still take when they were let take more or less last */
    bool no_more;  /* then the pool had no more for them */
    uint64_t asked_for; /* what the thin file's change wants that the look is for */
    struct space_run contradicted; /* no more could be held, though the figures had much free, */
    struct space_run short_of;     /* and less of that than promises still need */
    int look_error; /* of the last look */
    uint64_t foreign_changes;
    char problem[160];

    /* How many files of each bucket are known: 0 means that a writer need not ask. */
    atomic_ushort *filter;
    /* What thin files may take while there are thick ones: `charged` may rise up to `limit`. */
    atomic_bool gate;
    atomic_bool thick_default; /* files that grow are promised: as the dataset is set, or was when zfs answered last */
    atomic_uint_least64_t charged, ended, limit;
    uint64_t block_size; /* what a small write may newly take */
    atomic_int_least64_t looked; /* when the last look ended, in milliseconds of the monotonic clock */
    atomic_int_least64_t found_full; /* when there was no room for a thin file's change that was refused, by the same clock */

    /* Waits for the pool, shared by all who wait. */
    pthread_mutex_t settling;
    pthread_cond_t settled;
    uint64_t settle_begun, settle_done;
    bool settle_busy;
    pthread_mutex_t turning; /* one clone at a time waits for its turn. Taken before `settling` and `state`, never with `order` held */

    pthread_t thread;
    bool has_thread, stop, wake;
    pthread_mutex_t thread_state;
    pthread_cond_t thread_wake;
};

/* space.c: lets go of `order`, and tells what there is now to who asks for the status */
void space_order_end(struct fileops_space *space);
/* The ledger says that the books are open, so that it was a crash when it still does at the next opening */
int space_mark_open(struct fileops_space *space);

/* space_files.c */
size_t space_bucket(uint64_t inode);
struct known_file *space_find(struct fileops_space *space, uint64_t inode); /* with `state` held, as all of these */
struct known_file *space_find_or_make(struct fileops_space *space, const struct fileops_ledger_file *row);
/* Its space is promised, or no longer: in its row, among all, and in the map. ENOMEM: it is not. */
int space_set_thick(struct fileops_space *space, struct known_file *file, bool thick);
void space_forget(struct fileops_space *space, struct known_file *file);
void space_forget_if_nothing(struct fileops_space *space, struct known_file *file);
/* A sequence number of 0: nobody knows what it came before; it stays counted. */
void space_overwritten(struct fileops_space *space, struct known_file *file, uint64_t offset, uint64_t length, uint64_t sequence);
/* Not another one with a used inode number. */
bool space_is_same_file(const struct fileops_ledger_file *one, const struct fileops_ledger_file *other);
/* Inode number, handle and block size of an open file. EISDIR: no regular file. ESTALE: of another file system. */
int space_identify(struct fileops_space *space, int file, struct fileops_ledger_file *row, struct stat *status);
/* Opens a file of the books; -1 with errno ESTALE when it is gone. */
int space_open_row(struct fileops_space *space, const struct fileops_ledger_file *row, int flags);
/* Calls for each known file; `visit` must not forget any. */
void space_each(struct fileops_space *space, void (*visit)(void *context, struct known_file *file), void *context);

/* space_sums.c: sums over promised files, kept as these change. With `state` held. */
void space_count(struct fileops_space *space, struct known_file *file); /* after each change of its row */
/* Its blocks may change from now on, or have changed; nothing for a file that is not promised. */
void space_touch(struct fileops_space *space, struct known_file *file);
void space_recount_costs(struct fileops_space *space); /* with `order` held too */
/* What promised files have, seen before the pool's figures are read. With `order` held, and `state` not, as what follows. */
struct space_looked_at;
/* Looks at files that changed, and at some of the others: nobody tells of local programs. `all_soon`: some looks find all; else it is for a
 * promise. NULL: no memory. */
struct space_looked_at *space_look_at_files(struct fileops_space *space, bool all_soon);
/* Frees it. `counts`: the figures were read, so that the sums may have what was seen. */
void space_looked_at_end(struct fileops_space *space, struct space_looked_at *looked_at, bool counts);

/* space_refusal.c */
bool space_is_plenty(uint64_t room, uint64_t bytes);
/* What a thin file's change of so many bytes is refused with, after a look that ended with `error`, with `order` held: ENOSPC or EAGAIN. */
int space_refusal(struct fileops_space *space, int error, uint64_t bytes);
void space_note_refusal(struct fileops_space *space, bool refused); /* by a look that has measured, with `order` held */

/* space_held.c, with `order` held */
int space_settle_marked(struct fileops_space *space); /* waits for the pool, and sets `mark` */
int space_measure(struct fileops_space *space, bool all_soon); /* reads the figures, and what thick files take */
uint64_t space_free_for_all(const struct fileops_held *figures); /* what nobody holds */
uint64_t space_slack(const struct fileops_space *space, unsigned __int128 promised); /* beside so many bytes of promises */
void space_compute(struct fileops_space *space);      /* `needed`; what came since `mark` counts as not in the figures */
int space_hold_more(struct fileops_space *space, uint64_t bytes);
/* Holds less where the pool refuses that, having promised more than it has (space_lift.c). */
int space_hold_lifted(struct fileops_space *space, uint64_t bytes);
/* Bytes to share next of a file of `size` bytes that is to have `whole`: never more than it has. */
uint64_t space_lift_step(uint64_t size, uint64_t whole);
bool space_is_overdrawn(struct fileops_space *space); /* with `state` held instead: writers of shared blocks wait for a look */
/* Holds what is needed, what thin files may have taken since `mark`, and `ahead` where there is room. ENOSPC: not what is needed. */
int space_hold_needed(struct fileops_space *space, uint64_t ahead);
/* All of it with what was measured: what is held follows what is needed, and thin files may take the rest. */
int space_follow(struct fileops_space *space);
/* Looks whether something can hold space now, where nothing did yet. EOPNOTSUPP: never here. EAGAIN: not now. */
int space_ask_holder(struct fileops_space *space);

/* space_promise.c */
enum space_promise_for {
    SPACE_RESERVED, /* somebody asked for it */
    SPACE_GROWS,    /* it is to be larger next */
    SPACE_CLONED,   /* all of it is a clone of ours: what it shares is in the map */
};
/* fileops_reserve_size(), with all its errors. Takes `order` itself. */
int space_promise(struct fileops_space *space, int file, uint64_t size, enum space_promise_for purpose);
/* The promise is larger than the file, which is to follow; where it does not, the promise does, 30 s later. */
void space_note_growth(struct fileops_space *space, uint64_t inode);
int space_grow_promise(struct fileops_space *space, uint64_t inode, uint64_t size); /* takes `order` itself */

/* space_thick.c */
void space_remember_setting(struct fileops_space *space); /* as the ledger has it */
int space_follow_setting(struct fileops_space *space);    /* with `order` held, and a holder. EAGAIN: it does not answer */
/* A file that a full clone makes so many bytes large, `whole` or a range of it: promised where the dataset wants that. ENOSPC: it can't be, EAGAIN: not
 * now. `space` may be NULL. */
int space_promise_clone(struct fileops_space *space, int file, uint64_t size, bool whole);
/* Whether a fast clone into a file that is emptied for it, of which so many bytes are shared, could be shared and promised then, by the
 * figures of now; nothing is held for it. ENOSPC: no; EAGAIN: nobody knows. */
int space_check_promise(struct fileops_space *space, int file, uint64_t size, uint64_t shared);
/* Whether that may succeed, with so much available to the dataset. */
bool space_may_promise(struct fileops_space *space, uint64_t size, uint64_t available);

/* space_maintain.c */
/* Before and after so many bytes are shared: OpenZFS counts what clones take before what they save, while it syncs. More than is
 * left of the pool in one transaction group, and the whole pool is full for that moment, for all writers. */
void space_turn_begin(struct fileops_space *space, uint64_t bytes, uint64_t available);
void space_turn_end(struct fileops_space *space, uint64_t bytes);
int space_settle(struct fileops_space *space); /* returns once all written before the call is in the pool */
/* Whether all that was changed when the file's times were set so is in the pool by now, unless the clock was set back. */
bool space_settled_since(struct fileops_space *space, const struct timespec *change);
/* fileops_space_maintain(); unless `figures_at_once`, clones alone are no reason for a look while more of them are made. */
int space_maintain(struct fileops_space *space, bool figures_at_once);
/* A look, with `order` held: lowers what has become stable, and sets what is held. */
int space_lower(struct fileops_space *space, bool settle_always);
void space_wake(struct fileops_space *space);

/* space_share.c: a range of blocks is about to be shared.
 * ENOSPC: must not be, as it can't be backed. ETXTBSY: one of the two is unfinished. `segments` (offsets in the source) are the parts of it that have data. */
struct space_share {
    struct fileops_space *source_space, *destination_space;
    int destination; /* open */
    bool filler;     /* who emptied the destination, which is unfinished */
    uint64_t source_inode, destination_inode;
    uint64_t source_offset, destination_offset, length;
    uint64_t sequence; /* the highest in the destination's books before */
    bool replaces;     /* the destination referred to something before */
    uint64_t source_first;                  /* the highest in the source's books before, where these are others */
    uint64_t source_last, destination_last; /* the highest after, in the books of each */
    struct space_cloned source_cloned, destination_cloned; /* what was counted as begun in the books of each */
    bool counted;
    bool is_in_books; /* it was counted, and is unless it was undone */
};
struct space_segment {
    uint64_t offset, length;
};
int space_share_begin(struct space_share *share, int source, int destination, uint64_t source_offset, const struct space_segment *segments,
                      size_t count);
void space_share_end(struct space_share *share, bool done);
/* After it: all that was shared is gone from the destination, which is empty or removed. It is no longer counted once that is in the pool. */
void space_share_undo(struct space_share *share);
/* After it: of what was counted only `data` (offsets in the source) was data, and the rest holes. */
void space_share_holes(const struct space_share *share, const struct space_segment *data, size_t count);

/* With `state` held: waits until `busy` says false, so many seconds at most. False: it does not. */
bool space_wait_calm(struct fileops_space *space, bool (*busy)(struct fileops_space *space, uint64_t inode), uint64_t inode, int seconds);

/* space_unfinished.c: the destination of a clone by file descriptor, from before it is emptied until it is whole, or empty again.
 * EBUSY: another clone comes into it. */
int space_unfinished_begin(struct fileops_space *space, int file);
/* `right`: it is whole or empty, or nothing was done to it. Else, and when that can't be written down, it is emptied by the thread of the books, again and again; until then nobody can change it. */
int space_unfinished_end(struct fileops_space *space, uint64_t inode, bool right);
/* fileops_change_begin(); by the `filler` of an unfinished file, which nobody else may change. */
int space_change_begin(struct fileops_space *space, uint64_t inode, enum fileops_change_kind kind, uint64_t offset, uint64_t length,
                       bool filler, struct fileops_change *change);
bool space_is_unfinished(struct fileops_space *space, uint64_t inode); /* false where `space` is NULL */
/* Sets its size to 0 by the rules of the write path. */
int space_empty(struct fileops_space *space, int file, uint64_t inode);
void space_empty_unfinished(struct fileops_space *space);

int64_t space_milliseconds(void); /* of the monotonic clock */
uint64_t space_round_up(uint64_t value, uint64_t unit);

#endif
