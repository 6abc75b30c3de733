# SPDX-License-Identifier: Apache-2.0
"""The ioctl of /dev/zvol_clone for Python, and an example of its use; packaging/dkms/zvol_clone/zvol_clone.h is the C version."""

from __future__ import annotations

import ctypes
import enum
import os
import time
from dataclasses import dataclass
from pathlib import Path

DEVICE = Path("/dev/zvol_clone")
VERSION = 2
ZVOL_CLONE_RANGE = 0xC0487AC1
"""_IOWR('z', 0xc1, struct zvol_clone_range)"""
ZVOL_CLONE_MAP = 0xC0387AC2
"""_IOWR('z', 0xc2, struct zvol_clone_map)"""
ZVOL_CLONE_SPACE = 0xC0607AC3
"""_IOWR('z', 0xc3, struct zvol_clone_space)"""
MAP_BLOCKS = 16384
"""ZVOL_CLONE_MAP_BLOCKS"""


class Stopped(enum.IntEnum):
    """Why the call stopped: enum zvol_clone_stopped."""

    COMPLETE = 0
    OTHER_VERSION = 1
    BAD_REQUEST = 2
    BAD_DESCRIPTOR = 4
    NOT_BLOCK_DEVICE = 5
    NOT_ZVOL = 6
    PARTITION = 7
    REMOVED = 8
    UNKNOWN_LAYOUT = 9
    READ_ONLY = 10
    OTHER_POOL = 11
    OTHER_KEY = 12
    OTHER_BLOCK_SIZE = 13
    UNALIGNED = 14
    OUT_OF_RANGE = 15
    OVERLAP = 16
    DIRTY = 17
    SIGNAL = 18
    PAGE_CACHE = 19
    NO_MEMORY = 20
    ZFS = 21
    NOT_ZFS = 22


class Request(ctypes.Structure):
    """struct zvol_clone_range"""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("source_fd", ctypes.c_int32),
        ("destination_fd", ctypes.c_int32),
        ("source_offset", ctypes.c_uint64),
        ("destination_offset", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("bytes_done", ctypes.c_uint64),
        ("dirty_length", ctypes.c_uint64),
        ("stopped", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("hole_bytes", ctypes.c_uint64),
    ]


class Kind(enum.IntEnum):
    """Kind of a block: enum zvol_clone_kind."""

    HOLE = 0
    DATA = 1
    UNSYNCED = 2


class MapExtent(ctypes.Structure):
    """struct zvol_clone_extent"""

    _fields_ = [("length", ctypes.c_uint64), ("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class MapRequest(ctypes.Structure):
    """struct zvol_clone_map"""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("fd", ctypes.c_int32),
        ("most", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("extents", ctypes.c_uint64),
        ("bytes_done", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("stopped", ctypes.c_uint32),
    ]


class SpaceRequest(ctypes.Structure):
    """struct zvol_clone_space"""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("fd", ctypes.c_int32),
        ("stopped", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("budget", ctypes.c_uint64),
        ("bytes_done", ctypes.c_uint64),
        ("allocated", ctypes.c_uint64),
        ("shared", ctypes.c_uint64),
        ("snapshot", ctypes.c_uint64),
        ("deduplicated", ctypes.c_uint64),
        ("txg", ctypes.c_uint64),
        ("dirty", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class Space:
    """Result of ZVOL_CLONE_SPACE: errno and bytes."""

    error: int
    stopped: Stopped
    bytes_done: int
    allocated: int
    shared: int
    snapshot: int
    deduplicated: int
    txg: int
    dirty: bool


@dataclass(frozen=True)
class Outcome:
    """Result of a call. `error` is the errno, 0 if all was cloned; `seconds` is the duration."""

    error: int
    stopped: Stopped
    bytes_done: int
    dirty_length: int
    version: int
    seconds: float
    hole_bytes: int


@dataclass(frozen=True)
class Mapped:
    """Result of ZVOL_CLONE_MAP: errno and extents as (kind, bytes)."""

    error: int
    stopped: Stopped
    extents: list[tuple[Kind, int]]


_libc = ctypes.CDLL(None, use_errno=True)


class ZvolClone:
    """The open device."""

    def __init__(self) -> None:
        self.fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Closes it."""
        os.close(self.fd)

    def clone(
        self,
        source: int,
        destination: int,
        length: int,
        *,
        source_offset: int = 0,
        destination_offset: int = 0,
        version: int = VERSION,
        flags: int = 0,
        reserved: int = 0,
    ) -> Outcome:
        """Clones `length` bytes between two open zvols; does not raise if the module refuses."""
        request = Request(
            version=version,
            flags=flags,
            source_fd=source,
            destination_fd=destination,
            source_offset=source_offset,
            destination_offset=destination_offset,
            length=length,
            bytes_done=0xDEAD,
            dirty_length=0xDEAD,
            stopped=0xDEAD,
            reserved=reserved,
            hole_bytes=0xDEAD,
        )
        start = time.monotonic()
        result = _libc.ioctl(self.fd, ctypes.c_ulong(ZVOL_CLONE_RANGE), ctypes.byref(request))
        error = ctypes.get_errno() if result else 0
        seconds = time.monotonic() - start
        stopped = Stopped(request.stopped)
        return Outcome(error, stopped, request.bytes_done, request.dirty_length, request.version, seconds, request.hole_bytes)

    def map(self, fd: int, offset: int, length: int, *, most: int = 1024, version: int = VERSION, flags: int = 0) -> Mapped:
        """Kinds of the blocks at the start of the range."""
        extents = (MapExtent * max(most, 1))()
        address = ctypes.addressof(extents)
        request = MapRequest(version, flags, fd, most, offset, length, address, 0xDEAD, 0xDEAD, 0xDEAD)
        result = _libc.ioctl(self.fd, ctypes.c_ulong(ZVOL_CLONE_MAP), ctypes.byref(request))
        decoded = [(Kind(extent.kind), int(extent.length)) for extent in extents[: request.count]]
        assert sum(length for _, length in decoded) == request.bytes_done
        return Mapped(ctypes.get_errno() if result else 0, Stopped(request.stopped), decoded)

    def space(
        self, fd: int, offset: int = 0, length: int = 1 << 62, *, budget: int = 0, version: int = VERSION, flags: int = 0
    ) -> Space:
        """Space of the blocks at the start of the range."""
        request = SpaceRequest(version, flags, fd, 0xDEAD, offset, length, budget, *[0xDEAD] * 7, 0)
        result = _libc.ioctl(self.fd, ctypes.c_ulong(ZVOL_CLONE_SPACE), ctypes.byref(request))
        figures = (request.bytes_done, request.allocated, request.shared, request.snapshot, request.deduplicated, request.txg)
        return Space(ctypes.get_errno() if result else 0, Stopped(request.stopped), *figures, bool(request.dirty))
