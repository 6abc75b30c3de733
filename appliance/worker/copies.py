# SPDX-License-Identifier: Apache-2.0
"""Copies of lost datastores: with their names, or only with their identities."""

from collections.abc import Collection, Mapping, Sequence

from appliance.dataplane.reconcile import Failure
from appliance.domain import identity
from appliance.domain.datastores import Datastore, Inventory
from appliance.zfs.model import Dataset


def certain(stores: Sequence[Datastore], inventory: Inventory) -> list[Datastore]:
    """Datastores that are certainly another dataset. If two have one identity, it is unknown which is the copy."""
    return [store for store, dataset in _with_datasets(stores, inventory) if identity.is_surely_another(dataset)]


def _with_datasets(stores: Sequence[Datastore], inventory: Inventory) -> list[tuple[Datastore, Dataset]]:
    copied = [store for store in stores if store.state == "copy"]
    if not copied:
        return []
    datasets = {dataset.name: dataset for dataset in (*inventory.volumes, *inventory.filesystems)}
    return [(store, datasets[store.dataset]) for store in copied if store.dataset in datasets]


def failures(
    stores: Sequence[Datastore], kind: str, shown: Collection[str], reasons: Mapping[str, str], remedy: str
) -> tuple[Failure, ...]:
    """Failures of presented datastores that only copies claim to be; `reasons`: why they are not served, if known.
    `remedy`: capacity.copy_remedy.
    """
    present = {store.uuid for store in stores if store.state != "missing"}
    claims: dict[str, list[Datastore]] = {}
    for store in stores:
        if store.state == "copy" and store.kind == kind and store.copy_of in shown and store.copy_of not in present:
            claims.setdefault(store.copy_of or "", []).append(store)
    failed = []
    for uuid, claimants in claims.items():
        which = "; ".join(f"{copy.dataset} (GUID {copy.guid}): {copy.copy_reason}" for copy in claimants)
        text = f"no dataset is certain to be {claimants[0].name}, which hosts were shown; these claim to be: {which}"
        failed.append(Failure(uuid, f"{text}. {reason}" if (reason := reasons.get(uuid)) else text, remedy=remedy))
    return tuple(failed)
