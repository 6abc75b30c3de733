"""What the worker's parts share: the engine, the database, the target, and what they know of each other."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.config import Configuration
from appliance.database.models import Export, Host, HostGroup, HostInitiator, Presentation, Setting
from appliance.database.store import Store
from appliance.dataplane import reconcile as planes
from appliance.dataplane import reconcile_pools
from appliance.dataplane.ganesha import ExportControl, ExportRefusedError, GaneshaUnreachableError, NfsClient, NoSuchExportError
from appliance.dataplane.target import HostGroup as TargetHostGroup
from appliance.dataplane.target import (
    KeptNames,
    Lun,
    ServedLun,
    ServedTarget,
    TargetControl,
    TargetRefusedError,
    TargetUnreachableError,
)
from appliance.dataplane.vaai_nas import FileControl, VaaiNas
from appliance.dataplane.vaai_nas_simulator import VaaiNasSimulator
from appliance.domain import capacity, exports, identity, jobs, kept_chap, kept_initiators
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.errors import (
    ConflictError,
    DomainError,
    InternalError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from appliance.domain.journal import Finding, settle, tell
from appliance.domain.secrets import Seal, SealedError
from appliance.worker import copies, lost_database, nfs_serving, reservations
from appliance.zfs import errors as zfs
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.keys import KeptKeys, Keys
from appliance.zfs.model import Filesystem, KeyStatus, Pool, Snapshot, Volume

_REMEDIES = {UnavailableError.code: "start what does not answer", InternalError.code: "see the worker's log"}
_log = logging.getLogger(__name__)
DEVICE_SECONDS = 10.0
"""For udev to make the links of volumes whose key was loaded; what comes later is served later."""
_LOOKS = 3


def domain_error(error: zfs.ZfsError) -> DomainError:  # noqa: PLR0911, PLR0912  # a table
    """What a refusal of ZFS is for who asked."""
    match error:
        case zfs.HasDependants():
            return ConflictError(f"{error.name} has dependants", error.dependants)
        case zfs.NewerSnapshots():
            return ConflictError(f"a rollback to {error.name} destroys newer snapshots", error.newer, can_force=True)
        case zfs.SnapshotHeld() | zfs.DatasetBusy() | zfs.KeyLoaded() | zfs.KeyNotLoaded() | zfs.KeyToldAlready():
            return ConflictError(str(error))
        case zfs.DatasetExists() | zfs.SnapshotExists():
            return ConflictError(str(error), [error.name])
        case zfs.DifferentPools():
            return ConflictError("they are not in one pool", error.names)
        case zfs.ScanRunning() | zfs.NoScanRunning() | zfs.OutOfSpace():
            return ConflictError(str(error))
        case zfs.PoolExists():
            return ConflictError(str(error), [error.pool])
        case zfs.DeviceInUse() | zfs.InvalidLayout():
            return ConflictError(str(error), can_force=error.can_force)
        case zfs.DeviceTooSmall() | zfs.InsufficientReplicas():
            return ConflictError(str(error), [error.device])
        case zfs.PoolInUseElsewhere():
            return ConflictError(str(error), [error.host] if error.host else [], can_force=True)
        case zfs.NoSuchDevice():
            return InvalidError("device", str(error), "what disks or the pool tell")
        case zfs.NoKeptKey():
            return NotFoundError("key that is kept, of", error.name)
        case zfs.WrongKey():
            return InvalidError("secret", str(error), "64 hexadecimal digits, as the key was exported")
        case zfs.NoSuchPool():
            return NotFoundError("pool", error.pool)
        case zfs.NoSuchDataset() | zfs.NoSuchSnapshot():
            return NotFoundError("dataset or snapshot", error.name)
        case zfs.InvalidProperty():
            return InvalidError(error.property, error.reason, ", ".join(error.allowed))
        case zfs.InvalidName():
            return InvalidError("name", str(error))
        case zfs.EngineUnavailable() | zfs.PoolUnavailable() | zfs.Timeout():
            return UnavailableError(str(error))
        case _:
            plain = {name: value for name, value in error.details().items() if isinstance(value, (str, int, float, bool))}
            return StorageError(error.code, str(error), plain)


@contextmanager
def as_domain_errors() -> Iterator[None]:
    """The one border where the engine's and the target's errors become the domain's."""
    try:
        yield
    except zfs.ZfsError as error:
        raise domain_error(error) from error
    except TargetUnreachableError as error:
        raise UnavailableError(str(error)) from error
    except TargetRefusedError as error:
        raise ConflictError(f"the iSCSI target refuses: {error}") from error
    except GaneshaUnreachableError as error:
        raise UnavailableError(str(error)) from error
    except (ExportRefusedError, NoSuchExportError) as error:
        raise ConflictError(f"the NFS server refuses: {error}") from error


def _kept(store: Datastore) -> dict[str, Any]:
    """Of a LUN: the names that the datastore keeps from another target."""
    kept = store.designation
    if kept is None:
        return {}
    return {"product": kept.product, "designation": KeptNames(kept.serial_number, kept.designators, kept.vendor)}


@dataclass
class Context:
    """Of one worker."""

    configuration: Configuration
    store: Store
    engine: ZfsEngine
    target: TargetControl
    nfs: ExportControl
    seal: Seal
    device: Callable[[Volume], str] = lambda volume: volume.device
    """Where a volume is opened: the simulator's are files."""
    path: Callable[[Filesystem], str] = lambda filesystem: filesystem.mountpoint or ""
    """Where a file system is found: the simulator's are folders."""
    topmost: Callable[[str], str | None] | None = None
    """What is mounted at a path; None where file systems are folders."""
    mounts: str = nfs_serving.MOUNTS
    """Where datastores are mounted, each as one name below."""
    on_files: bool = False
    """Volumes are opened as files, of which none can be thick."""
    folder: Callable[[Pool], str] = reservations.mountpoint
    """Where the target keeps the persistent reservations of a pool's LUNs."""
    keys: Keys = field(init=False)
    """Of encrypted datasets: the helper's, or our own where there is none."""
    files: FileControl = field(init=False)
    """Of NFS datastores, as the NFS server has them."""
    _given: set[int] = field(default_factory=set)
    """Pools, by GUID, whose folder was given to the target since the start."""
    outdated: threading.Event = field(default_factory=threading.Event)
    """Somebody should look: picture.py."""
    disks_told: Callable[[], list[dict[str, Any]]] = list
    """All disks, with what each said last by SMART: watch.py."""
    pool_thresholds: dict[int, capacity.Thresholds] = field(default_factory=dict)
    """As last seen, by this worker or one before, by the pool's GUID: of a suspended pool they can't be."""
    look_failed: bool = False
    look_seconds: float = 0
    """How long the last look took."""
    _inventory: Inventory = field(default_factory=lambda: Inventory(at=-math.inf))
    """Never looked at yet is older than anything: the monotonic clock may begin with the machine (clock_gettime(2))."""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _reconciling: threading.Lock = field(default_factory=threading.Lock)
    reconciled_at: float = 0
    serving: set[str] = field(default_factory=set)
    """Datastores whose LUNs were serving when last looked at."""
    reconcile_problem: str | None = "not yet reconciled"

    def __post_init__(self) -> None:
        engine = self.engine
        nfs = self.configuration.nfs
        self.files = VaaiNasSimulator(folder=self._exported_folder) if nfs.simulated else VaaiNas(nfs.statistics)
        with self.store.reading() as session:
            self.pool_thresholds |= capacity.kept(session)
        self.keys = engine if isinstance(engine, Keys) else KeptKeys(engine, self.configuration.state_directory / "keys")

    def _exported_folder(self, export: int) -> Path | None:
        """Of the NFS server."""
        return next((Path(one.path) for one in self.nfs.served() if one.export_id == export), None)

    # --- looking

    def look(self, newest: float | None = None) -> Inventory:
        """What ZFS has; with `newest` not older than so many seconds, else as last looked at. Raises DomainError."""
        called = time.monotonic()
        oldest = called if newest is None else called - newest
        if self._inventory.at >= oldest:
            return self._inventory
        with self._looking:
            if self._inventory.at >= oldest:  # who waited takes what another has seen since
                return self._inventory
            began = time.monotonic()
            try:
                found = self._looked()
                told = capacity.thresholds(found)
                self.pool_thresholds |= {pool.guid: told[pool.name] for pool in found.pools if pool.name in told}
                self._inventory = found
            except BaseException:
                self.look_failed = True
                raise
            self.look_failed, self.look_seconds = False, time.monotonic() - began
            return self._inventory

    def _looked(self) -> Inventory:
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(NotFoundError):  # exported or destroyed while it was looked at
                return self._as_it_is()
        return self._as_it_is()

    def _as_it_is(self) -> Inventory:
        asked = time.monotonic()
        with as_domain_errors():
            volumes, filesystems = tuple(self.engine.volumes()), tuple(self.engine.filesystems())
            found = {one.name: self.path(one) for one in filesystems if identity.UUID in one.properties}
            return Inventory(
                at=asked,
                pools=tuple(self.engine.pools()),
                volumes=volumes,
                filesystems=filesystems,
                snapshots=tuple(self._snapshots()),
                devices={volume.name: self.device(volume) for volume in volumes} | found,
            )

    @property
    def looked_at(self) -> float:
        """When that was last begun with success, by the monotonic clock."""
        return self._inventory.at

    def _snapshots(self) -> list[Snapshot]:
        return self.engine.snapshots(user_properties=("zvaai:job", "zvaai:schedule"))

    def datastores(self, newest: float | None = 0) -> list[Datastore]:
        """All datastores, freshly looked at unless told."""
        inventory = self.look(newest or None)
        with self.store.reading() as session:
            return domain.datastores(inventory, session)

    # --- who uses what

    def logged_in(self, uuid: str) -> list[str]:
        """Hosts that use the datastore: "HOST (IQN)" that see it and are logged in, "HOST (ADDRESS)" that mount it.

        Raises UnavailableError when target or NFS server can't tell.
        """
        with self.store.reading() as session:
            admitted = domain.admitted(session, uuid)
        if not admitted:
            return self.mounted_by(uuid)
        with as_domain_errors():
            sessions = self.target.sessions(self.configuration.target.name)
        names = {session.initiator for session in sessions}
        return sorted(f"{admitted[iqn]} ({iqn})" for iqn in names & admitted.keys())

    def mounted_by(self, uuid: str) -> list[str]:
        """Clients that use an NFS datastore. None while it is not exported. Raises UnavailableError."""
        return [user.text for user in self.nfs_users(uuid)[1].get(uuid, ())]

    def nfs_users(self, *uuids: str) -> tuple[tuple[NfsClient, ...], dict[str, list[nfs_serving.User]]]:
        """Clients that ganesha knows; and who uses NFS datastores, all unless told, as far as it tells: nfs_serving.using.

        One look at it. Raises UnavailableError.
        """
        with self.store.reading() as session:
            groups = domain.Shown.read(session).groups
            rows = [row for row in session.scalars(select(Export)) if not uuids or row.datastore in uuids]
            names = {row.datastore: exports.addresses(session, groups.get(row.datastore, ())) for row in rows}
        if not rows:
            return (), {}
        with as_domain_errors():
            served, clients = {one.export_id: one for one in self.nfs.served() if one.served}, self.nfs.clients()
        return clients.known, {
            row.datastore: nfs_serving.using(served[row.number], clients, names[row.datastore], row.clients)
            for row in rows
            if row.number in served
        }

    def registered(self, uuid: str) -> list[str]:
        """Initiator ports whose persistent reservations end when the LUN is taken away, though it may come back."""
        with as_domain_errors():
            served = [lun.lun for one in self._served_targets() for lun in one.luns if lun.lun.uuid == uuid]
            found = [self.target.registrations(self.configuration.target.name, lun.number) for lun in served]
        return sorted(port for one in found if not one.survive for port in one.initiators)

    # --- reconciling

    def _unlock(self, stores: list[Datastore]) -> list[planes.Failure]:
        """Loads the keys of what is to be served, and waits for the devices that then come; why a key can't be had."""
        locked: dict[str, list[Datastore]] = {}
        for store in stores:
            if store.state == "active" and store.key_status == KeyStatus.UNAVAILABLE and store.encryption_root:
                locked.setdefault(store.encryption_root, []).append(store)
        failures, coming = [], []
        for root, waiting in locked.items():
            try:
                self.keys.load_kept_key(root)
                coming += waiting
            except (zfs.EngineUnavailable, zfs.Timeout) as error:
                raise domain_error(error) from error
            except zfs.ZfsError as error:
                text = f"it is encrypted, and its key can't be loaded: {error}"
                failures += [planes.Failure(store.uuid or "", text) for store in waiting]
        limit = time.monotonic() + DEVICE_SECONDS
        while any(not Path(store.device).exists() for store in coming) and time.monotonic() < limit:
            time.sleep(0.05)
        return failures

    def _provisioning(self, store: Datastore) -> str:
        if self.on_files or store.thick_stated is None:
            return "automatic"
        return "thick" if store.thick_stated else "thin"

    def wanted(self, stores: list[Datastore], session: Session, folders: Mapping[str, str]) -> planes.Wanted:
        """What the target is to serve. What a job has taken out of service is left out until the job has ended."""
        out = out_of_service(session)
        members: dict[str, list[str]] = {}
        rows = session.execute(select(HostInitiator.iqn, Host.group_id).join(Host, Host.id == HostInitiator.host_id))
        for iqn, group_id in rows:
            members.setdefault(group_id or "", []).append(iqn)
        luns, kept = {}, kept_initiators.of_all(session)
        unknown: set[str] = set()
        admitted: set[str] = set()
        for store in stores:
            if store.state == "active" and store.uuid and store.lun is not None:  # so it is a VMFS one
                seen_by = sorted({*kept.get(store.uuid, ()), *(iqn for one in store.host_groups for iqn in members.get(one, ()))})
                if store.uuid in out:  # hosts stay logged in, and find their LUN there again when the job has ended
                    admitted.update(seen_by)
                    continue
                if store.pool not in folders or store.key_status == KeyStatus.UNAVAILABLE:
                    unknown.add(store.uuid)
                    continue
                luns[store.lun] = Lun(
                    store.lun,
                    store.uuid,
                    store.device,
                    tuple(seen_by),
                    store.soft_threshold,
                    provisioning=self._provisioning(store),
                    reservations=folders[store.pool],
                    guid=None if self.on_files else store.guid,
                    **_kept(store),
                )
        # Where a pool is suspended, exported elsewhere or not imported yet, hosts find their disks not ready instead of gone.
        seen = {store.uuid for store in stores if store.uuid and store.state != "missing"}
        unknown |= set(session.scalars(select(Presentation.datastore))) - seen - out
        # Which number is theirs, and who sees them, only the target knows: the database was lost, or is an older one.
        unnumbered = {store.uuid for store in stores if _is_unnumbered(store) and store.uuid}
        unknown |= (unnumbered | (copies.perhaps_originals(stores, self._inventory) - seen)) - out
        groups = {
            f"{planes.GROUP_PREFIX}{group.id}": TargetHostGroup(
                f"{planes.GROUP_PREFIX}{group.id}", tuple(sorted(members.get(group.id, ()))), tuple(group.disabled)
            )
            for group in session.scalars(select(HostGroup))
            if group.disabled
        }
        setting = session.get(Setting, "iscsi")
        chap_required = bool(setting and setting.value.get("chap_required"))
        accounts, unreadable = self._accounts(session) if chap_required else ({}, frozenset[str]())
        return planes.Wanted(
            target=self.configuration.target.name,
            luns=luns,
            groups=groups,
            chap_required=chap_required,
            accounts=accounts,
            unknown=frozenset(unknown),
            copies=frozenset(store.device for store in copies.certain(stores, self._inventory) if store.kind == domain.VMFS),
            kept_accounts=unreadable,
            pools=None if self.on_files else lost_database.visible(self._inventory.pools),
            gone=frozenset(out | kept_initiators.forgotten(session) | seen),
            initiators=tuple(sorted(admitted.union(*(lun.initiators or () for lun in luns.values())))),
        )

    def _accounts(self, session: Session) -> tuple[dict[str, planes.WantedAccount], frozenset[str]]:
        """By name; and the names of those whose secrets can't be had."""
        accounts = {}
        unreadable = set()
        for host in session.scalars(select(Host).where(Host.chap_name.is_not(None))):
            if host.chap_name and host.chap_secret:
                try:
                    secret = self.seal.open(host.chap_secret)
                except SealedError:
                    unreadable.add(host.chap_name)  # readiness tells of it
                    continue
                stale = host.chap_applied != host.chap_revision
                own = session.scalars(select(HostInitiator.iqn).where(HostInitiator.host_id == host.id))
                if names := tuple(sorted(own)):  # who has no name logs in as nobody
                    accounts[host.chap_name] = planes.WantedAccount(host.chap_name, secret, names, stale)
        return accounts, frozenset(unreadable) | kept_chap.accounts(session)

    def reconcile(self, cause: str, kind: str | None = None) -> planes.Outcome:
        """Makes target and NFS server serve what they should. What was otherwise without a cause of ours is drift.

        What the one does not answer keeps nothing from the other. Raises UnavailableError, with a `kind` of datastores only when
        who serves that kind does not answer.
        """
        with self._reconciling:
            try:
                stores = self.datastores()
                locked = self._unlock(stores)
                if any(store.key_status == KeyStatus.UNAVAILABLE for store in stores):
                    stores = self.datastores()
                self._present_found(stores)
                inventory = self._inventory
                with self.store.reading() as session:
                    stores = domain.datastores(inventory, session)
                    about = self.about_since(session, inventory)
            except DomainError as error:
                self._unavailable(
                    [Finding("unavailable:reconcile", "critical", "appliance", str(error), "start what does not answer")]
                )
                self.reconcile_problem = str(error)
                raise
            except Exception as error:
                self.reconcile_problem = f"the worker is at fault: {error}"
                raise
            outcomes, away = {}, {}
            serving = {store.uuid for store in stores if store.uuid in self.serving}
            for plane, serve in ((domain.VMFS, self._reconcile_target), (domain.NFS, self._reconcile_exports)):
                try:
                    outcomes[plane], served = serve(stores, about)
                    serving = served | {store.uuid for store in stores if store.kind != plane and store.uuid in serving}
                except DomainError as error:
                    away[plane] = error
                except Exception as error:
                    _log.exception("serving %s", plane)
                    away[plane] = InternalError(f"the worker is at fault: {error}")
            return self._reconciled(cause, kind, outcomes, away, {uuid for uuid in serving if uuid}, locked)

    def _reconciled(
        self,
        cause: str,
        kind: str | None,
        outcomes: dict[str, planes.Outcome],
        away: dict[str, DomainError],
        serving: set[str],
        locked: Sequence[planes.Failure],
    ) -> planes.Outcome:
        mended = self.reconcile_problem is not None
        self.reconciled_at, self.serving = time.time(), serving
        outcome = planes.Outcome(
            tuple(text for one in outcomes.values() for text in one.differences),
            (*locked, *(failure for one in outcomes.values() for failure in one.failures)),
        )
        problems = [*map(str, away.values()), *(failure.text for failure in outcome.failures)]
        self.reconcile_problem = "; ".join(problems) or None
        if outcome.differences or problems or mended or cause != "periodic":
            with self.store.session() as session:
                self._settle(session, outcome, outcomes, locked, cause)
            keys = {domain.VMFS: "unavailable:reconcile", domain.NFS: "unavailable:nfs"}
            self._unavailable(
                [
                    Finding(keys[plane], "critical", "appliance", str(error), _REMEDIES.get(error.code, ""))
                    for plane, error in away.items()
                ]
            )
        for plane, error in away.items():
            if kind in (None, plane):
                raise error
        return outcome

    def _unavailable(self, findings: list[Finding]) -> None:
        with self.store.session() as session:
            settle(session, "unavailable", findings)  # what was wrong with single LUNs and exports is so still

    def _reconcile_target(self, stores: list[Datastore], about: set[str]) -> tuple[planes.Outcome, set[str]]:
        with as_domain_errors():
            folders, unmounted = reservations.folders(
                self.engine, self._inventory.pools, stores, self._given, self.folder, self.topmost
            )
        self._look_at_chap()
        with self.store.reading() as session:
            wanted = self.wanted(stores, session, folders)
            shown = set(session.scalars(select(Presentation.datastore))) - about
            revisions = {host.chap_name: host.chap_revision for host in session.scalars(select(Host))}
        with as_domain_errors():
            outcome = planes.reconcile(self.target, wanted)
            limits = {name: one.warning for name, one in capacity.thresholds(self._inventory).items()}
            of_pools = reconcile_pools.reconcile(self.target, limits)
        failed = {failure.subject for failure in outcome.failures}
        if outcome.differences:
            with self.store.session() as session:
                kept_chap.now_known(session, wanted.accounts.keys() - failed)
                for host in session.scalars(select(Host).where(Host.chap_name.in_(wanted.accounts.keys()))):
                    if host.chap_name not in failed:
                        host.chap_applied = revisions.get(host.chap_name, 0)
        served = {lun.lun.uuid: lun for one in self._served_targets() for lun in one.luns}
        unnumbered = [*_unnumbered(stores, served), *self._keep_of_pools_away(wanted, list(served.values()))]
        failing = {
            uuid: planes.Failure(
                uuid,
                f"LUN {lun.lun.number} is {lun.state}: {lun.reason}",
                remedy=capacity.COPY_REMEDY if lun.found_guid is not None else "",
            )
            for uuid, lun in served.items()
            if lun.state == "failed"
        }
        reasons = {uuid: failure.text for uuid, failure in failing.items()}
        failing |= {failure.subject: failure for failure in copies.failures(stores, domain.VMFS, shown, reasons)}
        self._seen_without(set(served))
        failures = (*outcome.failures, *of_pools.failures, *unmounted, *failing.values(), *unnumbered)
        outcome = planes.Outcome(outcome.differences + of_pools.differences, failures)
        return outcome, {uuid for uuid, lun in served.items() if lun.state == "serving"}

    def about_since(self, session: Session, inventory: Inventory) -> set[str]:
        """What jobs are about that run, or have ended since this was looked at: it may show half of it (jobs.about_since)."""
        return jobs.about_since(session, _wall(inventory))

    def _look_at_chap(self) -> None:
        """A database that does not know whether CHAP is required takes it over from the target."""
        with self.store.reading() as session:
            if kept_chap.is_known(session):
                return
        served = next(iter(self._served_targets()), None)
        with self.store.session() as session:
            accounts = [one.name for one in served.accounts] if served else []
            kept_chap.first_look(session, served is not None and served.chap_required, accounts)

    def _keep_of_pools_away(self, wanted: planes.Wanted, served: list[ServedLun]) -> list[planes.Failure]:
        staying = planes.of_pools_away(wanted, served)
        if not staying:
            return []
        with self.store.reading() as session:
            if not lost_database.unknown(session, staying):
                return []
        with self.store.session() as session:
            return lost_database.keep(session, staying, self.about_since(session, self._inventory))

    def _seen_without(self, served: set[str]) -> None:
        """What was forgotten while the target was away, and it serves no longer, need not be remembered."""
        with self.store.reading() as session:
            gone = kept_initiators.forgotten(session) - served
        if gone:
            with self.store.session() as session:
                kept_initiators.remember_no_longer(session, gone)

    def _reconcile_exports(self, stores: list[Datastore], about: set[str]) -> tuple[planes.Outcome, set[str]]:
        with self.store.reading() as session:
            out = out_of_service(session)
            numbers = {row.datastore: row.number for row in session.scalars(select(Export))}
            groups = {group_id for store in stores if store.kind == domain.NFS for group_id in store.host_groups}
            addresses = {group_id: list(exports.addresses(session, [group_id])) for group_id in groups}
        if any(store.kind == domain.NFS and store.state == "active" and not store.mounted for store in stores):
            self.outdated.set()  # it is mounted below
        pools = lost_database.visible(self._inventory.pools)
        certain = frozenset(store.dataset for store in copies.certain(stores, self._inventory))
        serving = nfs_serving.Serving(
            self.engine, self.nfs, self.mounts, out, addresses, self.topmost, numbers, pools, certain, about
        )
        with as_domain_errors():
            return serving.reconcile(stores)

    def _served_targets(self) -> list[ServedTarget]:
        with as_domain_errors():
            return [one for one in self.target.targets() if one.name == self.configuration.target.name]

    def _settle(
        self,
        session: Session,
        outcome: planes.Outcome,
        outcomes: dict[str, planes.Outcome],
        locked: Sequence[planes.Failure],
        cause: str,
    ) -> None:
        if outcome.differences:
            told = "drift" if cause in ("periodic", "event") else "reconciled"
            tell(session, told, "target", cause=cause, differences=list(outcome.differences))
        areas = {domain.VMFS: "reconcile", domain.NFS: "reconcile-nfs"}
        found = {areas[plane]: list(one.failures) for plane, one in outcomes.items()}
        if "reconcile" in found:
            found["reconcile"] += locked
        for area, failures in found.items():
            findings = [
                Finding(f"{area}:{one.subject or one.text}", "critical", one.subject, one.text, one.remedy) for one in failures
            ]
            settle(session, area, findings)

    def _present_found(self, stores: list[Datastore]) -> None:
        """A datastore that came with its pool gets the number it had, or a free one; an admin says who sees it.

        One that target or NFS server still has, since it is only the database that does not know it, keeps its hosts.
        """
        active = [store for store in stores if store.state == "active" and store.uuid]
        found = [store for store in active if (store.lun if store.kind == domain.VMFS else store.export) is None]
        if not found:
            return
        datasets = {one.name: one for one in (*self._inventory.volumes, *self._inventory.filesystems)}
        files = self.nfs.files() if any(store.kind == domain.NFS for store in found) else {}
        there = self._luns_there() if any(store.kind == domain.VMFS for store in found) else {}
        of_found = {store.uuid: there[store.uuid].number for store in found if there and store.uuid in there}
        of_missing = {store.lun for store in stores if store.state == "missing"}
        with self.store.session() as session:
            # What a job did after this was looked at is not seen here: one that it deleted gets no number.
            making = jobs.subjects_since(session, _wall(self._inventory))
            pending = [job.parameters for job in jobs.active(session)]
            luns, numbers, shares = ([one.get(key) for one in pending] for key in ("lun", "export", "share"))
            for store in found:
                if not store.uuid or store.uuid in making or store.dataset not in datasets:
                    continue
                kept = identity.judge(datasets[store.dataset])
                if not isinstance(kept, identity.Identity):
                    continue
                if store.kind == domain.VMFS:
                    lun = there.get(store.uuid) if there is not None else None
                    if there is None or (lun is not None and lun.number in of_missing):
                        continue  # it can't be told who sees it; or hosts use it under a number that is kept: _unnumbered tells
                    others = [number for uuid, number in of_found.items() if uuid != store.uuid]
                    _present_lun(session, kept, lun, [*luns, *others])
                else:
                    other_numbers, other_shares = nfs_serving.kept_by_files(files, kept, store.dataset, store.guid)
                    share = exports.free_share(session, store.name, store.uuid, kept.share, [*shares, *other_shares])
                    number = exports.free_number(session, kept.export, [*numbers, *other_numbers])
                    exported = nfs_serving.as_exported(files, store, number, share)
                    exports.show(session, store.uuid, number, share, **exported)
                    if clients := exported.get("clients"):
                        exports.tell_kept(session, store.uuid, clients)

    def _luns_there(self) -> dict[str, Lun] | None:
        """What the target serves, by UUID; None while it does not answer."""
        with contextlib.suppress(DomainError):
            return {lun.lun.uuid: lun.lun for one in self._served_targets() for lun in one.luns}
        return None


def _wall(inventory: Inventory) -> float:
    """When it was looked at, in seconds since 1970."""
    return time.time() - (time.monotonic() - inventory.at)


def _present_lun(session: Session, kept: identity.Identity, there: Lun | None, taken: Sequence[int | None]) -> None:
    """Under the number at which the target serves it, else the one it had, else a free one; to who sees it there."""
    wanted = there.number if there is not None else domain.kept_lun(kept)
    domain.present(session, kept.uuid, domain.free_lun(session, wanted, taken), None)
    if kept.uuid in kept_initiators.forgotten(session):
        kept_initiators.remember_no_longer(session, {kept.uuid})
    elif there is not None and there.initiators:
        kept_initiators.keep(session, kept.uuid, there.initiators)


def _is_unnumbered(store: Datastore) -> bool:
    return store.state == "active" and store.kind == domain.VMFS and store.lun is None


def _unnumbered(stores: Sequence[Datastore], served: Mapping[str, ServedLun]) -> list[planes.Failure]:
    """Of LUNs under numbers that the database, which is older than they are, keeps for datastores that are missing."""
    missing = {store.lun: store.uuid for store in stores if store.state == "missing" and store.lun is not None}
    failures = []
    for store in stores:
        lun = served.get(store.uuid or "")
        if lun is None or not _is_unnumbered(store):
            continue
        number = lun.lun.number
        if number in missing:
            text = f"{store.name} is served as LUN {number}, which the database keeps for {missing[number]}, which is missing"
            remedy = f"if that is lost: zvaai datastore forget {missing[number]}; till then the LUN stays as it is"
            failures.append(planes.Failure(lun.lun.uuid, text, remedy=remedy))
    return failures


def out_of_service(session: Session) -> set[str]:
    """Datastores that a job has taken out of service, and that stay so until it has ended."""
    running = [job for job in jobs.active(session) if job.state == jobs.RUNNING]
    return {uuid for job in running for uuid in job.parameters.get("out_of_service", ())}
