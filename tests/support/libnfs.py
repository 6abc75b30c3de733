# SPDX-License-Identifier: Apache-2.0
"""An NFS client, NFSv3 or v4.0: libnfs, by ctypes. Errors are OSError with libnfs's errno for the NFS status."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from ctypes import c_char_p, c_int, c_uint64, c_ulong, c_void_p
from typing import Any

from support.programs import wait_for

_library = ctypes.CDLL("libnfs.so.14", use_errno=False)


class _Stat(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("dev", "ino", "mode", "nlink", "uid", "gid", "rdev", "size", "blksize", "blocks")),
        *((name, c_uint64) for name in ("atime", "mtime", "ctime", "atime_nsec", "mtime_nsec", "ctime_nsec", "used")),
    ]


class _FileSystem(ctypes.Structure):
    """struct statvfs."""

    _fields_ = [
        *((name, c_ulong) for name in ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail")),
        *((name, c_ulong) for name in ("fsid", "flag", "namemax")),
        ("spare", c_int * 6),
    ]


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [("next", ctypes.POINTER(_Entry)), ("name", c_char_p), ("inode", c_uint64)]


def _function(name: str, *arguments: Any, result: Any = c_int) -> Any:
    function = getattr(_library, f"nfs_{name}")
    function.argtypes = [c_void_p, *arguments]
    function.restype = result
    return function


_init = _library.nfs_init_context
_init.argtypes, _init.restype = [], c_void_p
_destroy = _function("destroy_context", result=None)
_error = _function("get_error", result=c_char_p)
_mount = _function("mount", c_char_p, c_char_p)
_set_version = _function("set_version", c_int)
_set_uid = _function("set_uid", c_int, result=None)
_set_gid = _function("set_gid", c_int, result=None)
_set_autoreconnect = _function("set_autoreconnect", c_int, result=None)
_set_client_name = _library.nfs4_set_client_name
_set_client_name.argtypes, _set_client_name.restype = [c_void_p, c_char_p], None
_set_timeout = _function("set_timeout", c_int, result=None)
_open2 = _function("open2", c_char_p, c_int, c_int, ctypes.POINTER(c_void_p))
_close = _function("close", c_void_p)
_pread = _function("pread", c_void_p, c_uint64, c_uint64, c_char_p)
_pwrite = _function("pwrite", c_void_p, c_uint64, c_uint64, c_char_p)
_fsync = _function("fsync", c_void_p)
_ftruncate = _function("ftruncate", c_void_p, c_uint64)
_truncate = _function("truncate", c_char_p, c_uint64)
_stat64 = _function("lstat64", c_char_p, ctypes.POINTER(_Stat))
_statvfs = _function("statvfs", c_char_p, ctypes.POINTER(_FileSystem))
_unlink = _function("unlink", c_char_p)
_rename = _function("rename", c_char_p, c_char_p)
_link = _function("link", c_char_p, c_char_p)
_symlink = _function("symlink", c_char_p, c_char_p)
_mkdir = _function("mkdir", c_char_p)
_rmdir = _function("rmdir", c_char_p)
_mknod = _function("mknod", c_char_p, c_int, c_int)
_chmod = _function("chmod", c_char_p, c_int)
_opendir = _function("opendir", c_char_p, ctypes.POINTER(c_void_p))
_readdir = _function("readdir", c_void_p, result=ctypes.POINTER(_Entry))
_closedir = _function("closedir", c_void_p, result=None)
_lockf = _function("lockf", c_void_p, c_int, c_uint64)


_numbers = itertools.count()


class File:
    """An open file."""

    def __init__(self, client: Client, handle: c_void_p) -> None:
        self._client, self._handle = client, handle

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset; fewer at the end of the file."""
        buffer = ctypes.create_string_buffer(length)
        done = self._client.check(_pread(self._client.context, self._handle, offset, length, buffer))
        return buffer.raw[:done]

    def write(self, offset: int, data: bytes) -> None:
        """Writes all data: unstable, or stable if the file was opened with os.O_SYNC."""
        done = 0
        while done < len(data):
            done += self._client.answered(_pwrite, self._handle, offset + done, len(data) - done, data[done:])

    def sync(self) -> None:
        """COMMIT."""
        self._client.check(_fsync(self._client.context, self._handle))

    def truncate(self, size: int) -> None:
        self._client.answered(_ftruncate, self._handle, size)

    def lock(self, length: int = 0) -> None:
        """Locks bytes from the position, without waiting (NFSv4 LOCK). Raises BlockingIOError if another client has the lock."""
        self._client.check(_lockf(self._client.context, self._handle, os.F_TLOCK, length))

    def unlock(self, length: int = 0) -> None:
        self._client.check(_lockf(self._client.context, self._handle, os.F_ULOCK, length))

    def close(self) -> None:
        self._client.check(_close(self._client.context, self._handle))


class Client:
    """A mounted export."""

    def __init__(
        self, export: str, version: int = 3, uid: int = 0, gid: int = 0, timeout_ms: int = 120_000, server: str = "127.0.0.1"
    ) -> None:
        self.context = _init()
        self.check(_set_version(self.context, version))
        # libnfs's default name is the same for the whole process, and a later client ends the leases of an earlier one.
        _set_client_name(self.context, f"test-{os.getpid()}-{next(_numbers)}".encode())
        _set_uid(self.context, uid)
        _set_gid(self.context, gid)
        _set_autoreconnect(self.context, -1)
        _set_timeout(self.context, timeout_ms)
        try:
            self.check(_mount(self.context, server.encode(), export.encode()))
        except OSError:
            _destroy(self.context)
            raise

    def check(self, code: int) -> int:
        """Returns the code. Raises OSError if it is an error."""
        if code < 0:
            raise OSError(-code, f"{os.strerror(-code)}: {(_error(self.context) or b'').decode(errors='replace')}")
        return code

    def answered(self, function: Any, *arguments: Any) -> int:
        """Result of a call. Repeats it, as hosts do, while the server answers NFS3ERR_JUKEBOX or NFS4ERR_DELAY."""
        codes: list[int] = []

        def is_answered() -> bool:
            codes.append(function(self.context, *arguments))
            return codes[-1] >= 0 or not (codes[-1] == -errno.EAGAIN or b"NFS4ERR_DELAY" in (_error(self.context) or b""))

        wait_for(is_answered, "the server takes it or refuses it")
        return self.check(codes[-1])

    def leave(self) -> None:
        _destroy(self.context)

    def open(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> File:
        """Opens a file; creates it with os.O_CREAT."""
        handle = c_void_p()
        self.check(_open2(self.context, path.encode(), flags, mode, ctypes.byref(handle)))
        return File(self, handle)

    @contextlib.contextmanager
    def opened(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> Iterator[File]:
        """`open`, with a close at the end."""
        file = self.open(path, flags, mode)
        try:
            yield file
        finally:
            file.close()

    def write_file(self, path: str, data: bytes) -> None:
        """Creates or replaces a file; the data is stable."""
        try:
            file = self.open(path, os.O_TRUNC | os.O_RDWR)
        except FileNotFoundError:
            file = self.open(path, os.O_CREAT | os.O_RDWR)
        with contextlib.closing(file):
            file.write(0, data)
            file.sync()

    def read_file(self, path: str) -> bytes:
        size, parts, done = self.size(path), [], 0
        with self.opened(path) as file:
            while done < size and (part := file.read(done, min(1 << 20, size - done))):
                parts.append(part)
                done += len(part)
        return b"".join(parts)

    def _status(self, path: str) -> _Stat:
        status = _Stat()
        self.check(_stat64(self.context, path.encode(), ctypes.byref(status)))
        return status

    def size(self, path: str) -> int:
        """Size in bytes."""
        return int(self._status(path).size)

    def used(self, path: str) -> int:
        """Allocated bytes."""
        return int(self._status(path).used)

    def space(self) -> tuple[int, int]:
        """Total and available bytes of the file system."""
        file_system = _FileSystem()
        self.check(_statvfs(self.context, b"/", ctypes.byref(file_system)))
        return int(file_system.blocks * file_system.frsize), int(file_system.bavail * file_system.frsize)

    def owner(self, path: str) -> tuple[int, int]:
        status = self._status(path)
        return int(status.uid), int(status.gid)

    def names(self, path: str = "/") -> set[str]:
        """Names in a directory, without . and .."""
        handle = c_void_p()
        self.check(_opendir(self.context, path.encode(), ctypes.byref(handle)))
        names = set()
        while entry := _readdir(self.context, handle):
            names.add(entry.contents.name.decode())
        _closedir(self.context, handle)
        return names - {".", ".."}

    def truncate(self, path: str, size: int) -> None:
        """SETATTR of the size."""
        self.answered(_truncate, path.encode(), size)

    def chmod(self, path: str, mode: int) -> None:
        """SETATTR of the mode."""
        self.check(_chmod(self.context, path.encode(), mode))

    def unlink(self, path: str) -> None:
        """REMOVE."""
        self.check(_unlink(self.context, path.encode()))

    def rename(self, old: str, new: str) -> None:
        """RENAME."""
        self.check(_rename(self.context, old.encode(), new.encode()))

    def link(self, old: str, new: str) -> None:
        """LINK."""
        self.check(_link(self.context, old.encode(), new.encode()))

    def symlink(self, target: str, path: str) -> None:
        """SYMLINK."""
        self.check(_symlink(self.context, target.encode(), path.encode()))

    def mkdir(self, path: str) -> None:
        """MKDIR."""
        self.check(_mkdir(self.context, path.encode()))

    def rmdir(self, path: str) -> None:
        """RMDIR."""
        self.check(_rmdir(self.context, path.encode()))

    def remove_tree(self, path: str) -> None:
        """Removes a file, or a folder with its content."""
        if stat.S_ISDIR(self._status(path).mode):
            for name in self.names(path):
                self.remove_tree(f"{path.rstrip('/')}/{name}")
            self.rmdir(path)
        else:
            self.unlink(path)

    def mknod(self, path: str, mode: int) -> None:
        """MKNOD."""
        self.check(_mknod(self.context, path.encode(), mode, 0))


@contextlib.contextmanager
def mounted(export: str, version: int = 3, uid: int = 0, gid: int = 0, server: str = "127.0.0.1") -> Iterator[Client]:
    """A mounted export. For an address of this machine the client uses that address too."""
    client = Client(export, version, uid, gid, server=server)
    try:
        yield client
    finally:
        client.leave()
