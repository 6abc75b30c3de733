# SPDX-License-Identifier: Apache-2.0
"""Allowed mountpoints of file systems, whatever the caller requests.

A mount in another place, or a set-uid file, could make the caller root. A mountpoint is one name below a directory that only root
can write. It is never inherited, because a client may have made a link below a mounted file system. All mounts are nosuid, nodev
and noexec. Snapshots below .zfs/snapshot are not: OpenZFS mounts them itself. So only root and the users of target and worker may
enter the directory (packaging/systemd/zvaai.tmpfiles). A pool with the running system is never changed.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from appliance.helper.pool_locks import pools_of
from appliance.zfs import names
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import NoSuchDataset, Refused, UnexpectedFailure, ZfsError
from appliance.zfs.model import Filesystem, Pool
from appliance.zfs.mountinfo import stack, topmost

RESERVATIONS = "zvaai-reservations"
"""POOL/NAME of the dataset where the target stores the persistent reservations of the pool's LUNs; the target's user owns it."""

_OF_RESERVATIONS = ".reservations-"
"""Its mountpoint, followed by the pool's GUID."""

SAFE = {"setuid": "off", "devices": "off", "exec": "off", "sharenfs": "off", "sharesmb": "off"}
"""Properties of each mount. The file system at a pool's root can share all below it: without a server for it, creation fails."""
_log = logging.getLogger("zvaai-helper")


def is_allowed(mountpoint: str, directories: Collection[str]) -> bool:
    """Whether the path is one name below one of the directories, which end in a slash."""
    beginning, _, name = mountpoint.rpartition("/")
    return f"{beginning}/" in directories and name not in {"", ".", ".."}


SYSTEM = ("/", "/usr", "/var", "/boot", "/var/lib/zvaai", "/var/lib/zvaai-helper")
"""Paths of the running system: a rollback or an export of their pool would stop it."""

_BLKZNAME = 0x8100_127D
"""ioctl for the name of a volume: _IOR(0x12, 125, char[256]) of OpenZFS's sys/fs/zfs.h, as zvol_id calls it."""


def pools_of_the_system(
    table: Path = Path("/proc/self/mounts"), swaps: Path = Path("/proc/swaps"), paths: Collection[str] = SYSTEM
) -> frozenset[str]:
    """Pools with one of the paths or swap space. Other mounts do not make a pool part of the system."""
    mounted: dict[str, str | None] = {}
    for line in table.read_text().splitlines():
        source, where, kind, *_ = line.split(" ")
        mounted[_plain(where)] = names.pool_of(_plain(source)) if kind == "zfs" else None  # later mounts hide earlier ones
    pools = {mounted[above] for path in paths if (above := _mount_of(path, mounted)) is not None}
    pools |= {_pool_of_device(line.split()[0]) for line in swaps.read_text().splitlines()[1:] if line.startswith("/dev/zd")}
    return frozenset(pool for pool in pools if pool is not None)


def _mount_of(path: str, mounted: Collection[str]) -> str | None:
    above = [where for where in mounted if path == where or path.startswith(where.rstrip("/") + "/")]
    return max(above, key=len) if above else None


def _plain(field: str) -> str:
    return field.replace("\\040", " ")


def _pool_of_device(device: str) -> str:
    """Pool of a volume with swap. Raises UnexpectedFailure, because a guess would be unsafe."""
    try:
        with Path(device).open("rb", buffering=0) as file:
            name: bytes = fcntl.ioctl(file, _BLKZNAME, bytes(256))
    except OSError as problem:
        raise UnexpectedFailure("swap", f"cannot find the pool of swap device {device}: {problem}") from problem
    return names.pool_of(name.rstrip(b"\0").decode())


def give_folder(path: str, user: int) -> None:
    """Changes the owner of a folder and its files, because another server may use another user number. Follows no link."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in os.listdir(folder):  # noqa: PTH208  # by descriptor: the path may be another by now
            os.chown(name, user, -1, dir_fd=folder, follow_symlinks=False)
        os.fchmod(folder, 0o700)
        os.fchown(folder, user, -1)
    finally:
        os.close(folder)


def _may_mount(properties: Mapping[str, str]) -> bool:
    return properties.get("canmount") == "on" or properties.get("mountpoint", "none") != "none"


def refuse_copy(filesystem: Filesystem) -> None:
    """Refuses a copy of a datastore: its `zvaai:guid` names another dataset, with the same mountpoint."""
    guid = filesystem.properties.get("zvaai:guid")
    if guid is not None and guid.value != str(filesystem.guid):
        raise Refused("it is a copy of a datastore")


def is_of_reservations(name: str, mountpoint: str) -> bool:
    return name.partition("/")[2] == RESERVATIONS or mountpoint.rpartition("/")[2].startswith(_OF_RESERVATIONS)


def _refuse_reservations_of_another_pool(engine: ZfsEngine, name: str, mountpoint: str | None) -> None:
    """Refuses persistent reservations at another pool's mountpoint, as received copies have it, and any other dataset there."""
    pool, _, rest = name.partition("/")
    place = (mountpoint or "none").rpartition("/")[2]
    if place == "none" or (rest != RESERVATIONS and not place.startswith(_OF_RESERVATIONS)):
        return
    if rest != RESERVATIONS or place != f"{_OF_RESERVATIONS}{engine.pool(pool).guid}":
        raise Refused(f"{mountpoint} is not the place of {name}: the persistent reservations of each pool have a separate one")


def is_original(engine: ZfsEngine, filesystem: Filesystem) -> bool:
    """Whether it may use its mountpoint: it is not a copy of a datastore or of persistent reservations."""
    try:
        refuse_copy(filesystem)
        _refuse_reservations_of_another_pool(engine, filesystem.name, filesystem.mountpoint)
    except Refused:
        return False
    return True


def elsewhere(filesystems: Iterable[Filesystem], directories: Collection[str]) -> list[Filesystem]:
    """File systems that `zfs mount -a` would mount outside the directories."""
    return [
        filesystem
        for filesystem in filesystems
        if filesystem.properties["canmount"].value == "on"
        and filesystem.mountpoint is not None
        and not is_allowed(filesystem.mountpoint, directories)
    ]


class Mounts:
    def __init__(
        self,
        directories: Collection[str],
        system: Callable[[], Collection[str]],
        target_user: int | None = None,
        pools: Collection[str] | None = None,
        allow: Callable[[str, int], None] | None = None,
    ) -> None:
        """`pools`: only these are unmounted. None: all. `allow` permits a user to reserve space in a pool."""
        self._allow = allow
        self._directories = tuple(directories)
        self._system, self._pools = system, pools
        self._target_user = target_user

    def place(self, filesystem: Filesystem) -> str:
        """Path of its files: the file system must be visible at a mountpoint below our directories. Raises Refused."""
        place = filesystem.mountpoint or ""
        if not is_allowed(place, self._directories) or topmost(place) != filesystem.name:
            raise Refused(f"{filesystem.name} is not mounted below {' or '.join(self._directories)}")
        refuse_copy(filesystem)
        return place

    def marked(self, pools: Iterable[Pool]) -> list[Pool]:
        system = self._system()
        return [replace(pool, of_the_system=pool.name in system) for pool in pools]

    def before(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks an operation and returns its arguments, possibly changed. Raises Refused."""
        self._not_the_system(arguments)
        changed = dict(arguments)
        if operation == "create_filesystem":
            changed["properties"] = self._made(engine, arguments["name"], arguments["properties"])
        elif operation == "clone":
            if self._is_filesystem(engine, arguments["snapshot"].partition("@")[0]):
                changed["properties"] = self._made(engine, arguments["name"], arguments["properties"])
        elif operation == "create_pool":
            changed["filesystem_properties"] = {**(arguments["filesystem_properties"] or {}), **SAFE}
        elif operation == "mount":
            filesystem = engine.filesystem(arguments["name"])
            self._here(filesystem, {})
            _refuse_reservations_of_another_pool(engine, filesystem.name, filesystem.mountpoint)
            self._nothing_over(filesystem, self._copies_over(engine, filesystem))
        elif operation == "set_properties" and _may_mount(arguments["properties"]):
            filesystem = engine.filesystem(arguments["name"])
            self._here(filesystem, arguments["properties"])
            if "mountpoint" in arguments["properties"]:
                self._nothing_below(engine, filesystem.name)
            _refuse_reservations_of_another_pool(
                engine, filesystem.name, arguments["properties"].get("mountpoint", filesystem.mountpoint)
            )
            changed["properties"] = {**arguments["properties"], **SAFE}
        return changed

    def clear(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any]) -> None:
        """Unmounts copies that would hide the new mount, unless they are in use. Raises DatasetBusy, Refused."""
        if operation != "mount":
            return
        filesystem = engine.filesystem(arguments["name"])
        for name in self._copies_over(engine, filesystem):
            engine.unmount(name)
            _log.warning("%s was unmounted from %s, the mountpoint of %s", name, filesystem.mountpoint, filesystem.name)
        self._nothing_over(filesystem)

    def after(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Mounts the allowed file systems of an imported pool; the others get canmount=noauto.

        Changes the owner of the reservations' folder to the target's user.
        """
        if operation in {"create_filesystem", "mount", "set_properties"}:
            self._give(engine, arguments["name"])
        if operation != "import_pool" or not isinstance(result, Pool):
            return
        filesystems = engine.filesystems(result.name)
        for filesystem in elsewhere(filesystems, self._directories):  # first: `zfs mount -a` would mount these at the next boot
            try:
                engine.set_properties(filesystem.name, {"canmount": "noauto"})
                _log.warning("%s is not mounted at %s, now or at the next boot", filesystem.name, filesystem.mountpoint)
            except ZfsError as problem:  # the worker sets it again, and reports it
                _log.error("%s may be mounted at %s at the next boot: %s", filesystem.name, filesystem.mountpoint, problem)
        for filesystem in filesystems:
            if filesystem.properties["canmount"].value == "on" and is_allowed(filesystem.mountpoint or "", self._directories):
                try:
                    refuse_copy(filesystem)
                    _refuse_reservations_of_another_pool(engine, filesystem.name, filesystem.mountpoint)
                    self._nothing_over(filesystem)
                    engine.mount(filesystem.name)
                    self._give(engine, filesystem.name)
                except ZfsError as problem:
                    _log.warning("%s is not mounted: %s", filesystem.name, problem)

    def _copies_over(self, engine: ZfsEngine, filesystem: Filesystem) -> list[str]:
        """Copies that `zpool import` mounted over a datastore, topmost first, down to the first mount of another dataset.

        None if `filesystem` may not use the mountpoint itself. Raises Refused for a copy with mounted children, because these
        would be unmounted too.
        """
        place = filesystem.mountpoint or ""
        sure = "zvaai:guid" in filesystem.properties or is_of_reservations(filesystem.name, place)
        mounted = stack(place)
        if not mounted or mounted[-1] == filesystem.name or not sure or not is_original(engine, filesystem):
            return []
        filesystems = engine.filesystems()
        copies = {
            other.name
            for other in filesystems
            if other.mountpoint == place and not is_original(engine, other) and self._ours(names.pool_of(other.name))
        }
        over = list(takewhile(copies.__contains__, reversed(mounted)))
        for name in over:
            child = next((other for other in filesystems if other.mounted and other.name.startswith(f"{name}/")), None)
            if child is not None:
                raise Refused(f"{name} is mounted at {place}, and so is {child.name} below it, at {child.mountpoint}")
        return over

    def _ours(self, pool: str) -> bool:
        return (self._pools is None or pool in self._pools) and pool not in self._system()

    def _nothing_over(self, filesystem: Filesystem, going: Collection[str] = ()) -> None:
        """Raises Refused if another file system hides this one: with overlay=on a received copy may have the same mountpoint.
        Mounts in `going`, which will be unmounted, do not count.
        """
        left = [name for name in stack(filesystem.mountpoint or "") if name not in going]
        if left and left[-1] != filesystem.name:
            raise Refused(f"{left[-1]} is mounted at {filesystem.mountpoint}")

    def _give(self, engine: ZfsEngine, name: str) -> None:
        pool, _, rest = name.partition("/")
        if rest != RESERVATIONS or self._target_user is None:
            return
        filesystem = engine.filesystem(name)
        if not filesystem.mounted or not is_allowed(filesystem.mountpoint or "", self._directories):
            return
        try:
            give_folder(str(filesystem.mountpoint), self._target_user)
            if self._allow is not None:
                self._allow(pool, self._target_user)
        except (OSError, ZfsError) as problem:
            _log.warning("the target gets no rights in pool %s: %s", pool, problem)

    def _not_the_system(self, arguments: Mapping[str, Any]) -> None:
        for pool in pools_of(arguments) & frozenset(self._system()):
            raise Refused(
                f"pool {pool} carries the running system ({', '.join(SYSTEM[:4])}, swap, or the appliance's state), so the"
                " appliance does not change it"
            )

    def _made(self, engine: ZfsEngine, name: str, properties: Mapping[str, str] | None) -> dict[str, str]:
        made = {**(properties or {}), **SAFE}
        _refuse_reservations_of_another_pool(engine, name, made.get("mountpoint"))
        if "mountpoint" not in made and made.get("canmount", "on") == "on":
            self._no_mountpoint_above(engine, name)
        return made

    def _nothing_below(self, engine: ZfsEngine, name: str) -> None:
        """With the mountpoint, OpenZFS would mount what inherits it."""
        below = [other.name for other in engine.filesystems(name) if other.name.startswith(f"{name}/")]
        if below:
            raise Refused(f"{below[0]} lies below {name}, and would be mounted too")

    def _no_mountpoint_above(self, engine: ZfsEngine, name: str) -> None:
        try:
            above = engine.filesystem(name.rpartition("/")[0])
        except NoSuchDataset:
            return  # the engine reports it
        if above.mountpoint is not None:
            raise Refused(f"{name} would be mounted below {above.mountpoint}: say mountpoint=none, or where")

    def _here(self, filesystem: Filesystem, properties: Mapping[str, str]) -> None:
        mountpoint = properties.get("mountpoint", filesystem.mountpoint or "none")
        if mountpoint != "none" and not is_allowed(mountpoint, self._directories):
            raise Refused(
                f"{filesystem.name} would be mounted at {mountpoint}: one name below {' or '.join(self._directories)} only"
            )

    def _is_filesystem(self, engine: ZfsEngine, name: str) -> bool:
        try:
            return engine.properties(name)["type"].value == "filesystem"
        except NoSuchDataset:
            return False  # the engine reports it
