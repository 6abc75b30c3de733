/* What a file takes. */
#ifndef FILEOPS_STATISTICS_H
#define FILEOPS_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

struct fileops_space;

struct fileops_statistics {
    uint64_t total;     /* its size */
    uint64_t allocated; /* bytes of its blocks, shared ones in full (st_blocks) */
    uint64_t unique;    /* of these, what no other file shares */
    bool unique_exact;  /* false: `unique` is an upper bound: blocks may be shared that the books do not know of, or they were
                         * changed since the pool was asked last (within seconds it is asked again) */
    uint64_t reserved;  /* what is promised to it; 0: thin */
};

/* Reads them for an open file. `space` NULL: no books, nothing is known to be shared. EISDIR: no regular file.
 *
 * What was written, freed or cloned before the call is in the figures: for that it waits until it is in the pool, some tenths of a second
 * where the file was changed in the last seconds; and for an exact `unique` of a new clone 4 s more at most. EAGAIN: it could not be
 * waited for, as zfs(8) does not answer, and the kernel does not wait (zfs_dmu_offset_next_sync). */
int fileops_statistics(struct fileops_space *space, int file, struct fileops_statistics *statistics);

#endif
