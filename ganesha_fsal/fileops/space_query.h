/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Space of a file's blocks, from the kernel module zvol_clone (ZVOL_CLONE_SPACE; zvol_clone.h explains the figures). Takes no lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct space_figures {
    uint64_t done; /* counted bytes from `offset` on */
    uint64_t allocated, shared, snapshot, deduplicated;
    uint64_t group; /* transaction group */
    bool dirty;
};

/* Of `file` from `offset` to `end`, for a limited number of nanoseconds; `done` is the progress. The last synced state is counted. EOPNOTSUPP: the module is not loaded, has
 * another version, or does not know this file system. */
int space_query(int file, uint64_t offset, uint64_t end, uint64_t nanoseconds, struct space_figures *figures);

/* Number of changes of all pools' block reference tables after the module zfs was loaded. 0: unknown. */
uint64_t space_changes(void);
