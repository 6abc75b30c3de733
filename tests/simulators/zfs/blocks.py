# SPDX-License-Identifier: Apache-2.0
"""Which blocks a dataset refers to, as bytes by the txg they were born in.

Blocks of one txg only ever become fewer as they are overwritten, so of two snapshots the older refers to all blocks the newer has
of a txg both know. With that, sharing between dataset, snapshots and clones follows from these numbers alone, as OpenZFS's own
accounting does from birth times.
"""

from __future__ import annotations

Blocks = tuple[tuple[int, int], ...]
"""(txg, bytes), ascending."""


def total(blocks: Blocks) -> int:
    """Bytes."""
    return sum(size for _, size in blocks)


def born_after(blocks: Blocks, txg: int) -> int:
    """Bytes born after `txg`."""
    return sum(size for born, size in blocks if born > txg)


def gone_from(older: Blocks, newer: Blocks, after: int) -> int:
    """Bytes born after txg `after` that `older` refers to and `newer` no longer does."""
    still = dict(newer)
    return sum(size - min(size, still.get(born, 0)) for born, size in older if born > after)


def with_written(blocks: Blocks, txg: int, size: int, replaced: int) -> Blocks:
    """After `size` bytes were written in `txg`, `replaced` of them over blocks there were, the oldest first."""
    left = []
    for born, held in blocks:
        taken = min(held, replaced)
        replaced -= taken
        if held > taken:
            left.append((born, held - taken))
    if size and left and left[-1][0] == txg:
        left[-1] = (txg, left[-1][1] + size)
    elif size:
        left.append((txg, size))
    return tuple(left)
