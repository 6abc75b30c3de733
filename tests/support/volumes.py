# SPDX-License-Identifier: Apache-2.0
"""Backing store of a LUN: a sparse file natively, a zvol in the guest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from support.zfs import Pool

VolumeMaker = Callable[[str, int], Path]
"""Makes a volume of a name and a size in MiB."""


@contextlib.contextmanager
def files(directory: Path) -> Iterator[VolumeMaker]:
    """Volumes as sparse files in `directory`, removed at the end."""
    made: list[Path] = []

    def make(name: str, size_mib: int) -> Path:
        path = directory / name
        with path.open("wb") as file:
            file.truncate(size_mib << 20)
        made.append(path)
        return path

    try:
        yield make
    finally:
        for path in made:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def zvols(pool: Pool) -> Iterator[VolumeMaker]:
    """Volumes as thin zvols of `pool`, removed at the end."""
    made: list[str] = []

    def make(name: str, size_mib: int) -> Path:
        made.append(name)
        return pool.create_volume(name, size_mib)

    try:
        yield make
    finally:
        for name in made:
            pool.destroy_volume(name)
