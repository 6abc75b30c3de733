# SPDX-License-Identifier: Apache-2.0
"""Persistent reservations of a pool's LUNs: the target stores them in a small dataset, which moves with the pool."""

import contextlib
from collections.abc import Callable, Sequence

from appliance.dataplane.reconcile import Failure
from appliance.domain.datastores import Datastore, Inventory
from appliance.worker.nfs_serving import covered
from appliance.zfs import errors as zfs
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.model import Filesystem, Pool

DATASET = "zvaai-reservations"
"""Dataset's name below the pool. The helper has the same name, and gives the folder to the target's user."""
ROOM = 16 << 20
"""Reservation in bytes, so that hosts can fence in a full pool."""


def mountpoint(pool: Pool) -> str:
    """Mountpoint by the pool's GUID, because its name may change."""
    return f"/srv/zvaai/.reservations-{pool.guid}"


def ensure(engine: ZfsEngine, pool: Pool, filesystem: Filesystem | None, *, first: bool) -> None:
    """Creates and mounts the dataset. `filesystem`: of the last scan. `first`: the helper gives the folder to the target's user.

    Raises ZfsError.
    """
    name, where = f"{pool.name}/{DATASET}", mountpoint(pool)
    if filesystem is None:
        filesystem = _create(engine, name, where)
        first = False
    if filesystem.mountpoint != where:  # the pool was split, or received
        engine.set_properties(name, {"mountpoint": where, "canmount": "on"})
        first = True
    if not filesystem.reservation:
        with contextlib.suppress(zfs.OutOfSpace):
            engine.set_properties(name, {"reservation": str(ROOM)})
    if first or not filesystem.mounted:
        engine.mount(name)


def folders(
    engine: ZfsEngine,
    inventory: Inventory,
    stores: Sequence[Datastore],
    given: set[int],
    folder: Callable[[Pool], str],
    topmost: Callable[[str], str | None] | None,
) -> tuple[dict[str, str], list[Failure]]:
    """Folders by pool with datastores to serve, and the failures.

    `given`: pools whose folder was given to the target's user before. Raises EngineUnavailable.
    """
    by_pool: dict[str, str] = {}
    failures: list[Failure] = []
    needed = {store.pool for store in stores if store.state == "active" and store.lun is not None}
    existing = {
        filesystem.name: filesystem for filesystem in inventory.filesystems if filesystem.name.partition("/")[2] == DATASET
    }
    for pool in inventory.pools:
        if pool.name not in needed:
            continue
        problem: str | None
        try:
            name = f"{pool.name}/{DATASET}"
            ensure(engine, pool, existing.get(name), first=pool.guid not in given)
            given.add(pool.guid)
            if covered(topmost, mountpoint(pool), name):
                engine.mount(name)  # by the helper, which unmounts copies that are mounted over it
            problem = covered(topmost, mountpoint(pool), name)
        except zfs.EngineUnavailable:
            raise
        except zfs.ZfsError as error:
            problem = str(error)
        if problem is None:
            by_pool[pool.name] = folder(pool)
        else:
            why = f"pool {pool.name} lacks the folder for persistent reservations: {problem}"
            for store in stores:
                if store.pool == pool.name and store.state == "active" and store.lun is not None:
                    text = f"Datastore {store.name} cannot be served again: {why}"
                    failures.append(Failure(store.uuid or "", text, remedy="Remove the cause. Then run: zvaai reconcile"))
    return by_pool, failures


def _create(engine: ZfsEngine, name: str, where: str) -> Filesystem:
    # The response to a host follows the sync of its file, which only sync=disabled would defeat.
    properties = {"mountpoint": where, "canmount": "on", "sync": "standard", "atime": "off", "readonly": "off"}
    properties["encryption"] = "off"  # the root's key may be away after a boot
    try:
        return engine.create_filesystem(name, properties={**properties, "reservation": str(ROOM)})
    except zfs.OutOfSpace:
        return engine.create_filesystem(name, properties=properties)
    except zfs.DatasetExists:
        return engine.filesystem(name)
