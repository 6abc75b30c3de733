# SPDX-License-Identifier: Apache-2.0
"""NFSv4.1 (RFC 8881) as ESXi uses it, from raw bytes: a session with one slot, share reservations, reclaim after a restart."""

from __future__ import annotations

import itertools
import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.onc_rpc import NFS_PROGRAM, Reader, RpcConnection, opaque

SHARE_NONE, SHARE_READ, SHARE_WRITE, SHARE_BOTH = range(4)
NFS4ERR_GRACE, NFS4ERR_SHARE_DENIED, NFS4ERR_BAD_STATEID, NFS4ERR_NO_GRACE = 10013, 10015, 10025, 10033
COMPOUND = 1
OP_CLOSE, OP_GETFH, OP_LOOKUP, OP_OPEN, OP_PUTFH, OP_PUTROOTFH = 4, 10, 15, 18, 22, 24
OP_READ, OP_SETATTR, OP_WRITE = 25, 34, 38
OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_SEQUENCE, OP_RECLAIM_COMPLETE = 42, 43, 53, 58
WANT_NO_DELEGATION = 0x0400
FILE_SYNC4 = 2
SIZE_ATTRIBUTE = struct.pack(">II", 1, 1 << 4)
"""bitmap4 of the attribute `size`."""


class Nfs4Error(Exception):
    """An nfsstat4 other than NFS4_OK."""

    def __init__(self, status: int) -> None:
        super().__init__(f"nfsstat4 {status}")
        self.status = status


@dataclass
class OpenFile:
    """An open file, and how it was opened."""

    handle: bytes
    stateid: bytes
    access: int
    deny: int
    owner: bytes


class Nfs4:
    """A client with a session and no callbacks. `reclaims`: the client is not new, and sends RECLAIM_COMPLETE itself."""

    _owners = itertools.count(1)

    def __init__(self, port: int = 2049, *, name: bytes = b"", verifier: bytes = b"", reclaims: bool = False) -> None:
        self.name, self.verifier, self._port = name or os.urandom(8).hex().encode(), verifier or os.urandom(8), port
        self._connection = RpcConnection(port)
        identity = struct.pack(">I", OP_EXCHANGE_ID) + self.verifier + opaque(self.name) + struct.pack(">III", 0, 0, 0)
        reply = self._compound(identity)
        reply.take(8)
        self._client_id, sequence = reply.take(8), reply.take(4)
        channel = struct.pack(">IIIIIII", 0, 2 << 20, 2 << 20, 4096, 16, 1, 0)
        session = struct.pack(">I", OP_CREATE_SESSION) + self._client_id + sequence + struct.pack(">I", 0)
        reply = self._compound(session + channel + channel + struct.pack(">III", 0x40000000, 1, 0))
        reply.take(8)
        self._session = reply.take(16)
        self._calls = itertools.count(1)
        if not reclaims:
            self.reclaim_complete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.__exit__(kind, error, trace)

    def after_restart(self) -> Nfs4:
        """The same client on a new connection to the restarted server, before any reclaim."""
        return Nfs4(self._port, name=self.name, verifier=self.verifier, reclaims=True)

    def _compound(self, *operations: bytes) -> Reader:
        """Results after their count. Raises Nfs4Error."""
        call = opaque(b"") + struct.pack(">II", 1, len(operations)) + b"".join(operations)
        reply = Reader(self._connection.call(NFS_PROGRAM, 4, COMPOUND, call))
        status = reply.uint32()
        if status:
            raise Nfs4Error(status)
        reply.opaque()
        assert reply.uint32() == len(operations)
        return reply

    def _call(self, *operations: bytes) -> Reader:
        """Results after SEQUENCE's. Raises Nfs4Error."""
        slot, cache = 0, 0
        sequence = struct.pack(">I", OP_SEQUENCE) + self._session + struct.pack(">IIII", next(self._calls), slot, slot, cache)
        reply = self._compound(sequence, *operations)
        reply.take(8 + 16 + 20)
        return reply

    def _on(self, file: OpenFile, operation: bytes) -> Reader:
        """Result of an operation on a file, after its status."""
        reply = self._call(struct.pack(">I", OP_PUTFH) + opaque(file.handle), operation)
        reply.take(8 + 8)
        return reply

    def renew(self) -> None:
        """SEQUENCE alone, which renews the lease."""
        self._call()

    def reclaim_complete(self) -> None:
        """RECLAIM_COMPLETE: required before a client opens new files."""
        self._call(struct.pack(">II", OP_RECLAIM_COMPLETE, 0))

    def open(
        self, directory: str, name: str, access: int, deny: int, *, create: bool = False, size: int | None = None
    ) -> OpenFile:
        """OPEN, CLAIM_NULL, in a directory. `size` is an attribute of the file that it creates."""
        lookups = [struct.pack(">I", OP_LOOKUP) + opaque(part.encode()) for part in directory.split("/") if part]
        owner = opaque(f"owner{next(self._owners)}".encode())
        attributes = struct.pack(">II", 0, 0) if size is None else SIZE_ATTRIBUTE + opaque(struct.pack(">Q", size))
        how = struct.pack(">II", 1, 0) + attributes if create else struct.pack(">I", 0)
        claim = struct.pack(">I", 0) + opaque(name.encode())
        return self._open([struct.pack(">I", OP_PUTROOTFH), *lookups], access, deny, owner, how + claim)

    def reclaim(self, file: OpenFile) -> OpenFile:
        """OPEN, CLAIM_PREVIOUS, of a file that was open before the server's restart."""
        claim_previous = struct.pack(">III", 0, 1, 0)
        place = struct.pack(">I", OP_PUTFH) + opaque(file.handle)
        return self._open([place], file.access, file.deny, file.owner, claim_previous)

    def _open(self, place: list[bytes], access: int, deny: int, owner: bytes, how: bytes) -> OpenFile:
        operation = struct.pack(">IIII", OP_OPEN, 0, access | WANT_NO_DELEGATION, deny)
        reply = self._call(*place, operation + self._client_id + owner + how, struct.pack(">I", OP_GETFH))
        reply.take(8 * (len(place) + 1))  # the earlier operations, and OPEN and its status
        stateid = reply.take(16)
        reply.take(4 + 8 + 8 + 4)  # change_info4, flags
        reply.take(4 * reply.uint32())  # attributes set
        none, none_and_why = 0, 3
        delegation = reply.uint32()
        if delegation == none_and_why:
            reply.uint32()
        else:
            assert delegation == none
        reply.take(8)
        return OpenFile(reply.opaque(), stateid, access, deny, owner)

    def truncate(self, file: OpenFile, size: int) -> None:
        """SETATTR of the size, with the stateid of the open file."""
        attributes = SIZE_ATTRIBUTE + opaque(struct.pack(">Q", size))
        self._on(file, struct.pack(">I", OP_SETATTR) + file.stateid + attributes)

    def write(self, file: OpenFile, offset: int, data: bytes) -> None:
        """WRITE, FILE_SYNC."""
        reply = self._on(file, struct.pack(">I", OP_WRITE) + file.stateid + struct.pack(">QI", offset, FILE_SYNC4) + opaque(data))
        assert (reply.uint32(), reply.uint32()) == (len(data), FILE_SYNC4)

    def read(self, file: OpenFile, offset: int, count: int) -> bytes:
        """READ."""
        reply = self._on(file, struct.pack(">I", OP_READ) + file.stateid + struct.pack(">QI", offset, count))
        reply.uint32()
        return reply.opaque()

    def close(self, file: OpenFile) -> None:
        """CLOSE."""
        self._on(file, struct.pack(">II", OP_CLOSE, 0) + file.stateid)
