# SPDX-License-Identifier: Apache-2.0
"""Datastores: their state, and the rules for their changes. This module only reads; appliance.worker makes the changes.

There are two kinds: "vmfs" is a volume that hosts see as a LUN, "nfs" a file system that hosts mount (exports.py).
"""

from __future__ import annotations

import re
import time
import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.database.models import Export, ExportGroup, Host, HostInitiator, Presentation, PresentationGroup
from appliance.domain import exports
from appliance.domain.designation import Designation
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.fields import DATASTORE_NAME
from appliance.domain.hosts import group
from appliance.domain.identity import Copy, Identity, has_its_guid, judge_all
from appliance.domain.thick import with_slack, without_slack
from appliance.zfs.model import Dataset, Filesystem, Pool, Snapshot, Volume
from appliance.zfs.properties import thick_refreservation

SMALLEST = 1 << 30
LARGEST = 64 << 40
"""Limit of ESXi."""
GRANULARITY = 1 << 20
BLOCK_SIZE = RECORD_SIZE = 65536
"""Clones of VMFS files and VMDKs meet their time bound, at a third of the metadata of 16K (docs/measured.md)."""
LARGEST_BLOCK = 131072
"""Of new volumes. Adopted ones can have more."""
LUNS = 1024
"""LUNs that ESXi can use at a time."""

VMFS, NFS = "vmfs", "nfs"
FOLDER = "zvaai"
ENCRYPTED = "zvaai-encrypted"
"""The encryption root of a pool: the parent of all encrypted datasets, so that clones have the same key."""


@dataclass(frozen=True)
class Datastore:
    """A datastore: active, deleted, missing, or a copy that is not served. Sizes are bytes."""

    id: str
    """Its UUID; of a copy "copy-" and the GUID of its dataset."""
    state: str
    """"active", "deleted", "copy", or "missing": hosts were shown it, and no dataset but a copy has its identity."""
    name: str
    dataset: str
    pool: str
    guid: int
    uuid: str | None
    size: int
    """For an NFS datastore: its quota without the slack of a thick one; 0: limited only by the pool."""
    block_size: int
    """For an NFS datastore: its record size."""
    thick: bool
    """The desired state; without one, the actual state."""
    reserved: int
    used: int
    referenced: int
    snapshot_bytes: int
    compression: str
    sync: str
    origin: str | None
    created_at: int
    lun: int | None = None
    recorded_lun: int | None = None
    """The number in its properties. A restore gives it to a deleted datastore again."""
    soft_threshold: int | None = None
    deleted_at: int | None = None
    previous_host_groups: tuple[str, ...] = ()
    """For a deleted datastore: the groups that could see it. Some may be deleted too."""
    previous_clients: tuple[str, ...] = ()
    copy_reason: str | None = None
    copy_of: str | None = None
    host_groups: tuple[str, ...] = ()
    device: str = ""
    thick_stated: bool | None = None
    """The value that is set on its dataset."""
    becoming_thick: bool = False
    """Nothing is reserved before a job has seen that no blocks are shared."""
    designation: Designation | None = None
    kind: str = VMFS
    available: int = 0
    """Bytes that can still be written."""
    export: int | None = None
    recorded_export: int | None = None
    """The number in its properties, as `recorded_lun`."""
    share: str | None = None
    clients: tuple[str, ...] = ()
    """Addresses and networks that may mount it, in addition to those of its host groups."""
    path: str = ""
    """Its mountpoint on this server, mounted or not."""
    mounted: bool = False
    former_pool: str = ""
    """For a missing datastore: the pool that had it; empty if no reconciliation saw it there."""
    encryption: str | None = None
    encryption_root: str | None = None
    key_status: str | None = None
    """"available", or "unavailable": it can't be served."""
    readonly: bool = False
    """By the property of its dataset. Those of a read-only pool need not have it."""

    @property
    def guaranteed(self) -> int:
        """Lowest refreservation of a thick datastore."""
        if self.kind == NFS:
            return with_slack(self.size)
        # On raidz, OpenZFS can reserve less for larger blocks.
        return thick_refreservation(self.size, self.block_size) if self.block_size <= LARGEST_BLOCK else self.size


@dataclass(frozen=True)
class Inventory:
    at: float
    pools: tuple[Pool, ...] = ()
    volumes: tuple[Volume, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    """Device folders of volumes, and mountpoints of file systems."""
    filesystems: tuple[Filesystem, ...] = ()
    _by_shown: dict[str, tuple[Shown, list[Datastore]]] = field(default_factory=dict, compare=False)

    @property
    def scanned_at(self) -> float:
        """Time in seconds since 1970; `at` is by the monotonic clock."""
        return time.time() - (time.monotonic() - self.at)

    def volume(self, dataset: str) -> Volume | None:
        return next((volume for volume in self.volumes if volume.name == dataset), None)

    def dataset(self, name: str) -> Volume | Filesystem | None:
        volume: Volume | Filesystem | None = self.volume(name)
        return volume or next((filesystem for filesystem in self.filesystems if filesystem.name == name), None)


def datastores(inventory: Inventory, session: Session) -> list[Datastore]:
    """All, sorted by name. Computed again only after a new scan, or a change in the database."""
    shown = Shown.read(session)
    before = inventory._by_shown.get("all")
    if before is None or before[0] != shown:
        before = inventory._by_shown["all"] = (shown, _datastores(inventory, shown))
    return list(before[1])


def _datastores(inventory: Inventory, shown: Shown) -> list[Datastore]:
    datasets: tuple[Volume | Filesystem, ...] = (*inventory.volumes, *inventory.filesystems)
    judged = judge_all(datasets)
    stores, has_guid = [], []
    for dataset in datasets:
        claim = judged.get(dataset.name)
        if claim is not None:
            has_guid.append(has_its_guid(dataset))
            stores.append(_datastore(dataset, claim, shown, inventory.devices.get(dataset.name)))
    perhaps = {store.copy_of for store, matches in zip(stores, has_guid, strict=True) if matches}  # two with one identity
    seen = {store.uuid for store in stores} | perhaps
    stores += [_missing(uuid, shown) for uuid in (*shown.luns, *shown.exports) if uuid not in seen]
    return sorted(stores, key=lambda store: (store.name, store.id))


@dataclass(frozen=True)
class Shown:
    """How hosts are shown datastores, by their UUIDs."""

    luns: Mapping[str, int]
    exports: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Sequence[str]]
    origins: Mapping[str, tuple[str, str]]
    """Last known name and pool; empty if not known."""

    @classmethod
    def read(cls, session: Session) -> Shown:
        groups: dict[str, list[str]] = {}
        for table in (PresentationGroup, ExportGroup):
            for datastore, group_id in session.execute(select(table.datastore, table.group_id).order_by(table.group_id)):
                groups.setdefault(datastore, []).append(group_id)
        # Columns, not objects: of a thousand those take ten times as long.
        presented = select(Presentation.datastore, Presentation.lun, Presentation.name, Presentation.pool)
        luns, origins = {}, {}
        for uuid, lun, name, pool in session.execute(presented):
            luns[uuid], origins[uuid] = lun, (name, pool)
        rows = session.execute(select(*Export.__table__.columns)).mappings().all()
        exported = {
            row["datastore"]: {"export": row["number"], "share": row["share"], "clients": tuple(row["clients"])} for row in rows
        }
        origins |= {row["datastore"]: (row["name"], row["pool"]) for row in rows}
        return cls(luns, exported, groups, origins)

    def export(self, uuid: str | None) -> Mapping[str, Any]:
        return self.exports.get(uuid or "", {})


def _missing(uuid: str, shown: Shown) -> Datastore:
    name, pool = shown.origins[uuid]
    return Datastore(
        id=uuid, state="missing", name=name or f"missing-{uuid[:8]}", former_pool=pool,
        dataset="", pool="", guid=0, uuid=uuid, size=0, block_size=0,
        thick=False, reserved=0, used=0, referenced=0, snapshot_bytes=0, compression="", sync="", origin=None, created_at=0,
        lun=shown.luns.get(uuid), host_groups=tuple(shown.groups.get(uuid, ())), kind=NFS if uuid in shown.exports else VMFS,
        **shown.export(uuid),
    )  # fmt: skip


def _datastore(dataset: Volume | Filesystem, claim: Identity | Copy, shown: Shown, place: str | None) -> Datastore:
    identity = claim if isinstance(claim, Identity) else None
    return Datastore(
        id=identity.uuid if identity else f"copy-{dataset.guid}",
        state="copy" if identity is None else "deleted" if identity.deleted_at is not None else "active",
        name=claim.name,
        dataset=dataset.name,
        pool=dataset.pool,
        guid=dataset.guid,
        uuid=identity.uuid if identity else None,
        reserved=dataset.refreservation,
        used=dataset.space.used,
        referenced=dataset.space.referenced,
        snapshot_bytes=dataset.space.used_by_snapshots,
        available=dataset.space.available,
        compression=_value(dataset, "compression"),
        sync=_value(dataset, "sync"),
        readonly=_value(dataset, "readonly") == "on",
        origin=dataset.origin,
        created_at=dataset.creation,
        thick_stated=identity.thick if identity else None,
        becoming_thick=identity is not None and identity.becoming_thick,
        soft_threshold=identity.soft_threshold if identity else None,
        deleted_at=identity.deleted_at if identity else None,
        previous_host_groups=identity.shown_to.host_groups if identity and identity.shown_to else (),
        previous_clients=identity.shown_to.clients if identity and identity.shown_to else (),
        copy_reason=claim.reason if isinstance(claim, Copy) else None,
        copy_of=claim.of if isinstance(claim, Copy) else None,
        host_groups=tuple(shown.groups.get(identity.uuid, ())) if identity else (),
        designation=identity.designation if identity else None,
        encryption=dataset.encryption.algorithm if dataset.encryption else None,
        encryption_root=dataset.encryption.root if dataset.encryption else None,
        key_status=dataset.encryption.key_status.value if dataset.encryption else None,
        **(
            _of_volume(dataset, identity, shown, place)
            if isinstance(dataset, Volume)
            else _of_filesystem(dataset, identity, shown, place)
        ),
    )


def _of_volume(volume: Volume, identity: Identity | None, shown: Shown, place: str | None) -> dict[str, Any]:
    return {
        "kind": VMFS,
        "size": volume.volsize,
        "block_size": volume.volblocksize,
        "thick": volume.refreservation >= volume.volsize if identity is None or identity.thick is None else identity.thick,
        "lun": shown.luns.get(identity.uuid) if identity else None,
        "recorded_lun": recorded_lun(identity),
        "device": place or volume.device,
    }


def _of_filesystem(filesystem: Filesystem, identity: Identity | None, shown: Shown, place: str | None) -> dict[str, Any]:
    size = without_slack(filesystem.refquota)
    thick = identity is not None and identity.thick is True and size > 0
    return {
        "kind": NFS,
        "size": size if thick else filesystem.refquota,
        "block_size": filesystem.recordsize,
        "thick": thick,
        "path": place or filesystem.mountpoint or "",
        "mounted": filesystem.mounted,
        "recorded_export": identity.export if identity else None,
        **shown.export(identity.uuid if identity else None),
    }


def _value(dataset: Dataset, name: str) -> str:
    return dataset.properties[name].value if name in dataset.properties else ""


def find(stores: Sequence[Datastore], datastore_id: str, *states: str) -> Datastore:
    """The datastore with this identifier, in one of these states. Raises NotFoundError; ConflictError for another state."""
    for store in stores:
        if store.id == datastore_id:
            if states and store.state not in states:
                raise ConflictError(f"the datastore is {store.state}, and has to be {' or '.join(states)}", [store.name])
            return store
    raise NotFoundError("datastore", datastore_id)


# --- rules


def check_name(stores: Sequence[Datastore], name: str, but: str | None = None) -> None:
    """A name that hosts can take, and no other active datastore has."""
    if not re.fullmatch(DATASTORE_NAME, name):
        raise InvalidError(
            "name", "not a name of a datastore", "1 to 42 of A-Z, a-z, 0-9, '_', '.', '-', the first a letter or digit"
        )
    taken = [
        store.dataset for store in stores if store.state == "active" and store.name.lower() == name.lower() and store.id != but
    ]
    if taken:
        raise ConflictError("a datastore has this name", taken, field_name="name")


def check_designation(stores: Sequence[Datastore], names: Designation, dataset: str) -> None:
    """Refuses names that another datastore has, or would have after a restore."""
    for store in stores:
        if store.dataset == dataset:
            continue
        taken = store.designation.names if store.designation else {f"serial number {(store.uuid or '').replace('-', '')}"}
        if shared := sorted(names.names & taken):
            raise ConflictError(f"{store.name} has these names; two LUNs with one corrupt VMFS", shared)


def check_size(size: int, block_size: int = GRANULARITY) -> None:
    if not SMALLEST <= size <= LARGEST or size % max(GRANULARITY, block_size):
        raise InvalidError(
            "size", "not a size of a datastore", f"{SMALLEST} (1 GiB) to {LARGEST} (64 TiB), a multiple of {GRANULARITY} (1 MiB)"
        )


def rounded_up(needed: int, block_size: int = GRANULARITY) -> int:
    """The least size that is allowed for so many bytes, unless that is below SMALLEST."""
    step = max(GRANULARITY, block_size)
    return -(-needed // step) * step


def size_or_more(needed: int, block_size: int = GRANULARITY) -> str:
    """The allowed sizes for so many bytes: as the field takes them, and as people write them."""
    size = max(SMALLEST, rounded_up(needed, block_size))
    written = f"{size >> 20} MiB" if size % SMALLEST else f"{size >> 30} GiB"
    return f"{size} ({written}) or more"


def dataset_name(root: str, name: str, uuid: str) -> str:
    """Dataset of a new datastore below its `root_of`. The datastore's name can change; the dataset's name cannot."""
    return f"{root if '/' in root else f'{root}/{FOLDER}'}/{name}-{uuid[:8]}"


def root_of(dataset: str, encryption_root: str | None) -> str:
    """The dataset whose key it inherits, below which its clones belong, else its pool."""
    return encryption_root if encryption_root and encryption_root != dataset else dataset.split("/", 1)[0]


def is_below_root(dataset: str) -> bool:
    return dataset.split("/")[1:2] == [ENCRYPTED]


def new_uuid() -> str:
    return str(uuids.uuid4())


# --- how they are shown to hosts


def recorded_lun(claim: Identity | Copy | None) -> int | None:
    """The LUN number in its properties, if it is valid and belongs to this datastore."""
    return claim.lun if isinstance(claim, Identity) and claim.lun is not None and claim.lun < LUNS else None


def free_lun(session: Session, stores: Sequence[Datastore], preferred: int | None, pending: Collection[int | None] = ()) -> int:
    """A LUN number that neither a datastore nor one of `pending` has: the preferred one if it is free, else the lowest.

    The lowest is none that one of `stores` has recorded: a host can still have the device of a deleted datastore, and would write
    to the new one.
    """
    taken = {*session.scalars(select(Presentation.lun)), *pending}
    if preferred is not None and preferred not in taken:
        return preferred
    taken |= {store.recorded_lun for store in stores}
    for number in range(LUNS):
        if number not in taken:
            return number
    raise ConflictError(f"all {LUNS} LUN numbers are taken, also by deleted datastores. Purge some of these")


def check_lun(session: Session, lun: int, but: str | None = None) -> None:
    other = session.scalar(select(Presentation).where(Presentation.lun == lun))
    if other is not None and other.datastore != but:
        raise ConflictError(f"LUN {lun} is taken. To see its datastore, run: zvaai datastore show {other.datastore}")


def given_away(session: Session, datastore: str | None, lun: int | None, number: int | None, share: str | None) -> bool:
    """Whether LUN number, or number and path of an export, planned for datastore `own`, are another's by now."""
    if datastore is None:
        return False
    try:
        if lun is not None:
            check_lun(session, lun, datastore)
        if number is not None and share is not None:
            exports.check(session, datastore, number, share)
    except ConflictError:
        return True
    return False


def present(session: Session, uuid: str, lun: int, groups: Sequence[str] | None) -> None:
    """Presents a datastore under this number: to `groups`, or to its present groups if None. Raises ConflictError if another
    datastore has the number.
    """
    check_lun(session, lun, uuid)
    presentation = session.get(Presentation, uuid)
    if presentation is None:
        session.add(Presentation(datastore=uuid, lun=lun))
    else:
        presentation.lun = lun
    session.flush()
    if groups is not None:
        session.execute(delete(PresentationGroup).where(PresentationGroup.datastore == uuid))
        session.add_all(
            PresentationGroup(datastore=uuid, group_id=group(session, group_id).id) for group_id in sorted(set(groups))
        )
    session.flush()


def forget(session: Session, uuid: str) -> None:
    """Its number, and the path that hosts mounted, are free again."""
    exports.forget(session, uuid)
    session.execute(delete(PresentationGroup).where(PresentationGroup.datastore == uuid))
    session.execute(delete(Presentation).where(Presentation.datastore == uuid))


def admitted(session: Session, uuid: str, without: Collection[str] = ()) -> dict[str, str]:
    """Initiators that see a datastore, and the names of their hosts. Not those of the groups `without`."""
    rows = session.execute(
        select(HostInitiator.iqn, Host.name)
        .join(Host, Host.id == HostInitiator.host_id)
        .join(PresentationGroup, PresentationGroup.group_id == Host.group_id)
        .where(PresentationGroup.datastore == uuid, PresentationGroup.group_id.not_in(without))
    )
    return dict(rows.tuples().all())


def kinds_shown(session: Session, group_id: str | None = None) -> set[str]:
    """Kinds of the datastores that a group sees, or that any group sees."""
    if group_id is None:
        tables: tuple[tuple[str, Any], ...] = ((VMFS, PresentationGroup.group_id), (NFS, Export.datastore))
    else:
        tables = ((VMFS, PresentationGroup.group_id), (NFS, ExportGroup.group_id))
    queries = {kind: select(column) if group_id is None else select(column).where(column == group_id) for kind, column in tables}
    return {kind for kind, rows in queries.items() if session.scalar(rows.limit(1)) is not None}
