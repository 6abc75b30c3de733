# SPDX-License-Identifier: Apache-2.0
"""Before anything is served: what is mounted at a datastore's place is the datastore, and no copy of it.

At the start of the system `zfs mount -a` mounts file systems in any order, one over the other (overlay=on), and a received copy
has the mountpoint of what it is of. Copies are unmounted then, and the datastore mounted alone. Nobody uses either yet: NFS
server and target start afterwards (packaging/systemd/zvaai-mounts.service).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from appliance.helper.mounts import is_allowed, is_its_own, is_of_reservations
from appliance.zfs import mountinfo
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import ZfsError
from appliance.zfs.model import Filesystem

_log = logging.getLogger("zvaai-helper")


def settle(engine: ZfsEngine, directories: Collection[str], stack: Callable[[str], list[str]] = mountinfo.stack) -> bool:
    """Settles all places below these directories; False where one can't be. Those of a pool that does not answer are left alone.

    Raises EngineUnavailable.
    """
    places: dict[str, list[Filesystem]] = {}
    for filesystem in engine.filesystems():
        if is_allowed(filesystem.mountpoint or "", directories):
            places.setdefault(str(filesystem.mountpoint), []).append(filesystem)
    settled = [_settled(engine, place, claiming, stack(place)) for place, claiming in places.items()]
    return all(settled)


def _settled(engine: ZfsEngine, place: str, claiming: list[Filesystem], there: list[str]) -> bool:
    copies = {one.name for one in claiming if not is_its_own(engine, one)}
    own = _own([one for one in claiming if one.name not in copies])
    if not there or there == [own.name if own else None] or (own is None and not copies.intersection(there)):
        return True
    try:
        for name in reversed(there):  # the one that is seen first
            engine.unmount(name)
            _log.warning("%s was mounted at %s, and is not any more", name, place)
        if own is not None and own.properties["canmount"].value == "on":
            engine.mount(own.name)
            _log.warning("%s is mounted at %s", own.name, place)
    except ZfsError as problem:
        _log.error("%s: %s", place, problem)
        return False
    return True


def _own(claiming: list[Filesystem]) -> Filesystem | None:
    """The datastore, or the reservations, that the place is of; None where that is not clear."""
    sure = [one for one in claiming if "zvaai:guid" in one.properties or is_of_reservations(one.name, one.mountpoint or "")]
    return sure[0] if len(sure) == 1 else None
