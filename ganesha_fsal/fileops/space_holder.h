/* What can hold space of a file system for one dataset: ZFS does (refreservation); unit tests bring their own. */
#ifndef FILEOPS_SPACE_HOLDER_H
#define FILEOPS_SPACE_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#define ZFS_SUPER_MAGIC 0x2fc12fc1 /* OpenZFS, sys/fs/zfs.h */

/* Figures of the dataset, in bytes. All are of what is in the pool: what was written in the last seconds may be missing. */
struct fileops_held {
    uint64_t held;       /* what is held for the dataset (refreservation); 0: nothing */
    uint64_t unused;     /* what of that nothing is in yet (usedbyrefreservation): with snapshots more than held - referenced */
    uint64_t referenced; /* what the dataset refers to */
    uint64_t own;        /* what of that no snapshot has (usedbydataset) */
    uint64_t available;  /* what could be written by the dataset, what is held and not yet used included */
    uint64_t shared;     /* bytes the whole pool saves by block cloning (bclonesaved) */
    uint64_t overcommitted; /* how much more the pool has promised than it has just now; UINT64_MAX: that can't be known */
    uint64_t overdraft;  /* how much more may be promised than there is before the pool refuses what gives space back */
    bool can_promise;    /* false: blocks are shared that no ledger knows of (deduplication) */
    uint64_t cost_version; /* another one when cost() may say something else than before */
    bool overwrites_unshare; /* an overwritten block is always a new one; false with checksums that allow nop-writes */
};

struct fileops_space_holder {
    /* Reads the figures. */
    int (*read)(void *context, struct fileops_held *figures);
    /* Holds so many bytes, no matter how many were held before. ENOSPC: there is not so much; what was held stays. */
    int (*hold)(void *context, uint64_t bytes);
    /* Returns once all that was written before the call is in the pool (a transaction group ended). */
    int (*settle)(void *context);
    /* The most that `size` bytes of files with blocks of `block_size` can take with metadata, copies and parity, as the dataset was set
     * when it was read last. */
    uint64_t (*cost)(void *context, uint64_t size, uint32_t block_size);
    void (*close)(void *context);
    void *context;
    /* Whether the dataset is set to promise files that are made larger. NULL: it can't be. */
    int (*read_thick_default)(void *context, bool *thick);
    /* How many datasets of the pool this process holds space for, this one among them: all draw on the pool's `overdraft`. NULL: one. */
    unsigned (*sharers)(void *context);
    uint64_t slack; /* to be held beyond what files need, for what the file system takes in between */
};

/* The holder of the dataset that `root` is the mount point of. It runs zfs(8) and zpool(8), each for 20 s at most.
 * EOPNOTSUPP: not on ZFS, or zfs can't be run. Free by `holder->close(holder->context)`. */
int fileops_zfs_holder(const char *root, struct fileops_space_holder *holder);

#endif
