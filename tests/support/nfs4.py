"""The little of NFSv4.0 (RFC 7530) that libnfs does not offer: opening a file with a share reservation. From raw bytes."""

from __future__ import annotations

import itertools
import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.onc_rpc import NFS_PROGRAM, Reader, RpcConnection, opaque

SHARE_NONE, SHARE_READ, SHARE_WRITE, SHARE_BOTH = range(4)
COMPOUND = 1
OP_CLOSE, OP_GETFH, OP_LOOKUP, OP_OPEN, OP_OPEN_CONFIRM, OP_PUTFH, OP_PUTROOTFH = 4, 10, 15, 18, 20, 22, 24
OP_SETCLIENTID, OP_SETCLIENTID_CONFIRM = 35, 36
OPEN4_RESULT_CONFIRM = 2


class Nfs4Error(Exception):
    """An nfsstat4 other than NFS4_OK."""

    def __init__(self, status: int) -> None:
        super().__init__(f"nfsstat4 {status}")
        self.status = status


@dataclass
class OpenFile:
    """An open file of one open-owner."""

    handle: bytes
    stateid: bytes
    seqid: int


class Nfs4:
    """A client with a client id, confirmed. It takes no delegations: it says of no callback that it could be reached."""

    _owners = itertools.count(1)

    def __init__(self, port: int = 2049) -> None:
        self._connection = RpcConnection(port)
        identity = opaque(os.urandom(8).hex().encode())
        callback = struct.pack(">I", 0x40000000) + opaque(b"tcp") + opaque(b"0.0.0.0.0.0") + struct.pack(">I", 1)
        reply = self._compound(struct.pack(">I", OP_SETCLIENTID) + os.urandom(8) + identity + callback)
        reply.take(8)
        self._client_id, verifier = reply.take(8), reply.take(8)
        self._compound(struct.pack(">I", OP_SETCLIENTID_CONFIRM) + self._client_id + verifier)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.__exit__(kind, error, trace)

    def _compound(self, *operations: bytes) -> Reader:
        """The results behind the count of them. Raises Nfs4Error."""
        call = opaque(b"") + struct.pack(">II", 0, len(operations)) + b"".join(operations)
        reply = Reader(self._connection.call(NFS_PROGRAM, 4, COMPOUND, call))
        status = reply.uint32()
        if status:
            raise Nfs4Error(status)
        reply.opaque()
        assert reply.uint32() == len(operations)
        return reply

    def open(self, directory: str, name: str, access: int, deny: int) -> OpenFile:
        """OPEN of a file that is there, CLAIM_NULL, in a directory by its path."""
        lookups = [struct.pack(">I", OP_LOOKUP) + opaque(part.encode()) for part in directory.split("/") if part]
        owner = self._client_id + opaque(f"owner{next(self._owners)}".encode())
        nocreate, claim_null = struct.pack(">I", 0), struct.pack(">I", 0) + opaque(name.encode())
        operation = struct.pack(">IIII", OP_OPEN, 0, access, deny) + owner + nocreate + claim_null
        reply = self._compound(struct.pack(">I", OP_PUTROOTFH), *lookups, operation, struct.pack(">I", OP_GETFH))
        reply.take(8 * (len(lookups) + 2))  # those before, and OPEN and its status
        stateid = reply.take(16)
        reply.take(4 + 8 + 8)  # change_info4
        flags = reply.uint32()
        reply.take(4 * reply.uint32())  # attributes set
        assert reply.uint32() == 0, "no delegation"
        reply.take(8)
        opened = OpenFile(reply.opaque(), stateid, 1)
        if flags & OPEN4_RESULT_CONFIRM:
            confirm = struct.pack(">I", OP_OPEN_CONFIRM) + stateid + struct.pack(">I", opened.seqid)
            reply = self._compound(struct.pack(">I", OP_PUTFH) + opaque(opened.handle), confirm)
            reply.take(8 + 8)
            opened.stateid = reply.take(16)
            opened.seqid += 1
        return opened

    def close(self, opened: OpenFile) -> None:
        """CLOSE."""
        close = struct.pack(">II", OP_CLOSE, opened.seqid) + opened.stateid
        self._compound(struct.pack(">I", OP_PUTFH) + opaque(opened.handle), close)
