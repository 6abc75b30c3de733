# SPDX-License-Identifier: Apache-2.0
"""Shared by the worker's parts: engine, database, target, and interfaces of the parts."""

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.config import Configuration
from appliance.database.models import Export
from appliance.database.store import Store
from appliance.dataplane.ganesha import Clients, ExportControl
from appliance.dataplane.reconcile import Outcome, is_ours
from appliance.dataplane.target import LoggedIn, ServedTarget
from appliance.dataplane.target_socket import TargetSocket
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.domain import capacity, exports, hosts, identity, retention
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.disks import DiskReport
from appliance.domain.errors import DomainError
from appliance.domain.recovery import PoolCopy
from appliance.domain.sealed_copy import Copy
from appliance.domain.secrets import Seal
from appliance.worker import nfs_serving, reservations
from appliance.worker.alerts import Alerts
from appliance.worker.errors import as_domain_errors
from appliance.worker.pool_reading import PoolReading
from appliance.zfs import mountinfo
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.folders import Folders
from appliance.zfs.keys import Keys
from appliance.zfs.model import Filesystem, Pool, Volume

HANGS_S = 10.0
"""A scan that fails after this time in seconds has hung."""


class Reconciler(Protocol):
    """Reconciles target and NFS server: Reconciling."""

    lock: threading.Lock
    at: float
    problem: str | None
    serving: set[str]

    def reconcile(self, cause: str, kind: str | None = None, pools: Collection[str] | None = None) -> Outcome:
        """Raises UnavailableError."""


class ConfigurationRecovery(Protocol):
    """Compares the database with the copies of the configuration on pools: Recovery."""

    @property
    def allows_jobs(self) -> bool: ...
    def check(self, inventory: Inventory) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pool_copies(self, session: Session) -> list[PoolCopy]: ...
    def backup(self) -> Copy: ...
    def keep(self, at_work: Callable[[str], bool]) -> None: ...
    def take(
        self,
        pool: str | None,
        file: str | None,
        recovery_key: str | None,
        caller: str,
        at_work: Callable[[str], bool],
        *,
        dry_run: bool,
        force: bool,
    ) -> list[str]: ...


@dataclass
class Context:
    configuration: Configuration
    store: Store
    engine: ZfsEngine
    target: TargetSocket
    nfs: ExportControl
    keys: Keys
    folders: Folders
    copies: ConfigurationCopies
    files: VaaiNas
    seal: Seal
    shut_down: Callable[[bool], None]
    """Of the root helper: shuts the server down, and with True reboots it."""
    device: Callable[[Volume], str] = lambda volume: volume.device
    path: Callable[[Filesystem], str] = lambda filesystem: filesystem.mountpoint or ""
    topmost: Callable[[str], str | None] | None = mountinfo.topmost
    """Visible mount at a path; None in a simulator, which mounts nothing."""
    mounts: str = nfs_serving.MOUNTS
    on_files: bool = False
    """Volumes are files, which cannot be thick."""
    folder: Callable[[Pool], str] = reservations.mountpoint
    reconciling: Reconciler = field(init=False)
    recovery: ConfigurationRecovery = field(init=False)
    outdated: threading.Event = field(default_factory=threading.Event)
    """Set to request a scan: inventory_cache.py."""
    alerts: Alerts = field(init=False)
    disk_reports: Callable[[], list[DiskReport]] = list
    """All disks with their latest SMART data: watch.py."""
    pool_thresholds: dict[int, capacity.Thresholds] = field(default_factory=dict)
    """Last known thresholds by pool GUID: those of a suspended pool cannot be read."""
    scan_failed: bool = False
    _hung: tuple[float, DomainError] | None = None
    """When a scan ended that had hung, and its error: what would wait as long gets the error at once."""
    scan_seconds: float = 0
    _inventory: Inventory = field(default_factory=lambda: Inventory(at=-math.inf))
    """Before the first scan it is infinitely old, because the monotonic clock may start at 0 (clock_gettime(2))."""
    _reading: PoolReading = field(init=False)
    _scanning: threading.Lock = field(default_factory=threading.Lock)
    _taking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.alerts = Alerts(self.store)
        self._reading = PoolReading(self.engine, ("zvaai:job", retention.SCHEDULE, retention.PROTECT))

    # --- scan

    def scan(self, newest: float | None = None) -> Inventory:
        """Scans all pools, unless the inventory is at most `newest` seconds old. Raises DomainError."""
        called = time.monotonic()
        oldest = called if newest is None else called - newest
        if self._inventory.at >= oldest:
            return self._inventory
        with self._scanning:
            if self._inventory.at >= oldest:  # another thread scanned meanwhile
                return self._inventory
            if self._hung is not None and self._hung[0] >= oldest:
                raise self._hung[1].with_traceback(None)
            began = time.monotonic()
            try:
                with as_domain_errors():
                    self._reading.read()
                inventory = self._take(began)
                thresholds = capacity.thresholds(inventory)
                self.pool_thresholds |= {pool.guid: thresholds[pool.name] for pool in inventory.pools if pool.name in thresholds}
            except BaseException as error:
                self.scan_failed, ended = True, time.monotonic()
                self._hung = (ended, error) if isinstance(error, DomainError) and ended - began >= HANGS_S else None
                raise
            self.scan_failed, self.scan_seconds, self._hung = False, time.monotonic() - began, None
            return inventory

    def scan_pools(self, pools: Collection[str]) -> Inventory:
        """Scans only the datasets of these pools, which the caller has changed. The rest is as last scanned.

        Waits for no other pool, and under no lock. Raises DomainError.
        """
        if self._inventory.at == -math.inf:
            return self.scan()
        with as_domain_errors():
            self._reading.read_again(pools)
        return self._take(None)

    def _take(self, at: float | None) -> Inventory:
        """Stores the latest readings as the inventory. `at`: begin of the oldest reading."""
        with self._taking:
            content = self._reading.content()
            paths = {
                filesystem.name: self.path(filesystem)
                for filesystem in content.filesystems
                if identity.UUID in filesystem.properties
            }
            self._inventory = Inventory(
                at=self._inventory.at if at is None else at,
                pools=content.pools,
                volumes=content.volumes,
                filesystems=content.filesystems,
                snapshots=content.snapshots,
                devices={volume.name: self.device(volume) for volume in content.volumes} | paths,
            )
            return self._inventory

    @property
    def inventory(self) -> Inventory:
        return self._inventory

    @property
    def scanned_at(self) -> float:
        """Start of the last successful scan, by the monotonic clock."""
        return self._inventory.at

    def datastores(self, newest: float | None = 0) -> list[Datastore]:
        """All datastores, from an inventory of at most `newest` seconds; by default after a scan."""
        inventory = self.scan(newest or None)
        with self.store.reading() as session:
            return domain.datastores(inventory, session)

    # --- users

    def logged_in(self, uuid: str, groups: Collection[str] = (), clients: Collection[str] = ()) -> list[str]:
        """Hosts that use the datastore: "HOST (IQN)" that see it and are logged in, "HOST (ADDRESS)" that mount it. Not those of
        `groups`, nor NFS clients within `clients`.

        Raises UnavailableError if target or NFS server does not answer.
        """
        with self.store.reading() as session:
            admitted = domain.admitted(session, uuid, groups)
            others = {*exports.addresses(session, groups), *clients}
        if not admitted:
            return self.mounted_by(uuid, others)
        names = {session.initiator for session in self.sessions()}
        return sorted(f"{admitted[iqn]} ({iqn})" for iqn in names & admitted.keys())

    def sessions(self) -> list[LoggedIn]:
        """Sessions of our iSCSI target, and of those with a name of another database. Raises UnavailableError."""
        name = self.target_name
        with as_domain_errors():
            return [session for session in self.target.sessions() if is_ours(session.target, name)]

    def nfs_addresses(self) -> set[str]:
        """Addresses of users of NFS datastores; while the NFS server knows no client also networks. Raises UnavailableError."""
        return {user.address for users in self.nfs_users()[1].values() for user in users}

    def mounted_by(self, uuid: str, others: Collection[str] = ()) -> list[str]:
        """Clients that use an NFS datastore, and are not within `others`; empty while it is not exported. Raises
        UnavailableError.
        """
        users = self.nfs_users(uuid)[1].get(uuid, ())
        return [user.text for user in users if not exports.is_within(user.address, others)]

    def nfs_users(self, *uuids: str) -> tuple[Clients, dict[str, list[nfs_serving.User]]]:
        """Clients of ganesha, and users of NFS datastores that it serves (default: all), as nfs_serving.using finds them.

        Queries ganesha once. Raises UnavailableError.
        """
        with self.store.reading() as session:
            groups = domain.Shown.read(session).groups
            rows = [row for row in session.scalars(select(Export)) if not uuids or row.datastore in uuids]
            names = {row.datastore: exports.addresses(session, groups.get(row.datastore, ())) for row in rows}
        if not rows:
            return Clients(0, 0, ()), {}
        with as_domain_errors():
            served, clients = {export.export_id: export for export in self.nfs.served() if export.served}, self.nfs.clients()
        return clients, {
            row.datastore: nfs_serving.using(served[row.number], clients, names[row.datastore], row.clients)
            for row in rows
            if row.number in served
        }

    @property
    def target_name(self) -> str:
        """The name of our iSCSI target: the configuration file's, or else the database's. A recovered database may change it."""
        if self.configuration.target.name is not None:
            return self.configuration.target.name
        with self.store.reading() as session:
            return hosts.target_name(session)

    def served_targets(self) -> list[ServedTarget]:
        """State of our iSCSI target, and of those with a name of another database. Raises UnavailableError."""
        name = self.target_name
        with as_domain_errors():
            return [target for target in self.target.targets() if is_ours(target.name, name)]
