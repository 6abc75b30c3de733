# SPDX-License-Identifier: Apache-2.0
"""Before anything is served: loads keys, and mounts each datastore at its mountpoint, and no copy of it.

At the start of the system `zfs mount -a` mounts file systems in any order, one over the other (overlay=on), and a received copy
has the original's mountpoint. Copies are unmounted, and only the datastore is mounted. Neither is in use yet: NFS server and
target start afterwards (packaging/systemd/zvaai-mounts.service). An NFS server without a datastore would answer "stale handle" to
the hosts that wait for it, and their VMs would get errors.
"""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from appliance.helper.mounts import is_allowed, is_of_reservations, is_original
from appliance.zfs import mountinfo
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import ZfsError
from appliance.zfs.keys import PROPERTY, Keys
from appliance.zfs.model import Filesystem, KeyStatus

_AT_ONCE = 16
_log = logging.getLogger("zvaai-helper")


def unlock(engine: ZfsEngine, directories: Collection[str], keys: Keys) -> None:
    """Loads the stored keys, and mounts the encrypted datastores below these directories. Raises EngineUnavailable."""
    for filesystem in engine.filesystems():
        encryption = filesystem.encryption
        if encryption is None or encryption.root != filesystem.name or PROPERTY not in filesystem.properties:
            continue
        if encryption.key_status == KeyStatus.UNAVAILABLE:
            try:
                keys.load_stored_key(filesystem.name)
            except (ZfsError, OSError, LookupError, ValueError) as problem:  # a damaged file, too
                _log.warning("%s remains locked: %s", filesystem.name, problem)
    waiting = []
    for filesystem in engine.filesystems():
        encryption = filesystem.encryption
        if encryption is None or encryption.key_status == KeyStatus.UNAVAILABLE or filesystem.mounted:
            continue
        is_to_be_mounted = filesystem.properties["canmount"].value == "on" and is_allowed(
            filesystem.mountpoint or "", directories
        )
        if is_to_be_mounted and is_original(engine, filesystem):
            waiting.append(filesystem.name)
    # As `zfs mount -a` does: after a crash each mount first replays what was written with O_SYNC.
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(partial(_mount, engine), waiting))


def _mount(engine: ZfsEngine, name: str) -> None:
    try:
        engine.mount(name)
    except ZfsError as problem:
        _log.error("%s is not mounted: %s", name, problem)


def repair(engine: ZfsEngine, directories: Collection[str], stack: Callable[[str], list[str]] = mountinfo.stack) -> bool:
    """Repairs all mountpoints below these directories, except those of pools that do not answer. False: one was not repaired.

    Raises EngineUnavailable.
    """
    places: dict[str, list[Filesystem]] = {}
    for filesystem in engine.filesystems():
        if is_allowed(filesystem.mountpoint or "", directories):
            places.setdefault(str(filesystem.mountpoint), []).append(filesystem)
    repaired = [_repair(engine, place, claiming, stack(place)) for place, claiming in places.items()]
    return all(repaired)


def _repair(engine: ZfsEngine, place: str, claiming: list[Filesystem], mounted: list[str]) -> bool:
    copies = {other.name for other in claiming if not is_original(engine, other)}
    original = _original([other for other in claiming if other.name not in copies])
    if not mounted or mounted == [original.name if original else None]:
        return True
    if original is None and not copies.intersection(mounted):
        return True
    try:
        for name in reversed(mounted):  # topmost first
            engine.unmount(name)
            _log.warning("%s was unmounted from %s", name, place)
        if original is not None and original.properties["canmount"].value == "on":
            engine.mount(original.name)
            _log.warning("%s is mounted at %s", original.name, place)
    except ZfsError as problem:
        _log.error("%s: %s", place, problem)
        return False
    return True


def _original(claiming: list[Filesystem]) -> Filesystem | None:
    """The datastore or reservations that may use the mountpoint; None if that is ambiguous."""
    marked = [
        other for other in claiming if "zvaai:guid" in other.properties or is_of_reservations(other.name, other.mountpoint or "")
    ]
    return marked[0] if len(marked) == 1 else None
