# SPDX-License-Identifier: Apache-2.0
"""Room for a reservation, asked for before a dataset is made.

The kernel makes a dataset first and sets its reservation then. Where that is refused for want of space, it destroys what it made,
and a volume that udev has opened meanwhile is in use: `zfs create` then tries again without letting go of the CPU (zfs_ioc_create
of OpenZFS 2.3), on one CPU for ever; `zfs clone` leaves the clone behind, without its promise (zfs_ioc_clone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.zfs import names
from appliance.zfs.errors import NoSuchDataset, OutOfSpace, UnexpectedFailure
from appliance.zfs.kernel.core import Core
from appliance.zfs.kernel.messages import Request

_RESERVING = ("reservation", "refreservation")


def need(core: Core, request: Request, name: str, properties: Mapping[str, str], words: Sequence[str] = ()) -> None:
    """Asks it for a new dataset with these properties; `words`: options of `zfs create` for a thick volume.

    Raises OutOfSpace, and NoSuchDataset of the one above.
    """
    if core.exists(name):
        return  # which is what zfs will say
    size = max((int(properties[one]) for one in _RESERVING if properties.get(one, "none") != "none"), default=0)
    if words:
        size = max(size, _reserved_by_create(core, request, name, properties, words))
    if size == 0:
        return
    pool, parent = names.pool_of(name), name.rpartition("/")[0]
    if _available(core, parent) < size:
        raise OutOfSpace(name, quota=parent != pool and _available(core, pool) >= size)


def _reserved_by_create(core: Core, request: Request, name: str, properties: Mapping[str, str], words: Sequence[str]) -> int:
    """The refreservation that `zfs create` would compute: it knows the pool's vdevs."""
    copies = ("-o", f"copies={properties['copies']}") if "copies" in properties else ()
    told = core.zfs(request, "create", "-n", "-P", *words, *copies, name).decode()
    for line in told.splitlines():
        match line.strip().split("\t"):
            case ["property", "refreservation", size]:
                return int(size)
    raise UnexpectedFailure("create", "zfs does not say what it would reserve")


def _available(core: Core, name: str) -> int:
    found = core.datasets_json(Request("room", name), "get", "-j", "-p", "available", name)
    if name not in found:
        raise NoSuchDataset(name)
    return int(found[name]["properties"]["available"]["value"])
