# SPDX-License-Identifier: Apache-2.0
"""NFSv3 procedure 22 as the public OpenSDS plug-in for ESXi sends it, in raw bytes, written from its description."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

from support.onc_rpc import NFS_PROGRAM, Nfs3, Reader, opaque

CLONE, RESERVE, STATISTICS, PROGRESS, ABORT, CLONE_SUPPORTED, RESERVE_SUPPORTED, STATISTICS_SUPPORTED = range(1, 9)
STARTED, COPYING, COMPLETE = 0, 1, 2
NOT_SUPPORTED, BUSY, DISK_FULL = 1, 1003, 1004


def argument(command: int, name: bytes = b"", *, version: int = 1, flags: int = 0, name_length: int | None = None) -> bytes:
    """The inner structure: u64 version; u32 command, pad, clone_flags, name_len; char name[256]; u64 reserved[2]."""
    length = (len(name) + 1 if name else 0) if name_length is None else name_length
    return struct.pack("<QIIII256s16x", version, command, 0, flags, length, name)


def arguments(destination: bytes, source: bytes | None, argument_bytes: bytes) -> bytes:
    """The XDR around it."""
    kind = struct.pack(">I", 1) if source is None else struct.pack(">I", 0) + opaque(source)
    return opaque(destination) + kind + opaque(argument_bytes)


@dataclass(frozen=True)
class Result:
    """The answer: nfsstat3 and the inner structure."""

    status: int
    version: int
    command: int
    result: int
    total: int
    allocated: int
    unique: int
    reserved: int
    clone_flag: int
    clone_offset: int
    as_of: int
    flags: int


def decode(results: bytes) -> Result:
    """Decodes a result. Raises AssertionError unless it has exactly the shape that the plug-in expects."""
    reader = Reader(results)
    status, structure = reader.uint32(), reader.opaque()
    reader.end()
    assert len(structure) == 80, f"cmdres has {len(structure)} bytes"
    return Result(status, *struct.unpack("<QIi8Q", structure))


class Procedure22:
    """Calls on the connection of an NFSv3 client."""

    def __init__(self, nfs: Nfs3) -> None:
        self.nfs = nfs

    def raw(self, call_arguments: bytes) -> Result:
        """A call with arbitrary arguments. Raises RpcError."""
        return decode(self.nfs.connection.call(NFS_PROGRAM, 3, 22, call_arguments))

    def command(self, command: int, handle: bytes) -> Result:
        """A command that needs one handle."""
        return self.raw(arguments(handle, None, argument(command)))

    def clone(self, source: bytes, destination: bytes, path: str) -> Result:
        """Command 1. `destination` is a file, or the directory for the last component of `path`."""
        return self.raw(arguments(destination, source, argument(CLONE, path.encode())))

    def full_clone(self, source: bytes, destination: bytes) -> Result:
        """Clones into a file and polls until the end; the last answer has the outcome."""
        result = self.clone(source, destination, "")
        while result.status == 0 and result.clone_flag != COMPLETE:
            time.sleep(0.01)
            result = self.command(PROGRESS, destination)
        return result
