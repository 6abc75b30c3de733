# SPDX-License-Identifier: Apache-2.0
"""Where file systems come to be mounted, whatever the caller says.

A mount in the wrong place, or a set-uid file, would make root of the caller. A mountpoint is one name below a directory that is
root's own. It is never inherited: below a mounted file system a client may have put a link where the mount would go. Nothing that
is mounted has set-uid files, devices or programs. A pool that carries the running system is not changed at all.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from appliance.zfs import names
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import NoSuchDataset, Refused, UnexpectedFailure, ZfsError
from appliance.zfs.model import Filesystem, Pool, Source
from appliance.zfs.mountinfo import stack, topmost

RESERVATIONS = "zvaai-reservations"
"""POOL/this is where the target keeps the persistent reservations of the pool's LUNs, and its user's."""

_OF_RESERVATIONS = ".reservations-"
"""Where that is mounted: this and the pool's GUID."""

SAFE = {"setuid": "off", "devices": "off", "exec": "off"}
_log = logging.getLogger("zvaai-helper")


def is_allowed(mountpoint: str, directories: Collection[str]) -> bool:
    """Whether it is exactly one name below one of the directories, which end in a slash."""
    beginning, _, name = mountpoint.rpartition("/")
    return f"{beginning}/" in directories and name not in {"", ".", ".."}


SYSTEM = ("/", "/usr", "/var", "/boot", "/var/lib/zvaai", "/var/lib/zvaai-helper")
"""What carries one of these carries the running system: a rollback or an export there would stop it."""

_BLKZNAME = 0x8100_127D
"""The name of a volume by its device: _IOR(0x12, 125, char[256]) of OpenZFS's sys/fs/zfs.h, as zvol_id calls it."""


def pools_of_the_system(
    table: Path = Path("/proc/self/mounts"), swaps: Path = Path("/proc/swaps"), paths: Collection[str] = SYSTEM
) -> frozenset[str]:
    """Pools that carry one of the paths, or swap space. What is mounted anywhere else does not make a pool the system's."""
    mounted: dict[str, str | None] = {}
    for line in table.read_text().splitlines():
        source, where, kind, *_ = line.split(" ")
        mounted[_plain(where)] = names.pool_of(_plain(source)) if kind == "zfs" else None  # later ones lie over earlier ones
    found = {mounted[above] for path in paths if (above := _mount_of(path, mounted)) is not None}
    found |= {_pool_of_device(line.split()[0]) for line in swaps.read_text().splitlines()[1:] if line.startswith("/dev/zd")}
    return frozenset(pool for pool in found if pool is not None)


def _mount_of(path: str, mounted: Collection[str]) -> str | None:
    """The longest mountpoint at or above the path."""
    above = [where for where in mounted if path == where or path.startswith(where.rstrip("/") + "/")]
    return max(above, key=len) if above else None


def _plain(field: str) -> str:
    return field.replace("\\040", " ")


def _pool_of_device(device: str) -> str:
    """Of a volume. Raises UnexpectedFailure: the pool that swap lies on must not be guessed."""
    try:
        with Path(device).open("rb", buffering=0) as file:
            name: bytes = fcntl.ioctl(file, _BLKZNAME, bytes(256))
    except OSError as problem:
        raise UnexpectedFailure("swap", f"cannot find the pool of swap device {device}: {problem}") from problem
    return names.pool_of(name.rstrip(b"\0").decode())


def give_folder(path: str, user: int) -> None:
    """A folder and the files in it, which came from another server, where the user had another number. No link is followed."""
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


def its_own(filesystem: Filesystem) -> None:
    """Refuses a datastore that says it is another dataset: a copy, which has its mountpoint too."""
    guid = filesystem.properties.get("zvaai:guid")
    if guid is not None and guid.value != str(filesystem.guid):
        raise Refused("it is a copy of a datastore")


def is_of_reservations(name: str, mountpoint: str) -> bool:
    """Whether a dataset or its place is that of a pool's persistent reservations."""
    return name.partition("/")[2] == RESERVATIONS or mountpoint.rpartition("/")[2].startswith(_OF_RESERVATIONS)


def _reservations_of_its_own(engine: ZfsEngine, name: str, mountpoint: str | None) -> None:
    """Refuses a pool's persistent reservations in another pool's place, as received copies have it; and anything else in one."""
    pool, _, rest = name.partition("/")
    place = (mountpoint or "none").rpartition("/")[2]
    if place == "none" or (rest != RESERVATIONS and not place.startswith(_OF_RESERVATIONS)):
        return
    if rest != RESERVATIONS or place != f"{_OF_RESERVATIONS}{engine.pool(pool).guid}":
        raise Refused(f"{mountpoint} is not the place of {name}: the persistent reservations of each pool have one of their own")


def is_its_own(engine: ZfsEngine, filesystem: Filesystem) -> bool:
    """Whether the place it has is its own: it is no copy of a datastore, nor of a pool's persistent reservations."""
    try:
        its_own(filesystem)
        _reservations_of_its_own(engine, filesystem.name, filesystem.mountpoint)
    except Refused:
        return False
    return True


def elsewhere(filesystems: Iterable[Filesystem], directories: Collection[str]) -> list[Filesystem]:
    """Those that `zfs mount -a` would mount, but not below one of the directories."""
    return [
        one
        for one in filesystems
        if one.properties["canmount"].value == "on" and one.mountpoint is not None and not is_allowed(one.mountpoint, directories)
    ]


class Mounts:
    """What is looked at and done before and after the operations that mount."""

    def __init__(
        self,
        directories: Collection[str],
        system: Callable[[], Collection[str]],
        target_user: int | None = None,
        pools: Collection[str] | None = None,
        allow: Callable[[str, int], None] | None = None,
    ) -> None:
        """`pools`: of others nothing is unmounted. None: there are no others. `allow` lets a user reserve space in a pool."""
        self._allow = allow
        self._directories = tuple(directories)
        self._system, self._pools = system, pools
        self._target_user = target_user

    def place(self, filesystem: Filesystem) -> str:
        """Where files of it may be read and written: it is what is seen at its mountpoint, which is ours. Raises Refused."""
        place = filesystem.mountpoint or ""
        if not is_allowed(place, self._directories) or topmost(place) != filesystem.name:
            raise Refused(f"{filesystem.name} is not mounted below {' or '.join(self._directories)}")
        its_own(filesystem)
        return place

    def marked(self, pools: Iterable[Pool]) -> list[Pool]:
        """The same, with those marked that are not changed."""
        system = self._system()
        return [replace(pool, of_the_system=pool.name in system) for pool in pools]

    def before(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to go on with. Changes nothing. Raises Refused."""
        self._not_the_system(arguments)
        changed = dict(arguments)
        if operation == "create_filesystem":
            changed["properties"] = self._made(engine, arguments["name"], arguments["properties"])
        elif operation == "clone":
            if self._is_filesystem(engine, arguments["snapshot"].partition("@")[0]):
                changed["properties"] = self._made(engine, arguments["name"], arguments["properties"])
        elif operation == "create_pool":
            changed["filesystem_properties"] = {**(arguments["filesystem_properties"] or {}), **SAFE}
        elif operation == "import_pool":
            changed["mount"] = False
        elif operation == "rename":
            self._moved(engine, arguments["name"], arguments["new_name"])
        elif operation == "mount":
            filesystem = engine.filesystem(arguments["name"])
            self._here(filesystem, {})
            _reservations_of_its_own(engine, filesystem.name, filesystem.mountpoint)
            self._nothing_over(filesystem, self._copies_over(engine, filesystem))
        elif operation == "set_properties" and _may_mount(arguments["properties"]):
            filesystem = engine.filesystem(arguments["name"])
            self._here(filesystem, arguments["properties"])
            _reservations_of_its_own(engine, filesystem.name, arguments["properties"].get("mountpoint", filesystem.mountpoint))
            changed["properties"] = {**arguments["properties"], **SAFE}
        return changed

    def clear(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any]) -> None:
        """Unmounts copies that hide what is to be mounted; one that is in use stays. Raises DatasetBusy, Refused."""
        if operation != "mount":
            return
        filesystem = engine.filesystem(arguments["name"])
        for name in self._copies_over(engine, filesystem):
            engine.unmount(name)
            _log.warning(
                "%s was mounted at %s, which is the place of %s, and is not any more",
                name,
                filesystem.mountpoint,
                filesystem.name,
            )
        self._nothing_over(filesystem)

    def after(self, engine: ZfsEngine, operation: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Mounts of an imported pool what may be mounted; what would be mounted elsewhere gets canmount=noauto.

        Gives the folder of reservations to who writes there.
        """
        if operation in {"create_filesystem", "mount", "set_properties"}:
            self._give(engine, arguments["name"])
        if operation != "import_pool" or not isinstance(result, Pool):
            return
        found = engine.filesystems(result.name)
        for filesystem in elsewhere(found, self._directories):  # first: `zfs mount -a` would mount these at the next boot
            try:
                engine.set_properties(filesystem.name, {"canmount": "noauto"})
                _log.warning("%s is not mounted at %s, now or at the next boot", filesystem.name, filesystem.mountpoint)
            except ZfsError as problem:  # the worker sets it again, and reports it
                _log.error("%s may be mounted at %s at the next boot: %s", filesystem.name, filesystem.mountpoint, problem)
        for filesystem in found if arguments["mount"] else ():
            if filesystem.properties["canmount"].value == "on" and is_allowed(filesystem.mountpoint or "", self._directories):
                try:
                    its_own(filesystem)
                    _reservations_of_its_own(engine, filesystem.name, filesystem.mountpoint)
                    self._nothing_over(filesystem)
                    engine.mount(filesystem.name)
                    self._give(engine, filesystem.name)
                except ZfsError as problem:
                    _log.warning("%s is not mounted: %s", filesystem.name, problem)

    def _copies_over(self, engine: ZfsEngine, filesystem: Filesystem) -> list[str]:
        """What hides a datastore at its place and is surely no datastore: copies that `zpool import` has mounted there.

        The one that is seen first, up to what is no copy; none for who has no right to the place itself. Raises Refused for one
        with children that are mounted: they would be unmounted with it, wherever that is.
        """
        place = filesystem.mountpoint or ""
        sure = "zvaai:guid" in filesystem.properties or is_of_reservations(filesystem.name, place)
        there = stack(place)
        if not there or there[-1] == filesystem.name or not sure or not is_its_own(engine, filesystem):
            return []
        found = engine.filesystems()
        copies = {
            one.name
            for one in found
            if one.mountpoint == place and not is_its_own(engine, one) and self._ours(names.pool_of(one.name))
        }
        over = list(takewhile(copies.__contains__, reversed(there)))
        for name in over:
            child = next((one for one in found if one.mounted and one.name.startswith(f"{name}/")), None)
            if child is not None:
                raise Refused(f"{name} is mounted at {place}, and so is {child.name} below it, at {child.mountpoint}")
        return over

    def _ours(self, pool: str) -> bool:
        return (self._pools is None or pool in self._pools) and pool not in self._system()

    def _nothing_over(self, filesystem: Filesystem, going: Collection[str] = ()) -> None:
        """OpenZFS mounts one file system over another (overlay=on): received copies have the mountpoint of what they are of.

        Those that are `going` do not count. Raises Refused.
        """
        left = [name for name in stack(filesystem.mountpoint or "") if name not in going]
        if left and left[-1] != filesystem.name:
            raise Refused(f"{left[-1]} is mounted at {filesystem.mountpoint}")

    def _give(self, engine: ZfsEngine, name: str) -> None:
        pool, _, rest = name.partition("/")
        if rest != RESERVATIONS or self._target_user is None:
            return
        found = engine.filesystem(name)
        if not found.mounted or not is_allowed(found.mountpoint or "", self._directories):
            return
        try:
            give_folder(str(found.mountpoint), self._target_user)
            if self._allow is not None:
                self._allow(pool, self._target_user)
        except (OSError, ZfsError) as problem:
            _log.warning("the target gets no rights in pool %s: %s", pool, problem)

    def _not_the_system(self, arguments: Mapping[str, Any]) -> None:
        system = self._system()
        for name in ("name", "new_name", "pool", "snapshot", "snapshots", "dataset"):
            value = arguments.get(name) or ()
            for one in (value,) if isinstance(value, str) else value:
                if names.pool_of(one) in system:
                    raise Refused(
                        f"pool {names.pool_of(one)} carries the running system ({', '.join(SYSTEM[:4])}, swap, or the appliance's"
                        " state), so the appliance does not change it"
                    )

    def _made(self, engine: ZfsEngine, name: str, properties: Mapping[str, str] | None) -> dict[str, str]:
        made = {**(properties or {}), **SAFE}
        _reservations_of_its_own(engine, name, made.get("mountpoint"))
        if "mountpoint" not in made and made.get("canmount", "on") == "on":
            self._no_mountpoint_above(engine, name)
        return made

    def _no_mountpoint_above(self, engine: ZfsEngine, name: str) -> None:
        try:
            above = engine.filesystem(name.rpartition("/")[0])
        except NoSuchDataset:
            return  # the engine says so
        if above.mountpoint is not None:
            raise Refused(f"{name} would be mounted below {above.mountpoint}: say mountpoint=none, or where")

    def _moved(self, engine: ZfsEngine, name: str, new_name: str) -> None:
        if name.rpartition("/")[0] == new_name.rpartition("/")[0] or not self._is_filesystem(engine, name):
            return
        if engine.filesystem(name).properties["mountpoint"].source != Source.LOCAL:
            self._no_mountpoint_above(engine, new_name)

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
            return False  # the engine says so
