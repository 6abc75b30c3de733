# SPDX-License-Identifier: Apache-2.0
"""Checks the space for a reservation before a dataset is created.

The kernel creates a dataset first and sets its reservation then. If there is no space, it destroys the dataset. But a volume that
udev has opened is in use: `zfs create` then retries without yielding the CPU (zfs_ioc_create of OpenZFS 2.3), forever with one
CPU. `zfs clone` leaves the clone without its reservation (zfs_ioc_clone).
"""

from collections.abc import Mapping, Sequence

from appliance.zfs import names
from appliance.zfs.errors import NoSuchDataset, OutOfSpace, UnexpectedFailure
from appliance.zfs.kernel.core import Core
from appliance.zfs.kernel.messages import Request

_RESERVING = ("reservation", "refreservation")


def need(core: Core, request: Request, name: str, properties: Mapping[str, str], words: Sequence[str] = ()) -> None:
    """Checks the space for a new dataset with these properties; `words`: options of `zfs create` for a thick volume.

    Raises OutOfSpace, and NoSuchDataset for the parent.
    """
    if core.exists(name):
        return  # zfs will report it
    size = max((int(properties[name]) for name in _RESERVING if properties.get(name, "none") != "none"), default=0)
    if words:
        size = max(size, reserved_by_create(core, request, name, properties, words))
    if size == 0:
        return
    pool, parent = names.pool_of(name), name.rpartition("/")[0]
    if _available(core, parent) < size:
        raise OutOfSpace(name, quota=parent != pool and _available(core, pool) >= size)


def reserved_by_create(core: Core, request: Request, name: str, properties: Mapping[str, str], words: Sequence[str]) -> int:
    """Refreservation of a thick volume by `zfs create -n`, which knows the pool's vdevs."""
    copies = ("-o", f"copies={properties['copies']}") if "copies" in properties else ()
    output = core.zfs(request, "create", "-n", "-P", *words, *copies, name).decode()
    for line in output.splitlines():
        match line.strip().split("\t"):
            case ["property", "refreservation", size]:
                return int(size)
    raise UnexpectedFailure("create", "zfs did not report the reservation")


def _available(core: Core, name: str) -> int:
    datasets = core.datasets_json(Request("room", name), "get", "-j", "-p", "available", name)
    if name not in datasets:
        raise NoSuchDataset(name)
    return int(datasets[name]["properties"]["available"]["value"])
