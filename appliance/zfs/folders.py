# SPDX-License-Identifier: Apache-2.0
"""Folders of files in snapshots: list them, and restore copies next to the current files.

A client may have put a link anywhere in the file system, so no link is followed, and no other file system is entered. A restore
fills an unfinished folder, named by an identifier, and renames it at the end.
"""

import contextlib
import errno
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from appliance.zfs import names
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import NoSuchSnapshot, OutOfSpace, Refused, UnexpectedFailure
from appliance.zfs.model import Filesystem

MOST_ENTRIES = 5_000
MOST_TEXT_BYTES = 256 << 10
MOST_RANGE_BYTES = 4 << 30
"""Per step, because a step blocks other changes of the pool."""
UNFINISHED = ".zvaai-restore-"
_PART_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    kind: str
    """"folder", "file" or "other"."""
    size: int
    """Size of a file, in bytes."""
    modified_at: int


class Folders(ABC):
    """Paths are names separated by single slashes; "" is the root. Any method raises the engine's errors, and Refused."""

    @abstractmethod
    def list_folder(self, snapshot: str, path: str) -> list[Entry]:
        """Folder of a snapshot of a mounted file system, sorted by name, MOST_ENTRIES at most. Raises NoSuchSnapshot, Refused."""

    @abstractmethod
    def read_text(self, snapshot: str, path: str) -> bytes:
        """A file's content, at most MOST_TEXT_BYTES. Raises Refused for a larger one."""

    @abstractmethod
    def begin_folder(self, snapshot: str, path: str, identifier: str) -> None:
        """Creates the unfinished folder in the parent of `path`, with the snapshot's owner and mode, unless it exists."""

    @abstractmethod
    def restore_range(self, snapshot: str, path: str, identifier: str, file: str, offset: int, length: int) -> int:
        """Copies a range of a snapshot's file into the unfinished folder, by block cloning if OpenZFS can.

        Returns the bytes, fewer at the file's end. Offset 0 recreates the file, with owner, mode and time of the source. `length`
        is at most MOST_RANGE_BYTES. Raises OutOfSpace.
        """

    @abstractmethod
    def restore_text(self, snapshot: str, path: str, identifier: str, file: str, text: bytes) -> None:
        """Creates a file with this text, and owner and mode of the snapshot's file. Raises OutOfSpace."""

    @abstractmethod
    def end_folder(self, snapshot: str, path: str, identifier: str, called: str) -> None:
        """Renames the unfinished folder. Raises Refused if the name exists."""

    @abstractmethod
    def undo_folder(self, snapshot: str, path: str, identifier: str) -> None:
        """Removes the unfinished folder with its files, if it exists."""


class SnapshotFolders(Folders):
    """Folders by the kernel. `place` returns a file system's mountpoint, or raises Refused. Root only."""

    def __init__(self, engine: ZfsEngine, place: Callable[[Filesystem], str]) -> None:
        self._engine, self._place = engine, place

    def list_folder(self, snapshot: str, path: str) -> list[Entry]:
        rows: list[Entry] = []
        with self._snapshot(snapshot, path) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if len(rows) == MOST_ENTRIES:
                    raise Refused(f"{path or 'the root'} has more than {MOST_ENTRIES} entries")
                status = entry.stat(follow_symlinks=False)
                kind = "folder" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "other"
                size = status.st_size if kind == "file" else 0
                with contextlib.suppress(UnicodeEncodeError):  # skips undecodable names
                    entry.name.encode()
                    rows.append(Entry(name=entry.name, kind=kind, size=size, modified_at=int(status.st_mtime)))
        return sorted(rows, key=lambda entry: entry.name)

    def read_text(self, snapshot: str, path: str) -> bytes:
        with self._file(snapshot, path) as file:
            if os.fstat(file).st_size > MOST_TEXT_BYTES:
                raise Refused(f"{path} has more than {MOST_TEXT_BYTES} bytes")
            parts = []
            while part := os.read(file, 1 << 16):
                parts.append(part)
        return b"".join(parts)

    def begin_folder(self, snapshot: str, path: str, identifier: str) -> None:
        with self._snapshot(snapshot, path) as like, self._current_parent(snapshot, path) as parent:
            with contextlib.suppress(FileExistsError):
                os.mkdir(_unfinished(identifier), 0o700, dir_fd=parent)
            with _within(parent, _unfinished(identifier)) as folder:
                _copy_owner(folder, os.fstat(like))

    def restore_range(self, snapshot: str, path: str, identifier: str, file: str, offset: int, length: int) -> int:
        if not 0 <= offset < 1 << 63 or not 0 < length <= MOST_RANGE_BYTES:
            raise Refused(f"a range of {length} bytes at {offset}")
        with (
            self._file(snapshot, path) as source,
            self._made(snapshot, path, identifier) as folder,
            _destination(folder, file, new=offset == 0) as made,
            _space(path),
        ):
            _copy_owner(made, os.fstat(source))
            copied = 0
            while copied < length:
                part = min(_PART_BYTES, length - copied)
                count = os.copy_file_range(source, made, part, offset + copied, offset + copied)
                if count == 0:
                    break
                copied += count
            if copied < length:  # the end of the file: a hole at the end has no bytes to copy
                status = os.fstat(source)
                os.ftruncate(made, status.st_size)
                os.fsync(made)
                os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
        return copied

    def restore_text(self, snapshot: str, path: str, identifier: str, file: str, text: bytes) -> None:
        if len(text) > MOST_TEXT_BYTES:
            raise Refused(f"a text of {len(text)} bytes")
        with (
            self._file(snapshot, path) as source,
            self._made(snapshot, path, identifier) as folder,
            _destination(folder, file, new=True) as made,
            _space(path),
        ):
            _copy_owner(made, os.fstat(source))
            done = 0
            while done < len(text):
                done += os.write(made, text[done:])
            os.fsync(made)

    def end_folder(self, snapshot: str, path: str, identifier: str, called: str) -> None:
        with self._current_parent(snapshot, path) as parent:
            if _exists(parent, _component(called)):
                raise Refused(f"the folder {called} exists; if this job was interrupted at its end, it is the restored VM")
            os.rename(_unfinished(identifier), called, src_dir_fd=parent, dst_dir_fd=parent)
            os.fsync(parent)

    def undo_folder(self, snapshot: str, path: str, identifier: str) -> None:
        with self._current_parent(snapshot, path) as parent:
            if not _exists(parent, _unfinished(identifier)):
                return
            with _within(parent, _unfinished(identifier)) as folder:
                for name in os.listdir(folder):  # noqa: PTH208  # by descriptor
                    os.unlink(name, dir_fd=folder)
            os.rmdir(_unfinished(identifier), dir_fd=parent)

    # --- paths

    @contextlib.contextmanager
    def _root(self, snapshot: str, below: str) -> Iterator[int]:
        """`below`: the snapshot's folder in its file system, or "" for the current files."""
        names.snapshot_name(snapshot)
        dataset = snapshot.partition("@")[0]
        filesystem = self._engine.filesystem(dataset)
        if not filesystem.mounted:
            raise Refused(f"{dataset} is not mounted")
        place = self._place(filesystem)
        try:
            root = os.open(f"{place}/{below}" if below else place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NoSuchSnapshot(snapshot) from None
        except OSError as problem:
            raise UnexpectedFailure("folder", f"{place}: {problem.strerror}") from problem
        try:
            yield root
        finally:
            os.close(root)

    @contextlib.contextmanager
    def _snapshot(self, snapshot: str, path: str) -> Iterator[int]:
        with self._root(snapshot, f".zfs/snapshot/{snapshot.partition('@')[2]}") as root, _walked(root, path) as folder:
            yield folder

    @contextlib.contextmanager
    def _file(self, snapshot: str, path: str) -> Iterator[int]:
        above, _, name = path.rpartition("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._snapshot(snapshot, above) as folder, _opened(_component(name), flags, folder) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(f"{path} is not a file")
            yield file

    @contextlib.contextmanager
    def _current_parent(self, snapshot: str, path: str) -> Iterator[int]:
        if not path:
            raise Refused("the root of a datastore lies in no folder")
        with self._root(snapshot, "") as root, _walked(root, path.rpartition("/")[0]) as folder:
            yield folder

    @contextlib.contextmanager
    def _made(self, snapshot: str, path: str, identifier: str) -> Iterator[int]:
        """The unfinished folder; `path` is that of a file in the snapshot's folder."""
        with (
            self._current_parent(snapshot, path.rpartition("/")[0]) as parent,
            _within(parent, _unfinished(identifier)) as folder,
        ):
            yield folder


def _component(name: str) -> str:
    """One name. Raises Refused."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(name.encode(errors="replace")) > 255:
        raise Refused(f"{name[:300]!r} is not a name of a file")
    return name


def _unfinished(identifier: str) -> str:
    if not re.fullmatch(r"[0-9a-f-]{36}", identifier):
        raise Refused("an identifier is a UUID in lower case")
    return f"{UNFINISHED}{identifier}"


@contextlib.contextmanager
def _opened(name: str, flags: int, folder: int) -> Iterator[int]:
    try:
        file = os.open(name, flags, 0o600, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.EDQUOT, errno.ENOSPC):
            raise OutOfSpace(name, quota=problem.errno == errno.EDQUOT) from problem
        raise Refused(f"{name}: {problem.strerror}") from problem
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _destination(folder: int, name: str, *, new: bool) -> Iterator[int]:
    """A file of an unfinished folder, to be written. Clients see the folder: their FIFO or link in it must not be opened."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if new else 0)
    with _opened(_component(name), flags, folder) as made:
        if not stat.S_ISREG(os.fstat(made).st_mode):
            raise Refused(f"{name} is not a file")
        if new:
            os.ftruncate(made, 0)
        yield made


@contextlib.contextmanager
def _space(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.EDQUOT, errno.ENOSPC):
            raise OutOfSpace(path, quota=problem.errno == errno.EDQUOT) from problem
        raise UnexpectedFailure("restore", f"{path}: {problem.strerror}") from problem


@contextlib.contextmanager
def _within(folder: int, name: str) -> Iterator[int]:
    with _opened(_component(name), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, folder) as inner:
        if os.fstat(inner).st_dev != os.fstat(folder).st_dev:
            raise Refused(f"{name} is another file system")
        yield inner


@contextlib.contextmanager
def _walked(root: int, path: str) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        folder = root
        for name in path.split("/") if path else ():
            folder = stack.enter_context(_within(folder, name))
        yield folder


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _copy_owner(file: int, like: os.stat_result) -> None:
    os.fchown(file, like.st_uid, like.st_gid)
    os.fchmod(file, stat.S_IMODE(like.st_mode) & 0o777)
