/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* What blocks of a file take, asked of the kernel module zvol_clone (ZVOL_CLONE_SPACE of zvol_clone.h, which says what the figures mean). */
#ifndef FILEOPS_SPACE_QUERY_H
#define FILEOPS_SPACE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

struct space_figures {
    uint64_t done; /* bytes from `offset` on that are counted */
    uint64_t allocated, shared, snapshot, deduplicated;
    uint64_t group; /* transaction group */
    bool dirty;
};

/* Of `file` from `offset` to `end`, for so many nanoseconds at most; `done` tells how far that went. The last synced state is counted. EOPNOTSUPP: the module is not there, is of
 * another version, or does not know this file system. */
int space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures);

#endif
