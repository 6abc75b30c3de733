# SPDX-License-Identifier: Apache-2.0
"""What all parts of the kernel engine share: running zfs and zpool, libzfs_core, and who holds a dataset."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.zfs import names
from appliance.zfs.errors import (
    DifferentPools,
    EngineUnavailable,
    NoSuchDataset,
    NoSuchPool,
    PoolUnavailable,
    UnexpectedFailure,
)
from appliance.zfs.kernel import commands, messages
from appliance.zfs.kernel.commands import Json
from appliance.zfs.kernel.library import Library
from appliance.zfs.kernel.messages import Request

READ_SECONDS, CHANGE_SECONDS, POOL_SECONDS = 120.0, 60.0, 300.0
"""Time limits of reading, of a change, and of creating, importing and exporting a pool."""
DEVICE_SECONDS = 10.0
KSTAT = Path("/proc/spl/kstat/zfs")
_HOLDER_SECONDS = 2.0
_MAX_HOLDERS = 8


class Core:
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
            while not Path(link).exists() and (left := until - time.monotonic()) > 0:
                commands.run((commands.UDEVADM, "settle", f"--exit-if-exists={link}", f"--timeout={int(left) + 1}"), seconds=15)
                if not Path(link).exists():  # the kernel makes the device in the background, after the command has ended
                    time.sleep(0.02)

    def holders(self, name: str) -> tuple[str, ...]:
        """See ZfsEngine; as far as /proc and /sys tell."""
        self.need_dataset(name)
        if not self.exists(name):
            raise NoSuchDataset(name)
        return self.holders_of([name])[name]

    def holders_of(self, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The same of several, with one look at all processes."""
        mounted = _mounted()
        found: dict[str, list[str]] = {name: [] for name in wanted}
        devices: dict[str, str] = {}
        places: dict[str, str] = {}
        for name in wanted:
            link = Path("/dev/zvol", name)
            with contextlib.suppress(OSError):
                if link.is_symlink():
                    device = link.resolve(strict=True)
                    devices[str(device)] = name
                    found[name] += _above(device)
                elif name in mounted:
                    places[mounted[name]] = name
        until = time.monotonic() + _HOLDER_SECONDS
        for process in Path("/proc").iterdir():
            if not process.name.isdecimal() or int(process.name) == os.getpid():
                continue
            held = set()
            for path in _used_by(process):
                if path in devices:
                    held.add(devices[path])
                held |= {name for place, name in places.items() if path == place or path.startswith(f"{place}/")}
            for name in held:
                if len(found[name]) < _MAX_HOLDERS:
                    found[name].append(f"{_text(process / 'comm')} (process {process.name})")
            if time.monotonic() > until:
                break
        return {name: tuple(sorted(who)) for name, who in found.items()}


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


def _used_by(process: Path) -> Iterator[str]:
    """Paths of what a process has open. They are not looked at: that could wait for a file system that does not answer."""
    try:
        links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
    except OSError:
        return
    for link in links:
        with contextlib.suppress(OSError):
            yield str(link.readlink())


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return "a program"
