# SPDX-License-Identifier: Apache-2.0
"""What all parts of the kernel engine share: running zfs and zpool, libzfs_core, and who holds a dataset."""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.zfs import names
from appliance.zfs.errors import (
    DifferentPools,
    EngineUnavailable,
    HoldersUnknown,
    NoSuchDataset,
    NoSuchPool,
    PoolUnavailable,
    UnexpectedFailure,
)
from appliance.zfs.kernel import commands, messages
from appliance.zfs.kernel.commands import Json
from appliance.zfs.kernel.library import Library
from appliance.zfs.kernel.messages import Request
from appliance.zfs.model import Properties

READ_SECONDS, CHANGE_SECONDS, POOL_SECONDS = 120.0, 60.0, 300.0
"""Time limits of reading, of a change, and of creating, importing and exporting a pool."""
DEVICE_SECONDS = 10.0
KSTAT = Path("/proc/spl/kstat/zfs")
_PROCESSES = Path("/proc")
_HOLDER_SECONDS = 20.0
"""A scan of /proc costs about 20 us for each open file: enough for a million of them."""
_INHIBITED = Path("/sys/module/zfs/parameters/zvol_inhibit_dev")
_MAX_HOLDERS = 8


class Core(ABC):
    """OpenZFS of this machine. `device_directories` are searched for pools instead of what zpool searches by itself."""

    def __init__(self, *, device_directories: Sequence[str] = ()) -> None:
        self._library = Library(CHANGE_SECONDS)
        self._search = [word for directory in device_directories for word in ("-d", directory)]

    # --- programs

    def zfs(self, request: Request, *words: str, seconds: float = CHANGE_SECONDS, stdin: bytes = b"") -> bytes:
        """Output of `zfs WORDS`. Raises what its message means."""
        return self._run(request, (commands.ZFS, *words), seconds, stdin)

    def zpool(self, request: Request, *words: str, seconds: float = CHANGE_SECONDS) -> bytes:
        """Output of `zpool WORDS`. Raises what its message means."""
        return self._run(request, (commands.ZPOOL, *words), seconds, b"")

    def _run(self, request: Request, words: Sequence[str], seconds: float, stdin: bytes) -> bytes:
        result = commands.run(words, seconds=seconds, stdin=stdin)
        if result.status != 0:
            raise messages.translate(request, result.complaint)
        return result.output

    def datasets_json(self, request: Request, *words: str) -> Json:
        """The entries of `zfs WORDS -j`, by name; none when there are no such datasets."""
        result = commands.run((commands.ZFS, *words), seconds=READ_SECONDS)
        if result.status != 0 and "no datasets available" not in result.complaint:
            raise messages.translate(request, result.complaint)
        found = commands.json_of(result.output, request.operation).get("datasets", {})
        if not isinstance(found, dict):
            raise UnexpectedFailure(request.operation, "no datasets in the JSON")
        return found

    # --- pools that answer

    def answering_pools(self) -> list[str]:
        """Names of the imported pools that are not suspended."""
        if not KSTAT.is_dir():
            raise EngineUnavailable("OpenZFS is not loaded")
        states = {path.parent.name: path.read_text().strip() for path in KSTAT.glob("*/state")}
        return sorted(name for name, state in states.items() if state not in {"SUSPENDED", "UNAVAIL", "FAULTED"})

    def need_pool(self, name: str) -> None:
        """Raises NoSuchPool, PoolUnavailable: asked before anything that would wait for a suspended pool."""
        path = KSTAT / name / "state"
        if not KSTAT.is_dir():
            raise EngineUnavailable("OpenZFS is not loaded")
        try:
            state = path.read_text().strip()
        except OSError:
            raise NoSuchPool(name) from None
        if state == "SUSPENDED":
            raise PoolUnavailable(name, "suspended: its devices do not answer")

    def need_dataset(self, name: str) -> None:
        """Checks the name, and that its pool is there and answers. Raises InvalidName, NoSuchDataset, PoolUnavailable."""
        names.dataset_or_snapshot_name(name)
        try:
            self.need_pool(names.pool_of(name))
        except NoSuchPool:
            raise NoSuchDataset(name.partition("@")[0]) from None

    def exists(self, name: str) -> bool:
        """Whether a dataset or snapshot of this name is there."""
        return bool(self._library.call("lzc_exists", name.encode()))

    def one_pool(self, wanted: Sequence[str]) -> None:
        """Raises DifferentPools."""
        if len({names.pool_of(name) for name in wanted}) > 1:
            raise DifferentPools(tuple(wanted))

    # --- who is in the way

    def wait_for_devices(self, volumes: Sequence[str]) -> None:
        """Until udev has made the links of new or renamed volumes, DEVICE_SECONDS at most: what comes later is served later."""
        until = time.monotonic() + DEVICE_SECONDS
        for name in volumes:
            link = f"/dev/zvol/{name}"
            while not Path(link).exists() and time.monotonic() < until:
                time.sleep(0.01)

    @abstractmethod
    def properties(self, name: str) -> Properties:
        """See ZfsEngine; in `datasets`."""

    def holders(self, name: str) -> tuple[str, ...]:
        """See ZfsEngine; as far as /proc and /sys tell."""
        self.need_dataset(name)
        if not self.exists(name):
            raise NoSuchDataset(name)
        return self.holders_of([name])[name]

    def who(self, name: str) -> tuple[str, ...]:
        """The same for the text of an error: none when that can't be found out."""
        try:
            return self.holders(name)
        except HoldersUnknown:
            return ()

    def holders_of(self, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The same of several, by one scan of all processes. Raises HoldersUnknown when the scan is not complete."""
        mounted = _mounted()
        found: dict[str, list[str]] = {name: [] for name in wanted}
        devices: dict[str, str] = {}
        places: dict[str, str] = {}
        for name in wanted:
            if name in mounted:
                places[mounted[name]] = name
            elif (device := self._device_of(name)) is not None:
                devices[str(device)] = name
                found[name] += _above(device)
        until = time.monotonic() + _HOLDER_SECONDS
        for process in _PROCESSES.iterdir() if devices or places else ():
            if not process.name.isdecimal() or int(process.name) == os.getpid():
                continue
            held = set()
            for path in _used_by(process, wanted[0]):
                if path in devices:
                    held.add(devices[path])
                held |= {name for place, name in places.items() if path == place or path.startswith(f"{place}/")}
                if time.monotonic() > until:
                    reason = f"the scan of all processes took more than {_HOLDER_SECONDS:.0f} s"
                    raise HoldersUnknown(wanted[0], reason)
            for name in held:
                if len(found[name]) < _MAX_HOLDERS:
                    found[name].append(f"{_text(process / 'comm')} (process {process.name})")
        return {name: tuple(sorted(who)) for name, who in found.items()}

    def _device_of(self, name: str) -> Path | None:
        """The block device of a volume; None for what has none. Raises HoldersUnknown for one that udev does not show (yet)."""
        link = Path("/dev/zvol", name)
        with contextlib.suppress(OSError):
            if link.is_symlink():
                return link.resolve(strict=True)
        properties = self.properties(name)
        if properties["type"].value != "volume" or properties["volmode"].value == "none":
            return None
        if "keystatus" in properties and properties["keystatus"].value == "unavailable":
            return None
        if _text(_INHIBITED) == "1":
            return None
        raise HoldersUnknown(name, f"{link} is not there; run: udevadm trigger --settle --subsystem-match=block")


def _mounted() -> dict[str, str]:
    """Where the file systems of this mount namespace are, by their names."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, where, kind, *_ = line.split(" ")
        if kind == "zfs":
            found[source.replace("\\040", " ")] = where.replace("\\040", " ")
    return found


def _above(device: Path) -> list[str]:
    """Other block devices the kernel has on it."""
    holders = Path("/sys/class/block", device.name, "holders")
    return [f"device {entry.name}" for entry in holders.iterdir()] if holders.is_dir() else []


def _used_by(process: Path, wanted: str) -> Iterator[str]:
    """Paths of what a process has open. The files themselves are not touched: their file system may hang.

    A process that ends meanwhile holds nothing. Raises HoldersUnknown for one that may not be read.
    """
    try:
        yield from (str(link.readlink()) for link in (process / "cwd", process / "root"))
    except (FileNotFoundError, ProcessLookupError):  # it ended, or is a thread of the kernel
        pass
    except OSError as problem:
        raise HoldersUnknown(wanted, f"{problem.filename}: {problem.strerror}") from problem
    try:
        for link in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # closed meanwhile
                yield str(link.readlink())
    except (FileNotFoundError, ProcessLookupError):
        pass
    except OSError as problem:
        raise HoldersUnknown(wanted, f"{problem.filename}: {problem.strerror}") from problem


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return "a program"
