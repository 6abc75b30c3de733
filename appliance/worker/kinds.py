# SPDX-License-Identifier: Apache-2.0
"""Differences between the kinds of datastores in jobs: VMFS on volumes, NFS on file systems.

A job's plan holds one of the structures below for its dataset, and one for how hosts see it; their tags say the kind.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec
from sqlalchemy.orm import Session

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.domain import datastores as domain
from appliance.domain import exports, identity
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.identity import Identity
from appliance.domain.jobs import Claims
from appliance.domain.requests import DatastoreCreate, Request, ShownRequest
from appliance.domain.thick import with_slack
from appliance.worker import thick
from appliance.worker.context import Context
from appliance.worker.nfs_serving import covered
from appliance.worker.steps import choose_lun, pending_claims
from appliance.zfs.model import Filesystem, Pool, Volume
from appliance.zfs.properties import thick_refreservation

_BLK_MQ = Path("/sys/module/zfs/parameters/zvol_use_blk_mq")


def _threading() -> dict[str, str]:
    """Threads of OpenZFS for a zvol: off, because all pools share them, and a pool that hangs would stop the others. With blk-mq
    a thread that submits I/O would wait for the I/O, so they are on.
    """
    uses_blk_mq = _BLK_MQ.exists() and _BLK_MQ.read_text().strip() != "0"
    return {"volthreading": "on" if uses_blk_mq else "off"}


class _Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Layout of a new dataset. Sizes in bytes."""

    size: int
    compression: str
    sync: str
    thick: bool
    refreservation: int


class VolumeLayout(_Layout, frozen=True, kw_only=True, tag_field="kind", tag=domain.VMFS):
    block_size: int

    def make(self, context: Context, dataset: str, path: str, user_properties: Mapping[str, str]) -> int:
        """Creates it with these user properties; its GUID. Raises ZfsError."""
        properties = {**self._properties(), **user_properties}
        made = context.engine.create_volume(
            dataset, self.size, volblocksize=self.block_size, thick=self.thick, properties=properties
        )
        return made.guid

    def clone_properties(self, path: str) -> dict[str, str]:
        """A clone inherits nothing from its origin."""
        return self._properties() | ({"refreservation": str(self.refreservation)} if self.thick else {})

    def _properties(self) -> dict[str, str]:
        return {"compression": self.compression, "sync": self.sync, "readonly": "off", **_threading()}


class FilesystemLayout(_Layout, frozen=True, kw_only=True, tag_field="kind", tag=domain.NFS):
    """Layout of a new file system. `size` is its quota, 0 for none."""

    record_size: int

    def make(self, context: Context, dataset: str, path: str, user_properties: Mapping[str, str]) -> int:
        """Creates it with these user properties, mounted at `path`; its GUID. Raises ZfsError."""
        return context.engine.create_filesystem(dataset, properties={**self.clone_properties(path), **user_properties}).guid

    def clone_properties(self, path: str) -> dict[str, str]:
        """A clone inherits nothing from its origin."""
        # acltype and xattr: without them FSAL_VFS, and so ours, finds no file (rigs.md).
        properties = {"acltype": "posix", "xattr": "sa", "atime": "off", "canmount": "on", "mountpoint": path}
        properties |= {"compression": self.compression, "sync": self.sync, "recordsize": str(self.record_size)}
        properties["readonly"] = "off"
        sized = thick.sized(self.size, thick=self.thick)
        return properties | {name: value for name, value in sized.items() if value != "none"}


Layout = VolumeLayout | FilesystemLayout


class ShownLun(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=domain.VMFS):
    lun: int
    host_groups: tuple[str, ...]

    def claims(self, name: str, names: str | None = None) -> Claims:
        return Claims(name=name, lun=self.lun, designation=names)

    def numbers(self, *, thick: bool | None) -> dict[str, str]:
        return {identity.LUN: str(self.lun), **identity.switched(thick)}

    def show(self, session: Session, uuid: str) -> None:
        domain.present(session, uuid, self.lun, self.host_groups)


class ShownExport(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=domain.NFS):
    export: int
    share: str
    host_groups: tuple[str, ...]
    clients: tuple[str, ...]

    def claims(self, name: str, names: str | None = None) -> Claims:
        return Claims(name=name, export=self.export, share=self.share, designation=names)

    def numbers(self, *, thick: bool | None) -> dict[str, str]:
        return {identity.EXPORT: str(self.export), identity.SHARE: self.share, **identity.switched(thick)}

    def show(self, session: Session, uuid: str) -> None:
        exports.show(session, uuid, self.export, self.share, groups=list(self.host_groups), clients=list(self.clients))


Shown = ShownLun | ShownExport


class Vmfs:
    name = domain.VMFS
    layout = VolumeLayout
    shown = ShownLun

    def decide_new(self, request: DatastoreCreate, pool: Pool) -> VolumeLayout:
        size, block_size = request.size, request.block_size or domain.BLOCK_SIZE
        domain.check_size(size, block_size)
        reserved = thick_refreservation(size, block_size) if request.thick else 0
        thick.check_room(pool, reserved)
        return VolumeLayout(
            size=size, block_size=block_size, compression=request.compression, sync=request.sync, thick=request.thick,
            refreservation=0 if thick.has_parity(pool) else reserved,  # OpenZFS computes more of it on raidz
        )  # fmt: skip

    def known(self, context: Context, uuid: str) -> ShownLun | None:
        """The stored presentation of a datastore, which may be missing."""
        shown = _shown(context)
        if uuid not in shown.luns:
            return None
        return ShownLun(lun=shown.luns[uuid], host_groups=tuple(shown.groups.get(uuid, ())))

    def decide_shown(self, context: Context, request: ShownRequest, name: str, uuid: str, recorded: Identity | None) -> ShownLun:
        """The presentation: as requested, as `known`, as `recorded` in the dataset, or the next free one. Raises DomainError."""
        known = self.known(context, uuid)
        if known is not None and request.lun in (None, known.lun):
            lun = known.lun
        else:
            lun = choose_lun(context, request.lun, domain.recorded_lun(recorded))
        return ShownLun(lun=lun, host_groups=_first(request.host_groups, known.host_groups if known else None))

    def decide_clone(self, store: Datastore) -> VolumeLayout:
        # The source's own, as OpenZFS computes more of it on raidz.
        reserved = max(store.reserved, thick_refreservation(store.size, store.block_size)) if store.thick else 0
        return VolumeLayout(
            size=store.size, block_size=store.block_size, compression=store.compression or "lz4",
            sync=store.sync or "standard", thick=store.thick, refreservation=reserved,
        )  # fmt: skip

    def adoptable(self, context: Context, dataset: Volume | Filesystem) -> None:
        """Refuses a dataset that is not suitable for hosts."""
        _writable(dataset)

    def adopting(self, context: Context, dataset: Volume | Filesystem, path: str) -> dict[str, str]:
        """Properties for an adopted dataset, set in one step with its identity."""
        return _threading()

    def before_trash(self, context: Context, dataset: str) -> None:
        """Before it is marked as deleted: the dataset becomes unusable."""

    def after_trash(self, context: Context, dataset: str) -> None:
        """Before the mark is removed: the dataset becomes usable."""

    def closed(self, context: Context, dataset: str) -> None:
        """Before a rollback."""


class Nfs:
    name = domain.NFS
    layout = FilesystemLayout
    shown = ShownExport

    def decide_new(self, request: DatastoreCreate, pool: Pool) -> FilesystemLayout:
        domain.check_size(request.size)
        reserved = with_slack(request.size) if request.thick else 0
        thick.check_room(pool, reserved)
        default = thick.PARITY_RECORD_SIZE if request.thick and thick.has_parity(pool) else domain.RECORD_SIZE
        return FilesystemLayout(
            size=request.size, record_size=request.record_size or default, compression=request.compression,
            sync=request.sync, thick=request.thick, refreservation=reserved,
        )  # fmt: skip

    def known(self, context: Context, uuid: str) -> ShownExport | None:
        shown = _shown(context)
        export = shown.export(uuid)
        return ShownExport(host_groups=tuple(shown.groups.get(uuid, ())), **export) if export else None

    def decide_shown(
        self, context: Context, request: ShownRequest, name: str, uuid: str, recorded: Identity | None
    ) -> ShownExport:
        known = self.known(context, uuid)
        if known is not None:
            number, share = known.export, known.share
        else:
            pending = pending_claims(context)
            numbers = {claims.export for claims in pending} | _foreign(context)
            shares = {claims.share for claims in pending}
            remembered = {store.recorded_export for store in context.datastores(60)}
            with context.store.reading() as session:
                number = exports.free_number(session, remembered, recorded.export if recorded else None, numbers)
                share = exports.free_share(session, name, uuid, recorded.share if recorded else None, shares)
        return ShownExport(
            export=number,
            share=share,
            host_groups=_first(request.host_groups, known.host_groups if known else None),
            clients=tuple(exports.check_clients(_first(request.clients, known.clients if known else None))),
        )

    def decide_clone(self, store: Datastore) -> FilesystemLayout:
        return FilesystemLayout(
            size=store.size, record_size=store.block_size, compression=store.compression or "lz4",
            sync=store.sync or "standard", thick=store.thick, refreservation=with_slack(store.size) if store.thick else 0,
        )  # fmt: skip

    def adoptable(self, context: Context, dataset: Volume | Filesystem) -> None:
        _writable(dataset)
        _not_covered(context, dataset.name)
        properties = context.engine.properties(dataset.name)
        for name, others in (("sharenfs", "the kernel's NFS server"), ("sharesmb", "Samba")):
            if name in properties and properties[name].value != "off":
                reason = f"Cannot adopt {dataset.name}: {others} serves it too ({name}={properties[name].value})"
                raise ConflictError(f"{reason}. Run: zfs set {name}=off {quote(dataset.name)}")
        if isinstance(dataset, Filesystem) and dataset.quota:
            reason = f"Cannot adopt {dataset.name}: its quota of {dataset.quota} bytes also counts snapshots"
            raise ConflictError(f"{reason}. Run: zfs set refquota={dataset.quota} quota=none {quote(dataset.name)}")

    def adopting(self, context: Context, dataset: Volume | Filesystem, path: str) -> dict[str, str]:
        """The mountpoint changes, so OpenZFS refuses a dataset in use, and then changes nothing."""
        _not_covered(context, dataset.name)
        properties = {"acltype": "posix", "xattr": "sa", "canmount": "on"}
        if not isinstance(dataset, Filesystem) or dataset.mountpoint != path:
            properties["mountpoint"] = path
        return properties

    def before_trash(self, context: Context, dataset: str) -> None:
        _not_covered(context, dataset)
        context.engine.set_properties(dataset, {"canmount": "noauto"})
        context.engine.unmount(dataset)

    def after_trash(self, context: Context, dataset: str) -> None:
        context.engine.set_properties(dataset, {"canmount": "on"})
        context.engine.mount(dataset)

    def closed(self, context: Context, dataset: str) -> None:
        """Unmounts it, unless it is in use; the reconciler mounts it again."""
        _not_covered(context, dataset)
        context.engine.unmount(dataset)


def mount_path(context: Context, name: str, uuid: str) -> str:
    return f"{context.mounts}/{name}-{uuid[:8]}"


def _shown(context: Context) -> domain.Shown:
    with context.store.reading() as session:
        return domain.Shown.read(session)


def _first(*choices: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(next((choice for choice in choices if choice is not None), ()))


def _writable(dataset: Volume | Filesystem) -> None:
    readonly = dataset.properties.get("readonly")
    if readonly is not None and readonly.value == "on":
        raise ConflictError(f"Cannot adopt {dataset.name}: it is read-only. Run: zfs set readonly=off {quote(dataset.name)}")


def _not_covered(context: Context, dataset: str) -> None:
    """An unmount affects the visible mount, which must be this dataset."""
    filesystem = context.engine.filesystem(dataset)
    if filesystem.mounted and (problem := covered(context.topmost, context.path(filesystem), dataset)):
        raise ConflictError(problem)


def _foreign(context: Context) -> set[int]:
    """Numbers of other owners' exports; empty while the daemon does not answer, which would refuse a duplicate later."""
    with contextlib.suppress(GaneshaUnreachableError):
        return {export.export_id for export in context.nfs.served() if export.text is None}
    return set()


Kind = Vmfs | Nfs
KINDS: Mapping[str, Kind] = {domain.VMFS: Vmfs(), domain.NFS: Nfs()}


def check_fields(kind: Kind, request: Request) -> None:
    """Refuses the fields that only the other kind's plans have."""
    fields = {*kind.layout.__struct_fields__, *kind.shown.__struct_fields__}
    for other in KINDS.values():
        for field in sorted({*other.layout.__struct_fields__, *other.shown.__struct_fields__} - fields):
            if getattr(request, field, None) is not None:
                raise InvalidError(field, f"a datastore of kind {kind.name} has none", f"with kind {other.name}")


def dataset_kind(dataset: Volume | Filesystem) -> Kind:
    return KINDS[domain.VMFS if isinstance(dataset, Volume) else domain.NFS]
