# SPDX-License-Identifier: Apache-2.0
"""Monitors pools, devices, events of OpenZFS, and SMART data of disks; raises alerts."""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy.orm import Session

from appliance.database.models import Alert, Setting
from appliance.domain import disks, identity, pool_health
from appliance.domain.disks import DiskReport
from appliance.domain.errors import DomainError
from appliance.domain.journal import Finding, note, open_alerts, publish, update_alerts
from appliance.domain.pool_health import ZfsEvent
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.zfs import errors as zfs
from appliance.zfs.model import Disk, DiskHealth

EVENTS_A_MINUTE = 60
"""Limit of published events; a failing disk makes more. The pool's state shows their effect."""
_SCAN_INTERVAL_S, _SCAN_TIMES = 1.0, 4
"""Shortest time between scans that events start: at least _SCAN_TIMES as long as the last scan took."""
_COUNTS = "disk_counts"
_log = logging.getLogger(__name__)


class Watch:
    """Monitor of a worker. `reconcile` requests a reconciliation, because an event can change which datastores can be served."""

    def __init__(self, context: Context, reconcile: Callable[[], None]) -> None:
        self._context, self._reconcile = context, reconcile
        self.now: Callable[[], float] = time.time
        self._stopping, self._changed = threading.Event(), threading.Event()
        self.disks_read = threading.Event()
        """Set after the first read of all disks, or its failure."""
        self._threads = (
            threading.Thread(target=self._disks_by_the_clock, name="disks"),
            threading.Thread(target=self._pools_by_events, name="events"),
        )
        self._lock = threading.Lock()
        self._updating = threading.Lock()
        self._slow: dict[tuple[str, str], tuple[ZfsEvent, float]] = {}
        """The last such event of each device, and its time."""
        self._minute, self._published = 0, 0
        self._scanned = -math.inf
        self._waiting = False
        self._healths: dict[str, tuple[Disk, DiskHealth, float]] = {}
        context.disk_reports = self.disks

    def start(self) -> None:
        """Reads disks in the background, because a sleeping or failing disk is slow."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        for thread in self._threads:
            thread.join()

    # --- pools

    def pools(self) -> None:
        with self._updating:  # results are applied in the order of their scans
            inventory, now = self._context.scan(60), self.now()
            datasets = (*inventory.filesystems, *inventory.volumes)
            with_datastores = {dataset.pool for dataset in datasets if identity.UUID in dataset.properties}
            findings = pool_health.findings(inventory.pools, now, with_datastores)
            with self._lock:
                of_the_system = {pool.name: pool.of_the_system for pool in inventory.pools}
                self._slow = {
                    key: (event, at)
                    for key, (event, at) in self._slow.items()
                    if now - at < pool_health.SLOW_REPORTED_S and event.pool in of_the_system
                }
                slow = [
                    pool_health.slow_finding(event, of_the_system=of_the_system[event.pool]) for event, _ in self._slow.values()
                ]
            self._context.alerts.update(pool_health.AREA, findings)
            self._context.alerts.update(pool_health.SLOW_AREA, slow)
            with self._context.store.session() as session:
                for ended in pool_health.scans(inventory.pools, now):
                    note(session, ended)

    def event(self, sent: Mapping[str, object]) -> bool:
        """Publishes an OpenZFS event from a zedlet, and requests a scan. Returns whether it was stored. Raises InvalidError."""
        event = pool_health.event(sent)
        with self._lock:
            if event.slow:
                self._slow[event.pool, event.vdev] = (event, self.now())
            minute = int(self.now()) // 60
            if minute != self._minute:
                self._minute, self._published = minute, 0
            self._published += 1
            published = self._published <= EVENTS_A_MINUTE
            interval = max(_SCAN_INTERVAL_S, _SCAN_TIMES * self._context.scan_seconds)
            soon = time.monotonic() - self._scanned >= interval
            later = not soon and not self._waiting
            if soon:
                self._scanned = time.monotonic()
            elif later:
                self._waiting = True
        if published:
            with self._context.store.session() as session:
                publish(
                    session, "zfs", event.pool, event_class=event.event_class, vdev=event.vdev, state=event.state,
                    eid=event.number,
                )  # fmt: skip
        if soon:
            self._changed.set()
        elif later:  # in an event storm: one scan per interval, and one after the last event
            timer = threading.Timer(interval, self._scan_later)
            timer.daemon = True
            timer.start()
        return published

    def _scan_later(self) -> None:
        with self._lock:
            self._waiting, self._scanned = False, time.monotonic()
        self._changed.set()

    def _pools_by_events(self) -> None:
        """Runs in a separate thread, so that slow answers of target and NFS server do not delay the alert."""
        while self._changed.wait():
            self._changed.clear()
            if self._stopping.is_set():
                return
            try:
                self._context.scan()
                self.pools()
            except DomainError as error:
                _log.warning("pools: %s", error)
            except Exception:
                _log.exception("pools")
            self._reconcile()

    # --- disks

    def disks(self) -> list[DiskReport]:
        """All disks with their latest SMART data. Raises DomainError."""
        with as_domain_errors():
            listed = self._context.engine.disks()
        with self._context.store.reading() as session:
            alerts = open_alerts(session, disks.AREA)
            hot, severities = _hot(alerts), {alert.key: alert.severity for alert in alerts}
        reports = []
        for disk in listed:
            last = self._last(disk)
            worst = None if last is None else disks.severity(disk, last[0], hot, severities)
            reports.append(DiskReport(disk, None, 0) if last is None else DiskReport(disk, *last, worst))
        return reports

    def _last(self, disk: Disk) -> tuple[DiskHealth, float] | None:
        """The latest SMART data, and its time; not of an earlier disk at the same path."""
        known = self._healths.get(disk.path)
        return known[1:] if known is not None and known[0].serial == disk.serial else None

    def _disks_by_the_clock(self) -> None:
        while not self._stopping.is_set():
            try:
                self.read_disks()
            except DomainError as error:
                _log.warning("disks: %s", error)
            except Exception:
                _log.exception("disks")
            self.disks_read.set()
            self._stopping.wait(self._context.configuration.worker.disk_health_seconds)

    def read_disks(self) -> None:
        """Reads all disks; keeps the old data of unresponsive and sleeping disks. Raises DomainError."""
        with as_domain_errors():
            listed = self._context.engine.disks()
        healths = {}
        unknown: list[tuple[Disk, DiskHealth, bool]] = []
        for disk in listed:
            if self._stopping.is_set():
                return
            before = self._last(disk)
            try:
                health = self._context.engine.disk_health(disk.path)
            except zfs.NoSuchDevice:
                continue
            except zfs.ZfsError as error:
                _log.warning("disk %s: %s", disk.path, error)
                health = DiskHealth(available=False, unanswered=True, reason=str(error))
            if health.unanswered or health.asleep:
                unknown.append((disk, health, before is not None and before[0].available))
                if before is not None and before[0].available:
                    healths[disk.path] = (disk, *before)
                    continue
            healths[disk.path] = (disk, health, self.now())
        self._healths = healths
        system: set[str] = set()
        with contextlib.suppress(DomainError):  # else remedies name commands that the helper refuses there
            system = {pool.name for pool in self._context.scan(3600).pools if pool.of_the_system}
        with self._context.store.session() as session:
            alerts = open_alerts(session, disks.AREA)
            hot = _hot(alerts)
            read = {path: disk_and_health[:2] for path, disk_and_health in healths.items()}
            current = {finding.key: finding for finding in disks.findings(read, hot, system)}
            for disk, health, reported_before in unknown:
                earlier = [alert for alert in alerts if alert.key.endswith(f":{disks.identity(disk)}")]
                for alert in earlier:  # from before the worker's start
                    current.setdefault(alert.key, Finding(alert.key, alert.severity, alert.subject, alert.text, alert.remedy))
                if health.unanswered and (earlier or reported_before):
                    silent = disks.silent(disk, health)
                    current[silent.key] = silent
            self._update_disk_alerts(session, current, alerts, disks.counts(health[:2] for health in healths.values()))

    def _update_disk_alerts(
        self, session: Session, findings: dict[str, Finding], alerts: Sequence[Alert], counts: dict[str, int]
    ) -> None:
        """Alerts on growing counters until they are acknowledged, and again after further growth."""
        setting = session.get(Setting, _COUNTS)
        known = {key: disks.Count(*count) for key, count in setting.value.items()} if setting else {}
        acknowledged = {alert.key for alert in alerts if alert.acknowledged_at is not None}
        remembered = disks.grown(known, counts, acknowledged)
        if remembered != known:
            session.merge(
                Setting(name=_COUNTS, value={key: [count.reported, count.acknowledged] for key, count in remembered.items()})
            )
        for key in findings.keys() & remembered.keys():
            if remembered[key].reported <= remembered[key].acknowledged:
                del findings[key]
        again = acknowledged & counts.keys() & findings.keys()
        if again:  # ends the acknowledged alert and starts a new one
            update_alerts(session, disks.AREA, [finding for key, finding in findings.items() if key not in again])
        update_alerts(session, disks.AREA, findings.values())


def _hot(alerts: Sequence[Alert]) -> set[str]:
    return {alert.key for alert in alerts if alert.key.startswith(f"{disks.AREA}:temperature:")}
