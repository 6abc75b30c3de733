# SPDX-License-Identifier: Apache-2.0
"""What goes wrong by itself: pools and their devices, events of OpenZFS, and what disks say by SMART. Each becomes an alert."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Alert, Setting
from appliance.domain import disks, identity, pool_health
from appliance.domain.errors import DomainError
from appliance.domain.journal import Finding, note, publish, update_alerts
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.zfs import errors as zfs
from appliance.zfs.model import Disk, DiskHealth

EVENTS_A_MINUTE = 60
"""That are kept; a disk that fails makes more. What they changed is seen in the pool's state."""
_LOOKED_AFTER_S = 1.0
_COUNTS = "disk_counts"
"""The setting that remembers what disks have counted."""
_log = logging.getLogger(__name__)


class Watch:
    """Of one worker. `reconcile` has all served as it should be, soon: an event may have changed what can be."""

    def __init__(self, context: Context, reconcile: Callable[[], None]) -> None:
        self._context, self._reconcile = context, reconcile
        self.now: Callable[[], float] = time.time
        self._stopping, self._changed = threading.Event(), threading.Event()
        self.asked = threading.Event()
        """Disks were asked once since the start, or can't be."""
        self._threads = (
            threading.Thread(target=self._disks_by_the_clock, name="disks"),
            threading.Thread(target=self._pools_by_events, name="events"),
        )
        self._lock = threading.Lock()
        self._settling = threading.Lock()
        self._slow: dict[str, tuple[Finding, float]] = {}
        self._minute, self._kept = 0, 0
        self._looked = -math.inf
        self._waiting = False
        self._healths: dict[str, tuple[Disk, DiskHealth, float]] = {}
        context.disks_told = self.disks

    def start(self) -> None:
        """Disks are asked in the background: one that sleeps or fails takes its time."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """After the disk that is being asked."""
        self._stopping.set()
        self._changed.set()
        for thread in self._threads:
            thread.join()

    # --- pools

    def pools(self) -> None:
        """As last looked at."""
        with self._settling:  # what was looked at first is settled first
            inventory, now = self._context.look(60), self.now()
            datasets = (*inventory.filesystems, *inventory.volumes)
            with_datastores = {one.pool for one in datasets if identity.UUID in one.properties}
            found = pool_health.findings(inventory.pools, now, with_datastores)
            with self._lock:
                names = {pool.name for pool in inventory.pools}
                self._slow = {
                    key: (finding, at)
                    for key, (finding, at) in self._slow.items()
                    if now - at < pool_health.SLOW_REPORTED_S and finding.subject in names
                }
                slow = [finding for finding, _ in self._slow.values()]
            with self._context.store.session() as session:
                update_alerts(session, pool_health.AREA, found)
                update_alerts(session, pool_health.SLOW_AREA, slow)
                for ended in pool_health.scans(inventory.pools, now):
                    note(session, ended)

    def event(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One of OpenZFS: kept, and the pools are looked at. Raises InvalidError."""
        told = pool_health.event(asked)
        if told.noise:
            return {"kept": False}
        with self._lock:
            if told.slow:
                finding = pool_health.slow_finding(told)
                self._slow[finding.key] = (finding, self.now())
            minute = int(self.now()) // 60
            if minute != self._minute:
                self._minute, self._kept = minute, 0
            self._kept += 1
            kept = self._kept <= EVENTS_A_MINUTE
            soon = time.monotonic() - self._looked >= _LOOKED_AFTER_S
            later = not soon and not self._waiting
            if soon:
                self._looked = time.monotonic()
            elif later:
                self._waiting = True
        if kept:
            with self._context.store.session() as session:
                publish(
                    session, "zfs", told.pool, event_class=told.event_class, vdev=told.vdev, state=told.state, eid=told.number
                )
        if soon:
            self._changed.set()
        elif later:  # in a storm of events not for each, but for the last of them too
            timer = threading.Timer(_LOOKED_AFTER_S, self._look_later)
            timer.daemon = True
            timer.start()
        return {"kept": kept}

    def _look_later(self) -> None:
        with self._lock:
            self._waiting, self._looked = False, time.monotonic()
        self._changed.set()

    def _pools_by_events(self) -> None:
        """Not in the clock's thread: a fault is told, however long target and NFS server take to answer."""
        while self._changed.wait() and not self._stopping.is_set():
            self._changed.clear()
            try:
                self._context.look()
                self.pools()
            except DomainError as error:
                _log.warning("pools: %s", error)
            except Exception:
                _log.exception("pools")
            self._reconcile()

    # --- disks

    def disks(self) -> list[dict[str, Any]]:
        """All disks, with what they said last. Raises DomainError."""
        with as_domain_errors():
            found = self._context.engine.disks()
        told = []
        for disk in found:
            known = self._healths.get(disk.path)
            same = known is not None and known[0].serial == disk.serial
            health = {**asdict(known[1]), "read_at": known[2]} if known is not None and same else None
            told.append({**asdict(disk), "smart": health})
        return told

    def _disks_by_the_clock(self) -> None:
        while not self._stopping.is_set():
            try:
                self.ask_disks()
            except DomainError as error:
                _log.warning("disks: %s", error)
            except Exception:
                _log.exception("disks")
            self.asked.set()
            self._stopping.wait(self._context.configuration.worker.disk_health_seconds)

    def ask_disks(self) -> None:
        """Each; of one that does not answer, or is asleep, it stays as it was. Raises DomainError when none can be asked."""
        with as_domain_errors():
            found = self._context.engine.disks()
        healths = {}
        unknown: list[tuple[Disk, DiskHealth, bool]] = []
        for disk in found:
            if self._stopping.is_set():
                return
            known = self._healths.get(disk.path)
            before = known if known is not None and known[0].serial == disk.serial else None
            try:
                health = self._context.engine.disk_health(disk.path)
            except zfs.NoSuchDevice:
                continue
            except zfs.ZfsError as error:
                _log.warning("disk %s: %s", disk.path, error)
                health = DiskHealth(available=False, unanswered=True, reason=str(error))
            if health.unanswered or health.asleep:
                unknown.append((disk, health, before is not None and before[1].available))
                if before is not None and before[1].available:
                    healths[disk.path] = (disk, before[1], before[2])
                    continue
            healths[disk.path] = (disk, health, self.now())
        self._healths = healths
        with self._context.store.session() as session:
            opened = session.scalars(
                select(Alert).where(Alert.cleared_at.is_(None), Alert.key.startswith(f"{disks.AREA}:"))
            ).all()
            now_found = {one.key: one for one in disks.findings({path: one[:2] for path, one in healths.items()}, hot_of(opened))}
            for disk, health, told_before in unknown:
                kept = [one for one in opened if one.key.endswith(f":{disks.identity(disk)}")]
                for one in kept:  # of what it said before the worker was started
                    now_found.setdefault(one.key, Finding(one.key, one.severity, one.subject, one.text, one.remedy))
                if health.unanswered and (kept or told_before):
                    silent = disks.silent(disk, health)
                    now_found[silent.key] = silent
            self._settle_disks(session, now_found, opened, disks.counts(one[:2] for one in healths.values()))

    def _settle_disks(self, session: Session, found: dict[str, Finding], opened: Sequence[Alert], counts: dict[str, int]) -> None:
        """What only grows is told until it is acknowledged, and again when it has grown."""
        setting = session.get(Setting, _COUNTS)
        known = {key: disks.Count(*one) for key, one in setting.value.items()} if setting else {}
        looked_after = {one.key for one in opened if one.acknowledged_at is not None}
        kept = disks.grown(known, counts, looked_after)
        if kept != known:
            session.merge(Setting(name=_COUNTS, value={key: [one.reported, one.acknowledged] for key, one in kept.items()}))
        for key in found.keys() & kept.keys():
            if kept[key].reported <= kept[key].acknowledged:
                del found[key]
        again = looked_after & counts.keys() & found.keys()
        if again:  # the alert that is looked after ends, and another one begins
            update_alerts(session, disks.AREA, [one for key, one in found.items() if key not in again])
        update_alerts(session, disks.AREA, found.values())


def hot_of(opened: Sequence[Alert]) -> set[str]:
    """Keys of the alerts of disks that were too warm."""
    return {one.key for one in opened if one.key.startswith(f"{disks.AREA}:temperature:")}
