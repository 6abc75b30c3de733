/* SPDX-License-Identifier: LGPL-3.0-or-later */
/* Retries of writes that ZFS refuses for lack of space although their dataset is thick: until the end of a transaction group, ZFS counts the blocks that the
 * group frees as used, and refuses bursts. In the next group the write succeeds. */
#pragma once

#include "dataset.h"

struct fileops_retry {
    int64_t begun;  /* milliseconds of the monotonic clock; 0: not yet */
    bool exhausted; /* it may succeed later: the client must retry */
};

/* Whether a write that failed with `error` (ENOSPC, EDQUOT) must be repeated: in a thick dataset, for 10 s, by 32 threads at most. It waits for the end of the
 * transaction group, which it requests if `file` (-1: none) has changes in it, or 100 ms. Start with a zeroed `retry`. */
bool fileops_may_retry(const struct fileops_dataset *dataset, int error, int file, struct fileops_retry *retry);
