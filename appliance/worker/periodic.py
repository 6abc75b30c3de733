# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks of the worker: alerts of capacity and hazards, when hosts were seen, schedules, retention of snapshots."""

import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from shlex import quote

from sqlalchemy import select

from appliance import updates
from appliance.database.models import Schedule, Setting, Token, User
from appliance.domain import datastores as domain
from appliance.domain import hazards, hosts, requests, retention, schedules
from appliance.domain import jobs as job_store
from appliance.domain.addresses import local_addresses
from appliance.domain.certificate import describe
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError, UnavailableError
from appliance.domain.journal import note
from appliance.domain.pool_health import unlisted
from appliance.worker import network, pool_operations, portals
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.executor import Executor

RETRY_SECONDS = 900
"""Pause before retention tries a snapshot again that it could not destroy: `zfs send` can read one for hours."""
NETWORK_S = 120.0
"""So long after the boot an address or link can still be on its way."""
CLOCK_S = 900.0
"""So long after the boot the clock can still be unsynchronized. The clock is read as often: systemd starts a service for that."""
_ZED = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1/unit/zfs_2dzed_2eservice", "org.freedesktop.systemd1.Unit")
_log = logging.getLogger(__name__)


class Periodic:
    """Periodic work of a worker. `newest`: maximum age of an inventory, as InventoryCache.oldest."""

    def __init__(self, context: Context, executor: Executor, newest: Callable[[], float]) -> None:
        self._context, self._executor, self._newest = context, executor, newest
        self.now: Callable[[], float] = time.time
        self._clock_read = 0.0
        """Seconds since the boot."""
        self._synchronized: bool | None = None
        self._tried: dict[str, float] = {}
        """Snapshots that retention tried to destroy within RETRY_SECONDS, and when."""

    def capacity(self) -> None:
        self._context.scan(self._newest())
        pool_operations.update_capacity_alerts(self._context)

    def hosts(self) -> None:
        """Stores when each host was last logged in or used NFS. Omits a data plane that does not answer."""
        seen: dict[str, float] = {}
        with contextlib.suppress(DomainError):
            seen |= {client.address: client.seen_at for client in self._context.nfs_users()[0].known}
        with contextlib.suppress(DomainError):
            seen |= {session.initiator: self.now() for session in self._context.sessions()}
        with self._context.store.session() as session:
            hosts.note_seen(session, seen)

    def hazards(self) -> None:
        """Those of the server first: they need no scan."""
        certificate = None
        with contextlib.suppress(OSError, ValueError):
            certificate = describe(self._context.configuration.http.certificate)
        self._context.alerts.update(hazards.CERTIFICATE, hazards.of_certificate(certificate, self.now()))
        folder = self._context.configuration.state_directory
        self._context.alerts.update(hazards.SYSTEM_DISK, hazards.of_system_disk(folder, shutil.disk_usage(folder).free))
        self._context.alerts.update(hazards.KERNEL, hazards.of_kernel(updates.unprepared_kernel(self.now())))
        with self._context.store.reading() as session:
            owners = {user.id: user.name for user in session.scalars(select(User))}
            tokens = hazards.of_tokens(session.scalars(select(Token)), owners, self.now())
        self._context.alerts.update(hazards.TOKENS, tokens)
        with self._context.store.session() as session:
            known = session.get(Setting, hazards.CERTIFICATE)
            if certificate is not None and (known is None or known.value["fingerprint"] != certificate.fingerprint):
                session.merge(Setting(name=hazards.CERTIFICATE, value={"fingerprint": certificate.fingerprint}))
                if known is not None:
                    note(session, hazards.renewed(certificate))
        if time.monotonic() > NETWORK_S:
            self._portals()
            with contextlib.suppress(UnavailableError):
                self._context.alerts.update(hazards.LINKS, hazards.of_links(network.lost_links()))
        self._clock(time.monotonic())
        unit = network.properties(self._context.configuration.nfs.bus, *_ZED)
        if unit:
            self._context.alerts.update(hazards.ZED, hazards.of_zed(unit.get("ActiveState")))
        stores = self._context.datastores(self._newest())
        self._context.alerts.update(hazards.SYNC, hazards.of_datastores(stores))
        self._context.alerts.update(hazards.READONLY, hazards.of_readonly(stores, self._context.inventory.pools))
        luns = [lun for target in self._context.served_targets() for lun in target.luns]
        self._context.alerts.update(hazards.QUEUE, hazards.of_queues(stores, {lun.lun.uuid for lun in luns if lun.write_through}))

    def _clock(self, now: float) -> None:
        """`now`: seconds since the boot."""
        if now - self._clock_read > CLOCK_S:
            self._clock_read = now
            self._synchronized = network.clock(self._context.configuration.nfs.bus).synchronized
        if self._synchronized is not None:
            self._context.alerts.update(hazards.CLOCK, hazards.of_clock(self._synchronized))

    def _portals(self) -> None:
        with contextlib.suppress(DomainError), as_domain_errors():  # a target that does not answer has a separate alert
            obstacles = portals.obstacles(self._context.target.portals(), local_addresses())
            self._context.alerts.update(hazards.PORTALS, hazards.of_portals(obstacles))

    def schedules(self) -> None:
        if not self._context.recovery.allows_jobs:
            return
        with self._context.store.reading() as session:
            enabled = [schedule for schedule in session.scalars(select(Schedule)) if schedule.enabled]
        for schedule in enabled:
            try:
                due, slot = schedules.due(schedule, self.now()), schedules.slot(schedule, self.now())
            except InvalidError as error:  # its time zone is unknown since an upgrade of tzdata
                with self._context.store.session() as session:
                    remedy = f"change its time zone: zvaai schedule change {quote(schedule.name)} --time-zone UTC"
                    schedules.ended(session, schedule.id, str(error), remedy=remedy)
                continue
            if not due:
                continue
            stores = self._context.datastores(self._newest())
            active = {store.id for store in stores if store.state == "active"}
            names = {store.id: store.name for store in stores}
            hidden = any(unlisted(pool) for pool in self._context.scan(self._newest()).pools)
            missing = {} if hidden else {store: names.get(store, store) for store in sorted(set(schedule.datastores) - active)}
            away = any(store.id in missing and store.state == "missing" for store in stores)
            present = sorted(set(schedule.datastores) & active)
            problem: str | None = None
            remedy = schedules.FAILED_JOBS
            try:  # after a crash before the slot is stored, the same job is found
                self._submit_due(schedule, present, f"schedule {schedule.id} {slot} {schedule.attempted_at}")
            except UnavailableError:
                raise
            except (ConflictError, NotFoundError) as error:  # retried in the next run, until the slot ends
                _log.info("schedule %s: %s", schedule.name, error)
                problem, slot = str(error), schedule.attempted_at or 0.0
                remedy = "It is tried again until the next slot"
            except DomainError as error:
                problem = str(error)
            if schedule.kind != schedules.SCRUB and not present:  # until its pool is back, or the slot ends
                slot = schedule.attempted_at or 0.0
            with self._context.store.session() as session:
                schedules.attempted(session, schedule.id, slot, missing, away=away)
                if problem is not None:
                    schedules.ended(session, schedule.id, problem, remedy=remedy)
        self._overdue()
        self.retention()

    def _submit_due(self, schedule: Schedule, datastores: list[str], key: str) -> None:
        actor = f"schedule {schedule.name}"
        with self._context.store.reading() as session:
            job_store.check_ended(session, schedule.id, key)
        if schedule.kind == schedules.SCRUB:
            scrub = requests.ScrubCreate(action="start").of(pool=str(schedule.pool), schedule=schedule.id)
            self._executor.submit(scrub, actor, key=key)
        elif datastores:
            name, days = schedules.snapshot_name(schedule, self.now()), schedule.protect_days
            take = requests.SnapshotCreate(name=name, datastores=datastores, protect_days=days)
            self._executor.submit(take.of(schedule=schedule.id), actor, key=key)

    def _overdue(self) -> None:
        inventory = self._context.scan(self._newest())
        with self._context.store.reading() as session:
            stores = {store.dataset: store for store in domain.datastores(inventory, session) if store.state == "active"}
            findings = schedules.overdue(session.scalars(select(Schedule)), inventory.snapshots, stores, self.now())
        self._context.alerts.update(schedules.OVERDUE, findings)

    def retention(self) -> None:
        with self._context.store.reading() as session:
            rules = schedules.rules(session)
            stores = {store.dataset: store for store in domain.datastores(self._context.scan(self._newest()), session)}
            active = [(job.subject, job_store.plan_of(job)) for job in job_store.active(session)]
        # A job without a pool does not wait for retention: the restore of a VM reads a snapshot of a datastore that it is about.
        busy = {name for subject, plan in active for name in (subject, *(() if plan.pools else plan.about))}
        snapshots = self._context.scan(self._newest()).snapshots
        now = self.now()
        surplus, expired = retention.surplus(snapshots, rules), retention.expired(snapshots, now)
        self._tried = {name: at for name, at in self._tried.items() if 0 <= now - at < RETRY_SECONDS}
        pools: dict[str, set[str]] = {}
        idle: dict[str, list[str]] = {"surplus": [], "expired": []}
        for what, chosen in (("surplus", surplus), ("expired", expired)):
            for snapshot in chosen:
                if snapshot.name in self._tried:
                    continue
                store = stores.get(snapshot.dataset)
                # In the trash too, protection ends: a held snapshot prevents the purge.
                if store is not None and (store.state == "active" or what == "expired") and store.id not in busy:
                    pools.setdefault(store.pool, set()).add(store.id)
                    idle[what].append(snapshot.name)
        for pool, about in pools.items():
            names, over = ([name for name in idle[what] if name.startswith(f"{pool}/")] for what in ("surplus", "expired"))
            try:
                retire = requests.RetireSnapshots(pool=pool, names=names, about=sorted(about), expired=over)
                self._executor.submit(retire, "retention")
                self._tried |= dict.fromkeys(names, now)
            except DomainError as error:
                _log.info("retention leaves %s for now: %s", pool, error)
