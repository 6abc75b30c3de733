/* The books of one dataset: files whose space is promised (thick), and blocks that files share.
 *
 * They are kept in an SQLite file in FILEOPS_FOLDER at the dataset's root, outlive crash and export, and are followed by what is
 * held for the dataset (space_holder.h). They count too much rather than too little: raised before blocks are shared, lowered
 * only once an overwrite is in the pool.
 *
 * Whoever changes files of the dataset for clients must tell: fileops_change_begin() before, fileops_change_end() after, and
 * fileops_growth_needs_promise() before what may make one larger. For files the books know nothing of that is three loads and no lock. Files are named by inode number there, by inode and generation in the
 * books.
 *
 * Thread-safe throughout. Functions return 0 or an errno value. */
#ifndef FILEOPS_SPACE_H
#define FILEOPS_SPACE_H

#include "space_holder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILEOPS_FOLDER ".zvaai" /* at the root of the dataset; hide it from clients */
#define FILEOPS_CLONES "clones" /* in it: clones that are being made */

struct fileops_space;

struct fileops_space_options {
    /* Finds what can hold space (fileops_zfs_holder). Asked again at each look as long as it fails, but for EOPNOTSUPP: nothing ever can
     * here. Reservations are refused meanwhile. NULL: nothing can. */
    int (*find_holder)(const char *root, struct fileops_space_holder *holder);
    bool no_thread; /* unit tests: fileops_space_maintain() is called by hand */
};

/* Opens the books of the file system mounted at `root`; makes them where there are none; repairs what a crash left: unfinished
 * clones are removed, files that are gone are forgotten, what is held is made right. On a full file system that has books they are
 * opened too: what was promised counts, and `problem` of the status says that nothing more is promised or shared until they can be written.
 * EBUSY: another process has them open. */
int fileops_space_open(const char *root, const struct fileops_space_options *options, struct fileops_space **space);
void fileops_space_close(struct fileops_space *space);

/* Promises that the whole of the file (as large as it is now) can be written at any time, with the pool full. Growing the file
 * later makes the promise larger, or is refused with ENOSPC. Repeated: does nothing. `reserved` (may be NULL): the file's bytes.
 * ENOSPC: can't be promised, nothing changed. EOPNOTSUPP: nothing can hold space here, or not as the dataset is set (deduplication).
 * EAGAIN: not now, as what can hold it does not answer. */
int fileops_reserve(struct fileops_space *space, int file, uint64_t *reserved);

/* The same, for a file that is to have at least `size` bytes; for who makes it that large next. Refused as a whole or not at all. */
int fileops_reserve_size(struct fileops_space *space, int file, uint64_t size);

/* Datasets that are set so (holder: read_thick_default) promise each file whole before it is made larger than this, in bytes. */
#define FILEOPS_THICK_FROM (UINT64_C(1) << 20)

/* Whether a file that may be made `size` bytes large has no promise yet and needs one: then fileops_promise_growth() comes before
 * fileops_change_begin(). Where the dataset is not set so this is one load. */
bool fileops_growth_needs_promise(struct fileops_space *space, uint64_t inode, uint64_t size);

/* Promises the whole of an open file that is to be made `size` bytes large; does nothing where it is that large. `in_steps`: more where there is room, for
 * who makes it larger again and again; what is not used is given back after 30 s. ENOSPC: it can't be promised, and must not be made
 * larger; nothing changed. EAGAIN: not now, as what can hold it does not answer. */
int fileops_promise_growth(struct fileops_space *space, int file, uint64_t size, bool in_steps);

/* Asks how the dataset is set and follows that: what was set before the call is followed when it returns 0. EAGAIN: what holds space does not answer;
 * what was followed before still is. Without this it is asked each 30 s. */
int fileops_space_refresh(struct fileops_space *space);

/* Takes the promise back. */
int fileops_unreserve(struct fileops_space *space, int file);

/* A change of a file's blocks. */
enum fileops_change_kind {
    FILEOPS_WRITE,      /* new bytes offset..offset+length */
    FILEOPS_DEALLOCATE, /* a hole: offset..offset+length */
    FILEOPS_TRUNCATE,   /* the size is set to `offset`, smaller or larger; `length` is not looked at */
    FILEOPS_ALLOCATE,   /* space for offset..offset+length, bytes unchanged (fallocate mode 0: what was shared stays shared) */
};

/* On the caller's stack between begin and end, and not moved meanwhile. Not to be looked into. */
struct fileops_change {
    struct fileops_change *next_freeing;
    uint64_t inode;
    uint64_t offset;
    uint64_t length;
    uint64_t sequence;
    uint64_t charge;
    int64_t first_retry;
    unsigned clonings;
    enum fileops_change_kind kind;
    bool known;
    bool thick;
    bool frees;
};

/* Before the change. ENOSPC: it must not be done (the file is thick and would grow, or a thin file would take what was promised to thick
 * ones). EAGAIN: not now, as what holds space does not answer, or refuses more though there is room (for want
 * of space: a minute at most). EBUSY: the file is being cloned, and blocks of it must not be freed meanwhile (openzfs#18853: they would be freed twice), for which a deallocation or truncation waits 10 s, 16 at a time; or a clone of a whole file
 * comes into it, or failed and it could not be emptied yet. Else 0, and fileops_change_end() must follow, whatever becomes of the change. */
int fileops_change_begin(struct fileops_space *space, uint64_t inode, enum fileops_change_kind kind, uint64_t offset,
                         uint64_t length, struct fileops_change *change);
/* After it; `error` is its errno value, or 0 when all of it was done. A write that was cut short is an error here (EIO will do): what
 * was not overwritten must stay counted. */
void fileops_change_end(struct fileops_space *space, struct fileops_change *change, int error);

/* The change failed with ENOSPC. Waits for the pool (ZFS refuses bursts while space is held, and while many clones sync) and returns
 * 0: do it again. `attempt` counts from 0. Returns ENOSPC after 20 s of attempts, and for a thin file when there is no room after
 * that wait, or was none within the last second. Between begin and end. */
int fileops_change_retry(struct fileops_space *space, struct fileops_change *change, unsigned attempt);

/* The last name of a file is gone: unlink, or a rename over it, found link count 0. `open`: somebody has it still open by a file
 * descriptor of ours; then fileops_file_closed() follows when nobody has. Nothing to be told of a name of several. */
void fileops_file_removed(struct fileops_space *space, uint64_t inode, bool open);
void fileops_file_closed(struct fileops_space *space, uint64_t inode);

enum fileops_reservations {
    FILEOPS_RESERVATIONS_NEVER,   /* this file system can't hold space, or not as it is set: fileops_reserve() says EOPNOTSUPP */
    FILEOPS_RESERVATIONS_NOT_NOW, /* it can, but what holds it does not answer, or the ledger can't be written: EAGAIN, ENOSPC */
    FILEOPS_RESERVATIONS_POSSIBLE,
};

struct fileops_space_status {
    enum fileops_reservations reservations;
    bool can_reserve;       /* they are possible */
    bool thick_default;     /* files that are made larger are promised, as the dataset was set when that was asked last */
    uint64_t thick_files;
    uint64_t thick_bytes;   /* sum of their sizes */
    uint64_t shared_bytes;  /* what overwriting everything shared would newly take; an upper bound */
    uint64_t held_bytes;    /* what is held for the dataset */
    uint64_t needed_bytes;  /* what should be, with slack; more than held by an eighth of that: `problem` */
    uint64_t foreign_changes; /* how often what is held was found changed by somebody else, and set right */
    char problem[160];      /* why promises may not hold right now, for people; empty: they do */
};
/* As it was after the last of what looks, promises and clones did that has ended; waits for none of them. */
void fileops_space_status(struct fileops_space *space, struct fileops_space_status *status);

/* What the thread of the books does every few seconds: lowers what has become stable, gives space back, sets right what is held. */
int fileops_space_maintain(struct fileops_space *space);

#endif
