/* A clone that is under way: what clone.c, clone_share.c and clone_copy.c share. */
#ifndef FILEOPS_CLONE_INTERNAL_H
#define FILEOPS_CLONE_INTERNAL_H

#include "clone.h"
#include "space_internal.h"

#include <sys/stat.h>

#define CLONE_MOST_SEGMENTS 2048

struct clone {
    const struct fileops_clone_request *request;
    struct fileops_clone_result *result;
    int source, destination;
    uint64_t source_offset, destination_offset, length;
    struct stat source_status, destination_status;
    bool same_dataset;
    bool fresh; /* the destination has nothing yet in the range: holes need no work */
    bool only_copies; /* sharing is not safe now: freed blocks could not be waited for */
    bool alone;       /* it shares while nobody else may write the destination through the library */
    enum fileops_fallback reason; /* why the rest is copied */
    struct space_share share;     /* the last that was brought to the books, ended */
};

/* clone.c: tells of progress. False: cancelled. */
bool clone_goes_on(struct clone *clone);

/* The parts of the range of the source that have data, at most CLONE_MOST_SEGMENTS: small holes may be in them. On ZFS this waits for a
 * dirty file's transaction group (zfs_dmu_offset_next_sync), so that its blocks can be shared then. */
size_t clone_find_data(int source, uint64_t offset, uint64_t length, struct space_segment *segments);

/* Notes why, and gives EBUSY. */
int clone_is_busy(struct clone *clone, enum fileops_clone_busy why);

/* What follows may change the destination. Of what is fresh the whole clone tells. */
static inline void clone_touches(struct clone *clone)
{
    if (!clone->fresh)
        clone->result->left = FILEOPS_CLONE_OLD_OR_NEW;
}

/* clone_share.c: shares the range in pieces of so many bytes; `counted`: what is brought to the books.
 * 0; ECANCELED; ENOSPC and others; EAGAIN: to be copied, `reason` says why, and nothing of value is there yet. */
int clone_by_sharing(struct clone *clone, uint64_t piece, const struct space_segment *counted, size_t count);

/* Whether asking ZFS for a hole (lseek(2), SEEK_HOLE) waits for a dirty file's transaction groups; for another it costs nothing. */
bool clone_kernel_settles(void);

/* clone_copy.c: copies a range of the clone, holes kept. `from` counts from the range's beginning. */
int clone_by_copying(struct clone *clone, uint64_t from, uint64_t length);

#endif
