# SPDX-License-Identifier: Apache-2.0
"""What differs between the kinds of datastores in what jobs do with them: VMFS on volumes, NFS on file systems.

A job's parameters name the kind, and hold what it has decided; those from before there were two are of VMFS.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlalchemy.orm import Session

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.domain import datastores as domain
from appliance.domain import exports, identity
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.identity import Identity
from appliance.domain.thick import with_slack
from appliance.worker import thick
from appliance.worker.context import Context
from appliance.worker.nfs_serving import covered
from appliance.worker.steps import Parameters, choose_lun, pending_values
from appliance.zfs.model import Filesystem, Pool, Volume
from appliance.zfs.properties import thick_refreservation


class Kind(ABC):
    """One of them."""

    name: ClassVar[str]
    own_fields: ClassVar[frozenset[str]]
    """What can be asked of this kind only."""

    @abstractmethod
    def decide_new(self, asked: Parameters, name: str, uuid: str, pool: Pool) -> Parameters:
        """Of a new one: its dataset. Raises DomainError."""

    @abstractmethod
    def decide_shown(self, context: Context, asked: Parameters, name: str, uuid: str, kept: Identity | None) -> Parameters:
        """How hosts will see it: as asked, as they were shown it by the database, as `kept` with its data, or by what is free.

        `known` says in the end what the database had. Raises DomainError.
        """

    @abstractmethod
    def decide_clone(self, store: Datastore, name: str, uuid: str) -> Parameters:
        """Of a clone: what its dataset is to be."""

    @abstractmethod
    def make(self, context: Context, decided: Parameters, own: Mapping[str, str]) -> None:
        """Its dataset, with these user properties."""

    @abstractmethod
    def clone_properties(self, decided: Parameters) -> dict[str, str]:
        """What a clone's dataset is made with, as it inherits nothing from its origin."""

    @abstractmethod
    def numbers(self, decided: Parameters) -> dict[str, str]:
        """What of `decide_shown` is kept with the data, as user properties."""

    @abstractmethod
    def show(self, session: Session, decided: Parameters) -> None:
        """To hosts, by the database, as decided."""

    @abstractmethod
    def adoptable(self, context: Context, found: Volume | Filesystem) -> None:
        """Refuses a dataset with which hosts would not be served well."""

    @abstractmethod
    def adopting(self, context: Context, found: Volume | Filesystem, decided: Parameters) -> dict[str, str]:
        """What a dataset that was somebody else's has to have; it gets it in one step with its identity."""

    def aside(self, context: Context, dataset: str) -> None:  # noqa: B027  # nothing for volumes
        """Before it is put aside: nobody can use it from now on."""

    def back(self, context: Context, dataset: str) -> None:  # noqa: B027  # nothing for volumes
        """After it was put back."""

    def closed(self, context: Context, dataset: str) -> None:  # noqa: B027  # nothing for volumes
        """Before it is rolled back."""


class Vmfs(Kind):
    """A zvol that hosts see as a LUN."""

    name = domain.VMFS
    own_fields = frozenset(("lun", "block_size", "known_as"))

    def decide_new(self, asked: Parameters, name: str, uuid: str, pool: Pool) -> Parameters:
        """See Kind."""
        size, block_size = asked["size"], asked.get("block_size") or domain.BLOCK_SIZE
        domain.check_size(size, block_size)
        reserved = thick_refreservation(size, block_size) if asked.get("thick") else 0
        thick.check_room(pool, reserved)
        return {"size": size, "block_size": block_size, "thick": bool(asked.get("thick")), "refreservation": reserved}

    def decide_shown(self, context: Context, asked: Parameters, name: str, uuid: str, kept: Identity | None) -> Parameters:
        """See Kind."""
        known = _known(context, uuid, "lun", "host_groups")
        lun = known.get("lun") if asked.get("lun") in (None, known.get("lun")) else None
        if lun is None:
            lun = choose_lun(context, asked.get("lun"), domain.kept_lun(kept))
        return {"lun": lun, "host_groups": _first(asked, known, "host_groups", []), "known": known}

    def decide_clone(self, store: Datastore, name: str, uuid: str) -> Parameters:
        """See Kind."""
        # The source's own, as OpenZFS computes more of it on raidz.
        reserved = max(store.reserved, thick_refreservation(store.size, store.block_size)) if store.thick else 0
        return {"thick": store.thick, "refreservation": reserved}

    def make(self, context: Context, decided: Parameters, own: Mapping[str, str]) -> None:
        """See Kind."""
        properties = {"compression": decided["compression"], "sync": decided["sync"], **own}
        context.engine.create_volume(
            decided["dataset"], decided["size"], volblocksize=decided["block_size"], thick=decided["thick"], properties=properties
        )

    def clone_properties(self, decided: Parameters) -> dict[str, str]:
        """See Kind."""
        properties = {"compression": decided["compression"], "sync": decided["sync"]}
        if decided["thick"]:
            properties["refreservation"] = str(decided["refreservation"])
        return properties

    def numbers(self, decided: Parameters) -> dict[str, str]:
        """See Kind."""
        return {identity.LUN: str(decided["lun"]), **identity.switched(decided.get("thick"))}

    def show(self, session: Session, decided: Parameters) -> None:
        """See Kind."""
        domain.present(session, decided["uuid"], decided["lun"], decided["host_groups"])

    def adoptable(self, context: Context, found: Volume | Filesystem) -> None:
        """See Kind."""
        _writable(found)

    def adopting(self, context: Context, found: Volume | Filesystem, decided: Parameters) -> dict[str, str]:
        """See Kind."""
        return {}


class Nfs(Kind):
    """A file system that hosts mount."""

    name = domain.NFS
    own_fields = frozenset(("record_size", "clients", "versions", "squash"))

    def decide_new(self, asked: Parameters, name: str, uuid: str, pool: Pool) -> Parameters:
        """See Kind."""
        domain.check_quota(asked["size"])
        record_size = asked.get("record_size") or domain.RECORD_SIZE
        reserved = with_slack(asked["size"]) if asked.get("thick") else 0
        thick.check_room(pool, reserved)
        return {"size": asked["size"], "record_size": record_size, "thick": bool(asked.get("thick")), "refreservation": reserved}

    def decide_shown(self, context: Context, asked: Parameters, name: str, uuid: str, kept: Identity | None) -> Parameters:
        """See Kind."""
        known = _known(context, uuid, "export", "share", "host_groups", "clients", "versions", "squash")
        number, share = known.get("export"), known.get("share")
        if number is None or share is None:
            numbers = pending_values(context, "export") | _foreign(context)
            shares = pending_values(context, "share")
            with context.store.reading() as session:
                number = exports.free_number(session, kept.export if kept else None, numbers)
                share = exports.free_share(session, name, uuid, kept.share if kept else None, shares)
        return {
            "export": number,
            "share": share,
            "path": f"{context.mounts}/{name}-{uuid[:8]}",
            "host_groups": _first(asked, known, "host_groups", []),
            "clients": exports.check_clients(_first(asked, known, "clients", ())),
            "versions": list(_first(asked, known, "versions", exports.VERSIONS)),
            "squash": _first(asked, known, "squash", "none"),
            "known": known,
        }

    def decide_clone(self, store: Datastore, name: str, uuid: str) -> Parameters:
        """See Kind."""
        reserved = with_slack(store.size) if store.thick else 0
        return {"size": store.size, "record_size": store.block_size, "thick": store.thick, "refreservation": reserved}

    def _native(self, decided: Parameters) -> dict[str, str]:
        # acltype and xattr: without them FSAL_VFS, and so ours, finds no file (rigs.md).
        properties = {"acltype": "posix", "xattr": "sa", "atime": "off", "canmount": "on", "mountpoint": decided["path"]}
        properties |= {"compression": decided["compression"], "sync": decided["sync"]}
        properties |= {"recordsize": str(decided["record_size"])}
        sized = thick.sized(decided["size"], thick=decided["thick"])
        return properties | {name: value for name, value in sized.items() if value != "none"}

    def make(self, context: Context, decided: Parameters, own: Mapping[str, str]) -> None:
        """See Kind."""
        context.engine.create_filesystem(decided["dataset"], properties={**self._native(decided), **own})

    def clone_properties(self, decided: Parameters) -> dict[str, str]:
        """See Kind."""
        return self._native(decided)

    def numbers(self, decided: Parameters) -> dict[str, str]:
        """See Kind."""
        numbers = {identity.EXPORT: str(decided["export"]), identity.SHARE: decided["share"]}
        return numbers | identity.switched(decided.get("thick"))

    def show(self, session: Session, decided: Parameters) -> None:
        """See Kind."""
        told: dict[str, Any] = {key: decided[key] for key in ("versions", "squash", "clients")}
        exports.show(session, decided["uuid"], decided["export"], decided["share"], groups=decided["host_groups"], **told)

    def adoptable(self, context: Context, found: Volume | Filesystem) -> None:
        """See Kind."""
        _writable(found)
        _not_covered(context, found.name)
        told = context.engine.properties(found.name)
        for name, others in (("sharenfs", "the kernel's NFS server"), ("sharesmb", "Samba")):
            if name in told and told[name].value != "off":
                raise ConflictError(f"{others} serves it too ({name}={told[name].value}): zfs set {name}=off", [found.name])
        if isinstance(found, Filesystem) and found.quota:
            raise ConflictError(
                f"its quota of {found.quota} bytes counts snapshots, and hosts would find it full before it is: "
                f"zfs set refquota={found.quota} quota=none",
                [found.name],
            )

    def adopting(self, context: Context, found: Volume | Filesystem, decided: Parameters) -> dict[str, str]:
        """See Kind. Its mountpoint changes, so it must not be in use: OpenZFS refuses that, and then changes nothing."""
        _not_covered(context, found.name)
        properties = {"acltype": "posix", "xattr": "sa", "canmount": "on"}
        if not isinstance(found, Filesystem) or found.mountpoint != decided["path"]:
            properties["mountpoint"] = decided["path"]
        return properties

    def aside(self, context: Context, dataset: str) -> None:
        """See Kind. It is not mounted again by itself."""
        _not_covered(context, dataset)
        context.engine.set_properties(dataset, {"canmount": "noauto"})
        context.engine.unmount(dataset)

    def back(self, context: Context, dataset: str) -> None:
        """See Kind."""
        context.engine.set_properties(dataset, {"canmount": "on"})
        context.engine.mount(dataset)

    def closed(self, context: Context, dataset: str) -> None:
        """See Kind. Who works in it keeps it from being unmounted; the reconciler mounts it again."""
        _not_covered(context, dataset)
        context.engine.unmount(dataset)


def _known(context: Context, uuid: str, *fields: str) -> Parameters:
    """How the database says that a datastore is shown, though none may be there: nothing unless it was, and nobody forgot it."""
    with context.store.reading() as session:
        shown = domain.Shown.read(session)
    if uuid not in shown.luns and uuid not in shown.exports:
        return {}
    told = {"lun": shown.luns.get(uuid), "host_groups": list(shown.groups.get(uuid, ())), **shown.export(uuid)}
    return {field: told[field] for field in fields if told.get(field) is not None}


def _first(asked: Parameters, known: Parameters, field: str, usual: Any) -> Any:
    return next((told[field] for told in (asked, known) if told.get(field) is not None), usual)


def _writable(found: Volume | Filesystem) -> None:
    readonly = found.properties.get("readonly")
    if readonly is not None and readonly.value == "on":
        raise ConflictError("it is read-only: zfs set readonly=off", [found.name])


def _not_covered(context: Context, dataset: str) -> None:
    """What is unmounted is what is seen: that has to be this one."""
    found = context.engine.filesystem(dataset)
    if found.mounted and (problem := covered(context.topmost, context.path(found), dataset)):
        raise ConflictError(problem)


def _foreign(context: Context) -> set[int]:
    """Numbers of exports that are served and not ours; none while the daemon does not answer, which refuses one of them later."""
    with contextlib.suppress(GaneshaUnreachableError):
        return {one.export_id for one in context.nfs.served() if one.text is None}
    return set()


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (Vmfs(), Nfs())}


def kind_of(decided: Parameters) -> Kind:
    """Of a job, or of what was asked for."""
    return KINDS[decided.get("kind") or domain.VMFS]


def only_own(kind: Kind, asked: Parameters) -> None:
    """Refuses what the other kind has."""
    for other in KINDS.values():
        for field in sorted(other.own_fields - kind.own_fields):
            if other is not kind and asked.get(field) not in (None, False):
                raise InvalidError(field, f"a datastore of kind {kind.name} has none", f"with kind {other.name}")


def dataset_kind(found: Volume | Filesystem) -> Kind:
    """By its dataset."""
    return KINDS[domain.VMFS if isinstance(found, Volume) else domain.NFS]
