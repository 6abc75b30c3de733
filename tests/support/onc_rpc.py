# SPDX-License-Identifier: Apache-2.0
"""ONC RPC (RFC 5531) over TCP from raw bytes, with the procedures of MOUNT and NFSv3 (RFC 1813) that a VAAI plug-in uses."""

from __future__ import annotations

import itertools
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

MOUNT_PROGRAM, NFS_PROGRAM = 100005, 100003
PORTMAP_PROGRAM, PORTMAP_GETPORT, IPPROTO_TCP = 100000, 3, 6


class RpcError(Exception):
    """The call was not accepted. `reply_stat` 1: denied; else `accept_stat` says why (RFC 5531 9)."""

    def __init__(self, reply_stat: int, accept_stat: int) -> None:
        super().__init__(f"reply_stat {reply_stat}, accept_stat or reject_stat {accept_stat}")
        self.reply_stat = reply_stat
        self.accept_stat = accept_stat


MSG_DENIED, AUTH_ERROR = 1, 1
PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = 1, 2, 3, 4, 5


def opaque(data: bytes) -> bytes:
    """XDR opaque<> or string<>."""
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Reader:
    """XDR results, from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        """The next bytes. Raises AssertionError at the end."""
        assert self.at + length <= len(self.data), "the result is cut short"
        self.at += length
        return self.data[self.at - length : self.at]

    def uint32(self) -> int:
        """An unsigned int or an enum."""
        return int(struct.unpack(">I", self.take(4))[0])

    def uint64(self) -> int:
        return int(struct.unpack(">Q", self.take(8))[0])

    def opaque(self) -> bytes:
        length = self.uint32()
        data = self.take(length)
        self.take(-length % 4)
        return data

    def end(self) -> None:
        """Raises AssertionError if bytes are left."""
        assert self.at == len(self.data), f"{len(self.data) - self.at} bytes too many"


@dataclass(frozen=True)
class User:
    """AUTH_SYS credentials."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The opaque body with its flavour."""
        count = len(self.groups)
        body = struct.pack(">I", 0) + opaque(b"tests") + struct.pack(f">III{count}I", self.uid, self.gid, count, *self.groups)
        return struct.pack(">I", 1) + opaque(body)


class RpcConnection:
    """One TCP connection to a program's port."""

    _transactions = itertools.count(1)

    def __init__(self, port: int, user: User | None = None) -> None:
        self.user = user or User()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=180)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def send(self, program: int, version: int, procedure: int, arguments: bytes, transaction: int | None = None) -> int:
        """Sends a call; its transaction id."""
        transaction = next(self._transactions) if transaction is None else transaction
        call = (
            struct.pack(">IIIIII", transaction, 0, 2, program, version, procedure) + self.user.encode() + struct.pack(">II", 0, 0)
        )
        self.send_record(call + arguments)
        return transaction

    def send_record(self, record: bytes) -> None:
        """Sends arbitrary bytes as one record."""
        self._socket.sendall(struct.pack(">I", 0x80000000 | len(record)) + record)

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError("the server closed the connection")
            data += part
        return data

    def receive(self) -> tuple[int, bytes]:
        """A reply: transaction id and results. Raises RpcError."""
        record, last = b"", False
        while not last:
            (marker,) = struct.unpack(">I", self._exactly(4))
            last = bool(marker & 0x80000000)
            record += self._exactly(marker & 0x7FFFFFFF)
        reply = Reader(record)
        transaction, kind, reply_stat = reply.uint32(), reply.uint32(), reply.uint32()
        assert kind == 1, "no reply"
        if reply_stat != 0:
            raise RpcError(reply_stat, reply.uint32())
        reply.uint32()
        reply.opaque()
        accept_stat = reply.uint32()
        if accept_stat != 0:
            raise RpcError(0, accept_stat)
        return transaction, record[reply.at :]

    def call(self, program: int, version: int, procedure: int, arguments: bytes = b"") -> bytes:
        """A call and its results."""
        sent = self.send(program, version, procedure, arguments)
        received, results = self.receive()
        assert received == sent, "the reply belongs to another call"
        return results


def port_of(program: int, version: int) -> int:
    """The TCP port that rpcbind reports; 0 for none."""
    with RpcConnection(111) as connection:
        arguments = struct.pack(">IIII", program, version, IPPROTO_TCP, 0)
        return Reader(connection.call(PORTMAP_PROGRAM, 2, PORTMAP_GETPORT, arguments)).uint32()


class Nfs3Error(Exception):
    """A failing nfsstat3."""

    def __init__(self, status: int) -> None:
        super().__init__(f"nfsstat3 {status}")
        self.status = status


def mount(path: str, user: User | None = None) -> bytes:
    """The root handle of an export. Raises Nfs3Error with the mountstat3."""
    with RpcConnection(port_of(MOUNT_PROGRAM, 3), user) as connection:
        reply = Reader(connection.call(MOUNT_PROGRAM, 3, 1, opaque(path.encode())))
    status = reply.uint32()
    if status != 0:
        raise Nfs3Error(status)
    return reply.opaque()


class Nfs3:
    """NFSv3 on one connection."""

    def __init__(self, user: User | None = None) -> None:
        self.connection = RpcConnection(port_of(NFS_PROGRAM, 3), user)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.connection.__exit__(kind, error, trace)

    def _call(self, procedure: int, arguments: bytes) -> Reader:
        reply = Reader(self.connection.call(NFS_PROGRAM, 3, procedure, arguments))
        status = reply.uint32()
        if status != 0:
            raise Nfs3Error(status)
        return reply

    def null(self) -> None:
        """NULL: the daemon is alive."""
        self.connection.call(NFS_PROGRAM, 3, 0)

    def lookup(self, directory: bytes, name: str) -> bytes:
        """LOOKUP."""
        return self._call(3, opaque(directory) + opaque(name.encode())).opaque()

    def size(self, handle: bytes) -> int:
        """The size that GETATTR shows."""
        reply = self._call(1, opaque(handle))
        reply.take(20)
        return reply.uint64()

    def create(self, directory: bytes, name: str, mode: int = 0o644, *, size: int | None = None) -> bytes:
        """CREATE, unchecked."""
        sized = bytes(4) if size is None else struct.pack(">IQ", 1, size)
        attributes = struct.pack(">II", 1, mode) + bytes(8) + sized + bytes(8)
        reply = self._call(8, opaque(directory) + opaque(name.encode()) + struct.pack(">I", 0) + attributes)
        assert reply.uint32() == 1, "CREATE gave no handle"
        return reply.opaque()

    def remove(self, directory: bytes, name: str) -> None:
        """REMOVE."""
        self._call(12, opaque(directory) + opaque(name.encode()))

    def truncate(self, handle: bytes, size: int) -> None:
        """SETATTR of the size."""
        self._call(2, opaque(handle) + struct.pack(">IIIIQIII", 0, 0, 0, 1, size, 0, 0, 0))

    def space(self, handle: bytes) -> tuple[int, int]:
        """FSSTAT: total and available bytes."""
        reply = self._call(18, opaque(handle))
        if reply.uint32():
            reply.take(84)
        total, _free, available = reply.uint64(), reply.uint64(), reply.uint64()
        return total, available

    def write(self, handle: bytes, offset: int, data: bytes) -> None:
        """WRITE, FILE_SYNC."""
        self._call(7, opaque(handle) + struct.pack(">QII", offset, len(data), 2) + opaque(data))

    def read(self, handle: bytes, offset: int, count: int) -> bytes:
        """READ."""
        reply = self._call(6, opaque(handle) + struct.pack(">QI", offset, count))
        if reply.uint32():
            reply.take(84)
        reply.take(8)
        return reply.opaque()
