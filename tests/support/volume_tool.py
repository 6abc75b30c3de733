# SPDX-License-Identifier: Apache-2.0
"""The volume crate's operations on real devices: zvol_target/volume/examples/volume.rs."""

from __future__ import annotations

import fcntl
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from support.programs import CACHE, run

TOOL = CACHE / "target/volume"


def _call(*words: str | int | Path, timeout: float = 300) -> list[list[str]]:
    assert TOOL.exists(), f"{TOOL} is not built: packaging/build-target"
    return [line.split() for line in run(TOOL, *map(str, words), timeout=timeout).splitlines()]


def clear(device: Path, offset: int, length: int, stability: str = "stable") -> float:
    """Clears a range. Returns the seconds it took."""
    return float(dict(_call("clear", device, offset, length, stability))["seconds"])


def allocation(device: Path, offset: int, length: int) -> tuple[list[tuple[str, int, int]], float]:
    """Extents as (allocation, offset, length), merged by kind, and the seconds it took."""
    extents: list[tuple[str, int, int]] = []
    seconds = 0.0
    for kind, *numbers in _call("map", device, offset, length):
        if kind == "seconds":
            seconds = float(numbers[0])
            continue
        start, size = (int(number) for number in numbers)
        if extents and extents[-1][0] == kind:
            _, start, so_far = extents.pop()
            size += so_far
        extents.append((kind, start, size))
    return extents, seconds


@dataclass(frozen=True)
class Copied:
    """How the bytes of a copy were made."""

    cloned: int
    copied: int
    zeroed: int
    fallback: Counter[str]
    seconds: float


def copy(
    source: Path, source_offset: int, destination: Path, offset: int, length: int, stability: str = "stable", timeout: float = 300
) -> Copied:
    """Copies a range from one volume to another, or within one."""
    result = dict(_call("copy", source, source_offset, destination, offset, length, stability, timeout=timeout))
    cloned, copied, zeroed = (int(result.pop(name)) for name in ("cloned", "copied", "zeroed"))
    seconds = float(result.pop("seconds"))
    return Copied(cloned, copied, zeroed, Counter({name: int(bytes_) for name, bytes_ in result.items()}), seconds)


BLKDISCARD = 0x1277
"""linux/fs.h"""


def discard(device: int, offset: int, length: int) -> None:
    """Discards a range of an open block device, as blkdiscard(8) does."""
    fcntl.ioctl(device, BLKDISCARD, struct.pack("QQ", offset, length))
