"""What the worker's parts share: the engine, the database, the target, and what they know of each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.config import Configuration
from appliance.database.models import Host, HostGroup, HostInitiator, Presentation, Setting
from appliance.database.store import Store
from appliance.dataplane import reconcile as planes
from appliance.dataplane.target import HostGroup as TargetHostGroup
from appliance.dataplane.target import Lun, ServedTarget, TargetControl, TargetRefusedError, TargetUnreachableError
from appliance.domain import datastores as domain
from appliance.domain import jobs
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError, StorageError, UnavailableError
from appliance.domain.journal import Finding, settle, tell
from appliance.domain.secrets import Seal, SealedError
from appliance.worker import reservations
from appliance.zfs import errors as zfs
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.model import Pool, Snapshot, Volume


def domain_error(error: zfs.ZfsError) -> DomainError:  # noqa: PLR0911, PLR0912  # a table
    """What a refusal of ZFS is for who asked."""
    match error:
        case zfs.HasDependants():
            return ConflictError(f"{error.name} has dependants", error.dependants)
        case zfs.NewerSnapshots():
            return ConflictError(f"a rollback to {error.name} destroys newer snapshots", error.newer, can_force=True)
        case zfs.SnapshotHeld() | zfs.DatasetBusy():
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


@dataclass
class Context:
    """Of one worker."""

    configuration: Configuration
    store: Store
    engine: ZfsEngine
    target: TargetControl
    seal: Seal
    device: Callable[[Volume], str] = lambda volume: volume.device
    """Where a volume is opened: the simulator's are files."""
    on_files: bool = False
    """Volumes are opened as files, of which none can be thick."""
    folder: Callable[[Pool], str] = reservations.mountpoint
    """Where the target keeps the persistent reservations of a pool's LUNs."""
    _given: set[int] = field(default_factory=set)
    """Pools, by GUID, whose folder was given to the target since the start."""
    _inventory: Inventory = field(default_factory=lambda: Inventory(at=0))
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _reconciling: threading.Lock = field(default_factory=threading.Lock)
    reconciled_at: float = 0
    serving: set[str] = field(default_factory=set)
    """Datastores whose LUNs were serving when last looked at."""
    reconcile_problem: str | None = "not yet reconciled"

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
            asked = time.monotonic()
            with as_domain_errors():
                volumes = tuple(self.engine.volumes())
                self._inventory = Inventory(
                    at=asked,
                    pools=tuple(self.engine.pools()),
                    volumes=volumes,
                    snapshots=tuple(self._snapshots()),
                    devices={volume.name: self.device(volume) for volume in volumes},
                )
            return self._inventory

    def _snapshots(self) -> list[Snapshot]:
        return self.engine.snapshots(user_properties=("zvaai:job", "zvaai:schedule"))

    def datastores(self, newest: float | None = 0) -> list[Datastore]:
        """All datastores, freshly looked at unless told."""
        inventory = self.look(newest or None)
        with self.store.reading() as session:
            return domain.datastores(inventory, session)

    # --- who uses what

    def logged_in(self, uuid: str) -> list[str]:
        """Hosts that see the datastore and are logged in: "HOST (IQN)". Raises UnavailableError when the target can't tell."""
        with self.store.reading() as session:
            admitted = domain.admitted(session, uuid)
        if not admitted:
            return []
        with as_domain_errors():
            sessions = self.target.sessions(self.configuration.target.name)
        names = {session.initiator for session in sessions}
        return sorted(f"{admitted[iqn]} ({iqn})" for iqn in names & admitted.keys())

    def registered(self, uuid: str) -> list[str]:
        """Initiator ports whose persistent reservations end when the LUN is taken away, though it may come back."""
        with as_domain_errors():
            served = [lun.lun for one in self._served_targets() for lun in one.luns if lun.lun.uuid == uuid]
            found = [self.target.registrations(self.configuration.target.name, lun.number) for lun in served]
        return sorted(port for one in found if not one.survive for port in one.initiators)

    # --- reconciling

    def _folders(self, stores: list[Datastore]) -> tuple[dict[str, str], list[planes.Failure]]:
        """Of the pools with datastores to be served, the folders for persistent reservations; and why one is not there."""
        folders: dict[str, str] = {}
        failures = []
        needed = {store.pool for store in stores if store.state == "active" and store.lun is not None}
        for pool in self._inventory.pools:
            if pool.name not in needed:
                continue
            try:
                reservations.ensure(self.engine, pool, first=pool.guid not in self._given)
            except (zfs.EngineUnavailable, zfs.Timeout) as error:
                raise domain_error(error) from error
            except zfs.ZfsError as error:
                text = f"the folder for persistent reservations is not there, without which the LUN is not served anew: {error}"
                failures += [planes.Failure(store.uuid or "", text) for store in stores if store.pool == pool.name]
            else:
                self._given.add(pool.guid)
                folders[pool.name] = self.folder(pool)
        return folders, failures

    def _provisioning(self, store: Datastore) -> str:
        if self.on_files or store.thick_stated is None:
            return "automatic"
        return "thick" if store.thick_stated else "thin"

    def wanted(self, stores: list[Datastore], session: Session, folders: Mapping[str, str]) -> planes.Wanted:
        """What the target is to serve. What a job has taken out of service is left out until the job has ended."""
        out = {
            uuid for job in jobs.active(session) for uuid in job.parameters.get("out_of_service", ()) if job.state == jobs.RUNNING
        }
        members: dict[str, list[str]] = {}
        rows = session.execute(select(HostInitiator.iqn, Host.group_id).join(Host, Host.id == HostInitiator.host_id))
        for iqn, group_id in rows:
            members.setdefault(group_id or "", []).append(iqn)
        luns = {}
        unknown: set[str] = set()
        for store in stores:
            if store.state == "active" and store.uuid and store.lun is not None and store.uuid not in out:
                seen_by = sorted(iqn for group_id in store.host_groups for iqn in members.get(group_id, ()))
                if store.pool not in folders:
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
                )
        # Where a pool is suspended, exported elsewhere or not imported yet, hosts find their disks not ready instead of gone.
        seen = {store.uuid for store in stores if store.uuid and store.state != "missing"}
        unknown |= set(session.scalars(select(Presentation.datastore))) - seen - out
        groups = {
            f"{planes.GROUP_PREFIX}{group.id}": TargetHostGroup(
                f"{planes.GROUP_PREFIX}{group.id}", tuple(sorted(members.get(group.id, ()))), tuple(group.disabled)
            )
            for group in session.scalars(select(HostGroup))
            if group.disabled
        }
        setting = session.get(Setting, "iscsi")
        chap_required = bool(setting and setting.value.get("chap_required"))
        accounts = self._accounts(session) if chap_required else {}
        names = {name for name in session.scalars(select(Host.chap_name)) if name}
        return planes.Wanted(
            target=self.configuration.target.name,
            luns=luns,
            groups=groups,
            chap_required=chap_required,
            accounts=accounts,
            unknown=frozenset(unknown),
            kept_accounts=frozenset(names - accounts.keys()) if chap_required else frozenset(),
            initiators=tuple(sorted({iqn for lun in luns.values() for iqn in lun.initiators or ()})),
        )

    def _accounts(self, session: Session) -> dict[str, planes.WantedAccount]:
        accounts = {}
        for host in session.scalars(select(Host).where(Host.chap_name.is_not(None))):
            if host.chap_name and host.chap_secret:
                try:
                    secret = self.seal.open(host.chap_secret)
                except SealedError:
                    continue  # readiness tells of it
                stale = host.chap_applied != host.chap_revision
                own = list(session.scalars(select(HostInitiator.iqn).where(HostInitiator.host_id == host.id)))
                only = own[0] if len(own) == 1 else None  # the target binds an account to one name
                accounts[host.chap_name] = planes.WantedAccount(host.chap_name, secret, only, stale)
        return accounts

    def reconcile(self, cause: str) -> planes.Outcome:
        """Makes the target serve what it should. What was otherwise without a cause of ours is drift. Raises UnavailableError."""
        with self._reconciling:
            try:
                stores = self.datastores()
                self._present_found(stores)
                with self.store.reading() as session:
                    stores = domain.datastores(self._inventory, session)
                folders, unmounted = self._folders(stores)
                with self.store.reading() as session:
                    wanted = self.wanted(domain.datastores(self._inventory, session), session, folders)
                    revisions = {host.chap_name: host.chap_revision for host in session.scalars(select(Host))}
                with as_domain_errors():
                    outcome = planes.reconcile(self.target, wanted)
            except DomainError as error:
                self.reconcile_problem = str(error)
                finding = Finding("unavailable:reconcile", "critical", "appliance", str(error), "start what does not answer")
                with self.store.session() as session:
                    settle(session, "unavailable", [finding])  # what was wrong with single LUNs is so still
                raise
            except Exception as error:
                self.reconcile_problem = f"the worker is at fault: {error}"
                raise
            mended = self.reconcile_problem is not None
            self.reconciled_at = time.time()
            served = {lun.lun.uuid: lun for one in self._served_targets() for lun in one.luns}
            self.serving = {uuid for uuid, lun in served.items() if lun.state == "serving"}
            failing = tuple(
                planes.Failure(uuid, f"LUN {lun.lun.number} is {lun.state}: {lun.reason}")
                for uuid, lun in served.items()
                if lun.state == "failed"
            )
            outcome = planes.Outcome(outcome.differences, outcome.failures + tuple(unmounted) + failing)
            self.reconcile_problem = "; ".join(failure.text for failure in outcome.failures) or None
            failed = {failure.subject for failure in outcome.failures}
            if outcome.differences or outcome.failures or mended or cause != "periodic":
                with self.store.session() as session:
                    self._settle(session, outcome, cause, wanted, failed, revisions)
            return outcome

    def _served_targets(self) -> list[ServedTarget]:
        with as_domain_errors():
            return [one for one in self.target.targets() if one.name == self.configuration.target.name]

    def _settle(
        self,
        session: Session,
        outcome: planes.Outcome,
        cause: str,
        wanted: planes.Wanted,
        failed: set[str],
        revisions: dict[str | None, int],
    ) -> None:
        for host in session.scalars(select(Host).where(Host.chap_name.in_(wanted.accounts.keys()))):
            if host.chap_name not in failed:
                host.chap_applied = revisions.get(host.chap_name, 0)
        if outcome.differences:
            tell(
                session,
                "drift" if cause == "periodic" else "reconciled",
                "target",
                cause=cause,
                differences=list(outcome.differences),
            )
        settle(session, "unavailable", [])
        settle(
            session,
            "reconcile",
            [
                Finding(f"reconcile:{failure.subject or failure.text}", "critical", failure.subject, failure.text)
                for failure in outcome.failures
            ],
        )

    def _present_found(self, stores: list[Datastore]) -> None:
        """A datastore that came with its pool gets the number it had, or a free one; an admin says who sees it."""
        found = [store for store in stores if store.state == "active" and store.uuid and store.lun is None]
        if not found:
            return
        volumes = {volume.name: volume for volume in self._inventory.volumes}
        with self.store.session() as session:
            # What a job did after this was looked at is not seen here: one that it deleted gets no number.
            making = jobs.subjects_since(session, time.time() - (time.monotonic() - self._inventory.at))
            pending = {job.parameters.get("lun") for job in jobs.active(session)}
            for store in found:
                if store.uuid and store.uuid not in making:
                    number = domain.free_lun(session, domain.kept_lun(volumes[store.dataset]), pending)
                    domain.present(session, store.uuid, number, None)
