# SPDX-License-Identifier: Apache-2.0
"""Blocks of a dataset, as bytes by their birth transaction group (txg).

Overwriting only reduces the blocks of a txg. So an older snapshot has all blocks of its time that a newer one has, and these
numbers give the sharing between dataset, snapshots and clones, as birth times do in OpenZFS.
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
    """Blocks after `size` bytes were written in `txg`, `replaced` of them over existing blocks, oldest first."""
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
