# SPDX-License-Identifier: Apache-2.0
"""Common to all parts of the kernel engine: running zfs and zpool, libzfs_core, holders of a dataset."""

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.zfs import errors, names
from appliance.zfs.kernel import commands, messages
from appliance.zfs.kernel.commands import Json
from appliance.zfs.kernel.library import Library
from appliance.zfs.kernel.messages import Request
from appliance.zfs.model import Properties

READ_SECONDS, CHANGE_SECONDS, POOL_SECONDS = 120.0, 60.0, 300.0
"""Time limits of reading, of a change, and of creating, importing and exporting a pool and listing its snapshots."""
DEVICE_SECONDS = 10.0
KSTAT = Path("/proc/spl/kstat/zfs")
_PROCESSES = Path("/proc")
_HOLDER_SECONDS = 20.0
"""Time limit of a scan of /proc, which takes about 20 us per open file: enough for a million files."""
_INHIBITED = Path("/sys/module/zfs/parameters/zvol_inhibit_dev")
_MAX_HOLDERS = 8


class Core(ABC):
    """OpenZFS of this machine. Pools are searched in `device_directories`, not in zpool's default folders."""

    def __init__(self, *, device_directories: Sequence[str] = ()) -> None:
        self._library = Library(CHANGE_SECONDS)
        self._search = [word for directory in device_directories for word in ("-d", directory)]

    # --- programs

    def zfs(self, request: Request, *words: str, seconds: float = CHANGE_SECONDS, stdin: bytes = b"") -> bytes:
        """Output of `zfs WORDS`. Raises the ZfsError of its message."""
        return self._run(request, (commands.ZFS, *words), seconds, stdin)

    def zpool(self, request: Request, *words: str, seconds: float = CHANGE_SECONDS) -> bytes:
        """Output of `zpool WORDS`. Raises the ZfsError of its message."""
        return self._run(request, (commands.ZPOOL, *words), seconds, b"")

    def _run(self, request: Request, words: Sequence[str], seconds: float, stdin: bytes) -> bytes:
        result = commands.run(words, seconds=seconds, stdin=stdin)
        if result.status != 0:
            raise messages.translate(request, result.complaint)
        return result.output

    def datasets_json(self, request: Request, *words: str, seconds: float = READ_SECONDS) -> Json:
        """Entries of `zfs WORDS -j` by name; empty without such datasets."""
        result = commands.run((commands.ZFS, *words), seconds=seconds)
        if result.status != 0 and "no datasets available" not in result.complaint:
            raise messages.translate(request, result.complaint)
        datasets = commands.json_of(result.output, request.operation).get("datasets", {})
        if not isinstance(datasets, dict):
            raise errors.UnexpectedFailure(request.operation, "no datasets in the JSON")
        return datasets

    # --- responsive pools

    def answering_pools(self) -> list[str]:
        """Names of the imported pools that are not suspended."""
        if not KSTAT.is_dir():
            raise errors.EngineUnavailable(messages.NOT_LOADED)
        states = {path.parent.name: path.read_text().strip() for path in KSTAT.glob("*/state")}
        return sorted(name for name, state in states.items() if state not in {"SUSPENDED", "UNAVAIL", "FAULTED"})

    def need_pool(self, name: str) -> None:
        """Raises NoSuchPool, PoolUnavailable. Call it before operations that would wait for a suspended pool."""
        path = KSTAT / name / "state"
        if not KSTAT.is_dir():
            raise errors.EngineUnavailable(messages.NOT_LOADED)
        try:
            state = path.read_text().strip()
        except OSError:
            raise errors.NoSuchPool(name) from None
        if state == "SUSPENDED":
            raise errors.PoolUnavailable(name, "suspended: its devices do not answer")

    def need_dataset(self, name: str) -> None:
        """Checks the name, and that its pool is imported and not suspended.

        Raises InvalidName, NoSuchDataset, PoolUnavailable.
        """
        names.dataset_or_snapshot_name(name)
        try:
            self.need_pool(names.pool_of(name))
        except errors.NoSuchPool:
            raise errors.NoSuchDataset(name.partition("@")[0]) from None

    def exists(self, name: str) -> bool:
        return bool(self._library.call("lzc_exists", name.encode()))

    def check_one_pool(self, datasets: Sequence[str]) -> None:
        """Raises DifferentPools."""
        if len({names.pool_of(name) for name in datasets}) > 1:
            raise errors.DifferentPools(tuple(datasets))

    # --- holders

    def wait_for_devices(self, volumes: Sequence[str]) -> None:
        """Waits until udev has made the links of new volumes, DEVICE_SECONDS at most; later ones are served later."""
        until = time.monotonic() + DEVICE_SECONDS
        for name in volumes:
            link = names.zvol_link(name)
            while not Path(link).exists() and time.monotonic() < until:
                time.sleep(0.01)

    @abstractmethod
    def properties(self, name: str) -> Properties:
        """Implemented in `datasets`."""

    def holders(self, name: str) -> tuple[str, ...]:
        self.need_dataset(name)
        if not self.exists(name):
            raise errors.NoSuchDataset(name)
        return self.holders_of([name])[name]

    def who(self, name: str) -> tuple[str, ...]:
        """Holders for the text of an error; empty if unknown."""
        try:
            return self.holders(name)
        except errors.HoldersUnknown:
            return ()

    def holders_of(self, datasets: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Holders of several datasets, by one scan of all processes. Raises HoldersUnknown if the scan is incomplete."""
        mounted = _mounted()
        holders: dict[str, list[str]] = {name: [] for name in datasets}
        devices: dict[str, str] = {}
        places: dict[str, str] = {}
        for name in datasets:
            if name in mounted:
                places[mounted[name]] = name
            elif (device := self._device_of(name)) is not None:
                devices[str(device)] = name
                holders[name] += _above(device)
        until = time.monotonic() + _HOLDER_SECONDS
        for process in _PROCESSES.iterdir() if devices or places else ():
            if not process.name.isdecimal() or int(process.name) == os.getpid():
                continue
            held = set()
            for path in _used_by(process, datasets[0]):
                if path in devices:
                    held.add(devices[path])
                held |= {name for place, name in places.items() if path == place or path.startswith(f"{place}/")}
                if time.monotonic() > until:
                    reason = f"the scan of all processes took more than {_HOLDER_SECONDS:.0f} s"
                    raise errors.HoldersUnknown(datasets[0], reason)
            for name in held:
                if len(holders[name]) < _MAX_HOLDERS:
                    holders[name].append(f"{_text(process / 'comm')} (process {process.name})")
        return {name: tuple(sorted(who)) for name, who in holders.items()}

    def _device_of(self, name: str) -> Path | None:
        """Block device of a volume; None without one. Raises HoldersUnknown if udev has not made its link (yet)."""
        link = Path(names.zvol_link(name))
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
        raise errors.HoldersUnknown(name, f"{link} is not there; run: udevadm trigger --settle --subsystem-match=block")


def _mounted() -> dict[str, str]:
    mountpoints = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, where, kind, *_ = line.split(" ")
        if kind == "zfs":
            mountpoints[source.replace("\\040", " ")] = where.replace("\\040", " ")
    return mountpoints


def _above(device: Path) -> list[str]:
    holders = Path("/sys/class/block", device.name, "holders")
    return [f"device {entry.name}" for entry in holders.iterdir()] if holders.is_dir() else []


def _used_by(process: Path, dataset: str) -> Iterator[str]:
    """Paths of a process's open files. Does not access the files, because their file system may hang.

    A process that ends meanwhile has none. Raises HoldersUnknown without permission to read it.
    """
    try:
        yield from (str(link.readlink()) for link in (process / "cwd", process / "root"))
    except (FileNotFoundError, ProcessLookupError):  # it ended, or is a kernel thread
        pass
    except OSError as problem:
        raise errors.HoldersUnknown(dataset, f"{problem.filename}: {problem.strerror}") from problem
    try:
        for link in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # closed meanwhile
                yield str(link.readlink())
    except (FileNotFoundError, ProcessLookupError):
        pass
    except OSError as problem:
        raise errors.HoldersUnknown(dataset, f"{problem.filename}: {problem.strerror}") from problem


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return "a program"
