"""VMFS datastores: what is there, and what may be done to it. Looks only; the steps of changing it are appliance.worker's."""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from appliance.database.models import Host, HostGroup, HostInitiator, Presentation, PresentationGroup
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.hosts import group
from appliance.domain.identity import NAME_PATTERN, Copy, Identity, judge, judge_all
from appliance.zfs.model import Pool, Snapshot, Volume

GIB = 1 << 30
SMALLEST = 1 * GIB
LARGEST = 64 << 40
"""What ESXi takes."""
GRANULARITY = 1 << 20
BLOCK_SIZES = (8192, 16384, 32768, 65536, 131072)
BLOCK_SIZE = 65536
BLOCK_SIZE_REASON = (
    "64K: clones of VMFS files meet their time bound at 64K and not at 16K, and cost a third of the metadata (docs/measured.md)"
)
COMPRESSIONS = ("lz4", "zstd", "zstd-fast", "off")
SYNCS = ("standard", "always", "disabled")
LUNS = 1024
"""What ESXi uses at once."""

FOLDER = "zvaai"
TRASH = "zvaai-deleted"


@dataclass(frozen=True)
class Datastore:
    """A VMFS datastore, a deleted one that can be restored, a copy that is not served, or a missing one. Sizes are bytes."""

    id: str
    """Its UUID; of a copy "copy-" and the GUID of its dataset."""
    state: str
    """"active", "deleted", "copy", or "missing": hosts were shown it, and no volume that can be seen is it."""
    name: str
    dataset: str
    pool: str
    guid: int
    uuid: str | None
    size: int
    block_size: int
    thick: bool
    """What it is to be; where nobody has said, what it is."""
    reserved: int
    """Its refreservation, which the target keeps for a thick one."""
    used: int
    referenced: int
    snapshot_bytes: int
    compression: str
    sync: str
    origin: str | None
    created_at: int
    lun: int | None = None
    soft_threshold: int | None = None
    deleted_at: int | None = None
    copy_reason: str | None = None
    copy_of: str | None = None
    host_groups: tuple[str, ...] = ()
    device: str = ""
    thick_stated: bool | None = None
    """What is set on its volume."""


@dataclass(frozen=True)
class Inventory:
    """What ZFS has, at one moment."""

    at: float
    pools: tuple[Pool, ...] = ()
    volumes: tuple[Volume, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    """Where volumes are opened."""

    def volume(self, dataset: str) -> Volume | None:
        """By name."""
        return next((volume for volume in self.volumes if volume.name == dataset), None)


def datastores(inventory: Inventory, session: Session) -> list[Datastore]:
    """All, sorted by name."""
    luns = {row.datastore: row.lun for row in session.scalars(select(Presentation))}
    groups: dict[str, list[str]] = {}
    for row in session.scalars(select(PresentationGroup).order_by(PresentationGroup.group_id)):
        groups.setdefault(row.datastore, []).append(row.group_id)
    judged = judge_all(inventory.volumes)
    found = []
    for volume in inventory.volumes:
        claim = judged.get(volume.name)
        if claim is not None:
            found.append(_datastore(volume, claim, luns, groups, inventory.devices.get(volume.name, volume.device)))
    seen = {uuid for store in found for uuid in (store.uuid, store.copy_of)}
    found += [_missing(uuid, lun, groups.get(uuid, ())) for uuid, lun in luns.items() if uuid not in seen]
    return sorted(found, key=lambda store: (store.name, store.id))


def _missing(uuid: str, lun: int, groups: Sequence[str]) -> Datastore:
    return Datastore(
        id=uuid, state="missing", name=f"missing-{uuid[:8]}", dataset="", pool="", guid=0, uuid=uuid, size=0, block_size=0,
        thick=False, reserved=0, used=0, referenced=0, snapshot_bytes=0, compression="", sync="", origin=None, created_at=0,
        lun=lun, host_groups=tuple(groups),
    )  # fmt: skip


def _datastore(
    volume: Volume, claim: Identity | Copy, luns: Mapping[str, int], groups: Mapping[str, Sequence[str]], device: str
) -> Datastore:
    own = claim if isinstance(claim, Identity) else None
    properties = volume.properties

    def value(name: str) -> str:
        return properties[name].value if name in properties else ""

    return Datastore(
        id=own.uuid if own else f"copy-{volume.guid}",
        state="copy" if own is None else "deleted" if own.deleted_at is not None else "active",
        name=claim.name,
        dataset=volume.name,
        pool=volume.pool,
        guid=volume.guid,
        uuid=own.uuid if own else None,
        size=volume.volsize,
        block_size=volume.volblocksize,
        thick=volume.refreservation >= volume.volsize if own is None or own.thick is None else own.thick,
        thick_stated=own.thick if own else None,
        reserved=volume.refreservation,
        used=volume.space.used,
        referenced=volume.space.referenced,
        snapshot_bytes=volume.space.used_by_snapshots,
        compression=value("compression"),
        sync=value("sync"),
        origin=volume.origin,
        created_at=volume.creation,
        lun=luns.get(own.uuid) if own else None,
        soft_threshold=own.soft_threshold if own else None,
        deleted_at=own.deleted_at if own else None,
        copy_reason=claim.reason if isinstance(claim, Copy) else None,
        copy_of=claim.of if isinstance(claim, Copy) else None,
        host_groups=tuple(groups.get(own.uuid, ())) if own else (),
        device=device,
    )


def find(stores: Sequence[Datastore], datastore_id: str, *states: str) -> Datastore:
    """By identifier, in one of these states. Raises NotFoundError; ConflictError when it is in another state."""
    for store in stores:
        if store.id == datastore_id:
            if states and store.state not in states:
                raise ConflictError(f"the datastore is {store.state}, and has to be {' or '.join(states)}", [store.name])
            return store
    raise NotFoundError("datastore", datastore_id)


# --- rules


def check_name(stores: Sequence[Datastore], name: str, own: str | None = None) -> None:
    """A name that hosts can take, and no other active datastore has."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidError(
            "name", "not a name of a datastore", "1 to 42 of A-Z, a-z, 0-9, '_', '.', '-', the first a letter or digit"
        )
    taken = [
        store.dataset for store in stores if store.state == "active" and store.name.lower() == name.lower() and store.id != own
    ]
    if taken:
        raise ConflictError("a datastore has this name", taken)


def check_size(size: int, block_size: int) -> None:
    """Bounds of a volume for VMFS."""
    if not SMALLEST <= size <= LARGEST or size % max(GRANULARITY, block_size):
        raise InvalidError(
            "size", "not a size of a datastore", f"{SMALLEST} (1 GiB) to {LARGEST} (64 TiB), a multiple of {GRANULARITY} (1 MiB)"
        )


def dataset_name(pool: str, name: str, uuid: str) -> str:
    """Where a new datastore goes. Its name may change later, and be used again; this does not."""
    return f"{pool}/{FOLDER}/{name}-{uuid[:8]}"


def trash_name(dataset: str) -> str:
    """Where a deleted one is put aside."""
    return f"{dataset.split('/', 1)[0]}/{TRASH}/{dataset.rsplit('/', 1)[1]}"


def new_uuid() -> str:
    """An identity."""
    return str(uuids.uuid4())


# --- how they are shown to hosts


def kept_lun(volume: Volume) -> int | None:
    """The number it had, if that is one and its own."""
    found = judge(volume)
    return found.lun if isinstance(found, Identity) and found.lun is not None and found.lun < LUNS else None


def free_lun(session: Session, wanted: int | None, pending: Collection[int | None] = ()) -> int:
    """A LUN number no datastore has and none of those `pending`: the wanted one if it is free, else the lowest."""
    taken = {*session.scalars(select(Presentation.lun)), *pending}
    if wanted is not None and wanted not in taken:
        return wanted
    for number in range(LUNS):
        if number not in taken:
            return number
    raise ConflictError(f"all {LUNS} LUN numbers are taken")


def check_lun(session: Session, lun: int, own: str | None = None) -> None:
    """Refuses a number that another datastore has."""
    other = session.scalar(select(Presentation).where(Presentation.lun == lun))
    if other is not None and other.datastore != own:
        raise ConflictError(f"LUN {lun} is another datastore's", [other.datastore])


def present(session: Session, uuid: str, lun: int, groups: Sequence[str] | None) -> None:
    """Shows a datastore under this number; with `groups` to these, else to those it was shown to."""
    found = session.get(Presentation, uuid)
    if found is None:
        session.add(Presentation(datastore=uuid, lun=lun))
    else:
        found.lun = lun
    session.flush()
    if groups is not None:
        session.execute(delete(PresentationGroup).where(PresentationGroup.datastore == uuid))
        session.add_all(
            PresentationGroup(datastore=uuid, group_id=group(session, group_id).id) for group_id in sorted(set(groups))
        )
    session.flush()


def forget(session: Session, uuid: str) -> None:
    """Its number is free again."""
    session.execute(delete(PresentationGroup).where(PresentationGroup.datastore == uuid))
    session.execute(delete(Presentation).where(Presentation.datastore == uuid))


def admitted(session: Session, uuid: str) -> dict[str, str]:
    """Initiators that see a datastore, and the names of their hosts."""
    rows = session.execute(
        select(HostInitiator.iqn, Host.name)
        .join(Host, Host.id == HostInitiator.host_id)
        .join(PresentationGroup, PresentationGroup.group_id == Host.group_id)
        .where(PresentationGroup.datastore == uuid)
    )
    return dict(rows.tuples().all())


def count_presented(session: Session, group_id: str) -> int:
    """How many datastores a group sees."""
    return session.scalar(select(func.count()).select_from(PresentationGroup).where(PresentationGroup.group_id == group_id)) or 0


def group_names(session: Session) -> dict[str, str]:
    """Names of host groups, by identifier."""
    return {row.id: row.name for row in session.scalars(select(HostGroup))}
