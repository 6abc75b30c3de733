# SPDX-License-Identifier: Apache-2.0
"""What the worker's parts share: the engine, the database, the target, and what they know of each other."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import select

from appliance.config import Configuration
from appliance.database.models import Export
from appliance.database.store import Store
from appliance.dataplane.ganesha import ExportControl, NfsClient
from appliance.dataplane.reconcile import Outcome
from appliance.dataplane.target import ServedTarget, TargetControl
from appliance.dataplane.vaai_nas import FileControl
from appliance.domain import capacity, exports, identity, retention
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore, Inventory
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


class Reconciler(Protocol):
    """Makes target and NFS server serve what they should: Reconciling."""

    lock: threading.Lock
    at: float
    problem: str | None
    serving: set[str]

    def reconcile(self, cause: str, kind: str | None = None, pools: Collection[str] | None = None) -> Outcome:
        """Raises UnavailableError."""


class ConfigurationRecovery(Protocol):
    """Compares the database with the copies of the configuration on pools: Recovery."""

    @property
    def allows_jobs(self) -> bool:
        """Not in recovery mode, nor before the first comparison."""

    def check(self, inventory: Inventory) -> None:
        """Raises RecoveryModeError."""

    def start(self) -> None:
        """Begins to write copies."""

    def stop(self) -> None:
        """Ends that."""

    def status(self) -> dict[str, Any]:
        """For the API."""

    def backup(self) -> Copy:
        """The configuration as it is now."""

    def keep(self) -> None:
        """Ends recovery mode: the database is right."""

    def take(
        self, pool: str | None, file: str | None, recovery_key: str | None, caller: str, *, dry_run: bool, force: bool
    ) -> list[str]:
        """Takes the configuration of a copy; the changes in words."""


@dataclass
class Context:
    """Of one worker. worker.assembly makes it, with what depends on it."""

    configuration: Configuration
    store: Store
    engine: ZfsEngine
    target: TargetControl
    nfs: ExportControl
    keys: Keys
    """Of encrypted datasets."""
    folders: Folders
    """Of snapshots of NFS datastores."""
    copies: ConfigurationCopies
    """Of the configuration, on the pools."""
    files: FileControl
    """Of NFS datastores, as the NFS server has them."""
    seal: Seal
    device: Callable[[Volume], str] = lambda volume: volume.device
    """Where the target opens a volume."""
    path: Callable[[Filesystem], str] = lambda filesystem: filesystem.mountpoint or ""
    """Where the NFS server finds a file system."""
    topmost: Callable[[str], str | None] | None = mountinfo.topmost
    """What is mounted at a path; None where nothing is ever mounted."""
    mounts: str = nfs_serving.MOUNTS
    """Where datastores are mounted, each as one name below."""
    on_files: bool = False
    """Volumes are opened as files, of which none can be thick."""
    folder: Callable[[Pool], str] = reservations.mountpoint
    """Where the target keeps the persistent reservations of a pool's LUNs."""
    reconciling: Reconciler = field(init=False)
    """What makes target and NFS server serve what they should."""
    recovery: ConfigurationRecovery = field(init=False)
    """Copies of the configuration on pools."""
    outdated: threading.Event = field(default_factory=threading.Event)
    """Somebody should look: picture.py."""
    alerts: Alerts = field(init=False)
    """Of what rounds find."""
    disks_told: Callable[[], list[dict[str, Any]]] = list
    """All disks, with what each said last by SMART: watch.py."""
    pool_thresholds: dict[int, capacity.Thresholds] = field(default_factory=dict)
    """As last seen, by this worker or one before, by the pool's GUID: of a suspended pool they can't be."""
    look_failed: bool = False
    look_seconds: float = 0
    """How long the last look took."""
    _inventory: Inventory = field(default_factory=lambda: Inventory(at=-math.inf))
    """Never looked at yet is older than anything: the monotonic clock may begin with the machine (clock_gettime(2))."""
    _reading: PoolReading = field(init=False)
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _taking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.alerts = Alerts(self.store)
        self._reading = PoolReading(self.engine, ("zvaai:job", retention.SCHEDULE, retention.PROTECT))
        with self.store.reading() as session:
            self.pool_thresholds |= capacity.stored_thresholds(session)

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
                with as_domain_errors():
                    self._reading.read()
                found = self._take(began)
                told = capacity.thresholds(found)
                self.pool_thresholds |= {pool.guid: told[pool.name] for pool in found.pools if pool.name in told}
            except BaseException:
                self.look_failed = True
                raise
            self.look_failed, self.look_seconds = False, time.monotonic() - began
            return found

    def look_at(self, pools: Collection[str]) -> Inventory:
        """Reads the datasets of these pools alone, which the caller has changed. The rest is as last looked at.

        Waits for no other pool, and under no lock. Raises DomainError.
        """
        if self._inventory.at == -math.inf:
            return self.look()
        with as_domain_errors():
            self._reading.read_again(pools)
        return self._take(None)

    def _take(self, at: float | None) -> Inventory:
        """What was read last becomes the inventory; `at`: when all of it was begun to be read."""
        with self._taking:
            found = self._reading.content()
            paths = {one.name: self.path(one) for one in found.filesystems if identity.UUID in one.properties}
            self._inventory = Inventory(
                at=self._inventory.at if at is None else at,
                pools=found.pools,
                volumes=found.volumes,
                filesystems=found.filesystems,
                snapshots=found.snapshots,
                devices={volume.name: self.device(volume) for volume in found.volumes} | paths,
            )
            return self._inventory

    @property
    def inventory(self) -> Inventory:
        """As last looked at."""
        return self._inventory

    @property
    def scanned_at(self) -> float:
        """When that was last begun with success, by the monotonic clock."""
        return self._inventory.at

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
            served = [lun.lun for one in self.served_targets() for lun in one.luns if lun.lun.uuid == uuid]
            found = [self.target.registrations(self.configuration.target.name, lun.number) for lun in served]
        return sorted(port for one in found if not one.survive for port in one.initiators)

    def served_targets(self) -> list[ServedTarget]:
        """Ours, as the target has it; none while it has none. Raises UnavailableError."""
        with as_domain_errors():
            return [one for one in self.target.targets() if one.name == self.configuration.target.name]
