# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics: present values of worker, target and database, in the text exposition format.

Labels are limited to objects of an admin: pools, devices, datastores, hosts. The only label that a host chooses is its iSCSI
name, which an admin must permit first. Counters are those of the data planes, and restart with them.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from appliance import __version__, decoding
from appliance.api.operation import Call, Resource
from appliance.api.wire import Response
from appliance.database.models import Alert, Job, LoginSession
from appliance.dataplane.target import Status
from appliance.domain import capacity, statistics
from appliance.domain.access import Role
from appliance.domain.datastores import Datastore
from appliance.domain.errors import DomainError
from appliance.domain.exports import IDLE_SECONDS
from appliance.domain.statistics import Json, Row
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.offloads import EXPORTS, LUNS, Counts
from appliance.zfs.model import Filesystem, Pool

resource = Resource("metrics")

HEALTHS = ("ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED")
JOB_STATES = ("queued", "running", "succeeded", "failed", "cancelled")
OPERATIONS = (
    "read", "write", "verify", "synchronize_cache", "compare_and_write", "write_same", "unmap", "extended_copy", "token",
    "reservation", "other",
)  # fmt: skip
NFS_OPERATIONS = ("capabilities", "clone", "fast_clone", "reserve", "statistics", "job")
NFS_OFFLOADED = ("cloned", "copied", "hole", "reserved")
OFFLOADED = ("cloned", "copied", "zeroed", "unmapped")
BOUNDS = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
"""Microseconds. The target counts more finely, which would be a thousand series for each LUN."""
MOST_HOSTS = 512
"""The target keeps 256 without a session."""


class _Families(Collector):
    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}
        self._seen: set[tuple[str, ...]] = set()

    def collect(self) -> Iterator[Metric]:
        yield from self._families.values()

    def _first(self, name: str, labels: dict[str, str]) -> bool:
        """Whether there is no such sample yet: a spare in use is in a pool twice."""
        sample = (name, *labels.values())
        first = sample not in self._seen
        self._seen.add(sample)
        return first

    def gauge(self, name: str, text: str, value: float, /, **labels: str) -> None:
        family = self._families.setdefault(name, GaugeMetricFamily(f"zvaai_{name}", text, labels=list(labels)))
        assert isinstance(family, GaugeMetricFamily)
        if self._first(name, labels):
            family.add_metric(list(labels.values()), value)

    def counter(self, name: str, text: str, value: float, /, **labels: str) -> None:
        family = self._families.setdefault(name, CounterMetricFamily(f"zvaai_{name}", text, labels=list(labels)))
        assert isinstance(family, CounterMetricFamily)
        if self._first(name, labels):
            family.add_metric(list(labels.values()), value)

    def histogram(self, name: str, text: str, buckets: list[tuple[str, float]], total: float, /, **labels: str) -> None:
        """How long things took, in seconds; the buckets are cumulative, the last is +Inf."""
        family = self._families.setdefault(name, HistogramMetricFamily(f"zvaai_{name}", text, labels=list(labels)))
        assert isinstance(family, HistogramMetricFamily)
        if self._first(name, labels):
            family.add_metric(list(labels.values()), buckets, total)


@resource.operation("GET", "/metrics", role=Role.VIEWER, media=CONTENT_TYPE_LATEST.split(";", 1)[0])
def read_metrics(call: Call) -> Response:
    """Prometheus metrics in the text format. While OpenZFS, the target or NFS is away, its part is missing and `_up` is 0."""
    families = _Families()
    families.gauge("build_info", "The version that runs.", 1, version=__version__)
    context, reconciling = call.context, call.context.reconciling
    in_order = reconciling.problem is None
    families.gauge("reconcile_ok", "Whether the data planes served the desired state at the last reconcile.", in_order)
    families.gauge("reconcile_timestamp_seconds", "Time of the last reconcile.", reconciling.at)
    inventory, stores, target = None, [], None
    with contextlib.suppress(DomainError):
        inventory, stores = call.worker.inventory(), call.worker.datastores()
    with contextlib.suppress(DomainError), as_domain_errors():
        counters = context.target.statistics(context.target_name)
        target = context.target.status(), len(context.sessions()), counters, context.target.space()
    families.gauge("storage_up", "Whether OpenZFS answers.", inventory is not None)
    families.gauge("target_up", "Whether the iSCSI target answers.", target is not None)
    if inventory is not None:
        roots, limits = capacity.roots_of(inventory), capacity.thresholds(inventory, context.pool_thresholds)
        for pool in inventory.pools:
            _pool(families, pool, roots.get(pool.name), stores)
            limit = limits.get(pool.name, capacity.Thresholds())
            families.gauge("pool_critical_ratio", "Used ratio of a critical alert.", limit.critical / 100, pool=pool.name)
        taken = Counter(snapshot.dataset for snapshot in inventory.snapshots)
        for store in stores:
            _datastore(families, store, taken[store.dataset])
    if target is not None:
        _target(families, *target, {store.uuid: store.name for store in stores if store.uuid})
    _nfs(families, context, stores)
    totals: dict[str, Counts] = {}
    with contextlib.suppress(DomainError):
        totals = call.worker.offloads.read(call.worker.fresh).totals
    for plane, protocol, kinds in ((LUNS, "iscsi", OFFLOADED), (EXPORTS, "nfs", NFS_OFFLOADED)):
        for kind in kinds:
            if (total := totals.get(plane, {}).get(f"{kind}_bytes")) is not None:
                families.counter("offloaded_bytes", "Offloaded for hosts, including deleted LUNs and exports.",
                                 total, protocol=protocol, kind=kind)  # fmt: skip
    _database(families, call)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(families)
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _pool(families: _Families, pool: Pool, root: Filesystem | None, stores: list[Datastore]) -> None:
    name = pool.name
    for health in HEALTHS:
        families.gauge("pool_health", "1 for the health that the pool has.", health == pool.health, pool=name, health=health)
    families.gauge("pool_size_bytes", "Raw size, parity included.", pool.size, pool=name)
    families.gauge("pool_allocated_bytes", "Allocated of it.", pool.allocated, pool=name)
    families.gauge("pool_free_bytes", "Free of it.", pool.free, pool=name)
    if root is not None:
        families.gauge("pool_usable_bytes", "Of its size, without parity.", capacity.room(pool, root)[1], pool=name)
        families.gauge("pool_available_bytes", "For new data, without parity and reservations.", root.space.available, pool=name)
    text = "Used, or reserved if that leaves clearly less room: 0 to 1, as alerts compare it with their thresholds."
    families.gauge("pool_used_ratio", text, capacity.fullness(pool, root)[0] / 100, pool=name)
    families.gauge("pool_fragmentation_ratio", "Of its free space, 0 to 1.", pool.fragmentation / 100, pool=name)
    provisioned = sum(store.size for store in stores if store.pool == name and store.state == "active")
    families.gauge("pool_provisioned_bytes", "Sizes of its datastores together.", provisioned, pool=name)
    families.gauge("pool_cloned_bytes", "Blocks that are shared by cloning, counted once.", pool.bclone_used, pool=name)
    families.gauge("pool_clone_saved_bytes", "Space that sharing by cloning saves.", pool.bclone_saved, pool=name)
    families.gauge("pool_data_errors", "Files and blocks known to be damaged.", pool.error_count, pool=name)
    if pool.scan is not None:
        scan, function, ended = pool.scan, pool.scan.function, pool.scan.ended or 0
        families.gauge(
            "pool_scan_running", "Whether it scrubs or resilvers.", scan.state == "scanning", pool=name, function=function
        )
        families.gauge(
            "pool_scan_end_timestamp_seconds", "When the last one ended; 0 for never.", ended, pool=name, function=function
        )
        families.gauge("pool_scan_errors", "That the last one could not repair.", scan.errors, pool=name, function=function)
    for device in pool.devices():
        label = device.path or device.was or device.name
        families.gauge("device_online", "Whether the device is.", device.health in ("ONLINE", "AVAIL", "INUSE"),
                       pool=name, device=label)  # fmt: skip
        errors = {"read": device.read_errors, "write": device.write_errors, "checksum": device.checksum_errors}
        for kind, count in errors.items():
            families.counter("device_errors", "As zpool status counts them.", count, pool=name, device=label, kind=kind)


def _datastore(families: _Families, store: Datastore, snapshots: int) -> None:
    labels = {"datastore": store.id, "name": store.name}
    lun = "" if store.lun is None else str(store.lun)
    families.gauge("datastore_info", "Where it is; always 1.", 1, **labels, pool=store.pool, state=store.state, lun=lun)
    families.gauge("datastore_size_bytes", "Size that hosts see.", store.size, **labels)
    families.gauge("datastore_used_bytes", "Referenced by its volume, snapshots left out.", store.referenced, **labels)
    families.gauge("datastore_reserved_bytes", "Reserved for it.", store.reserved, **labels)
    families.gauge("datastore_snapshot_bytes", "Held by its snapshots alone.", store.snapshot_bytes, **labels)
    families.gauge("datastore_snapshots", "How many there are.", snapshots, **labels)


class _PoolSpace(msgspec.Struct):
    pool: str
    headroom_bytes: int


class _LunSpace(msgspec.Struct):
    uuid: str
    growth: str


class _Space(msgspec.Struct):
    """Response of the target to `space.get`."""

    pools: list[_PoolSpace]
    luns: list[_LunSpace]


def _target(families: _Families, status: Status, sessions: int, raw: Json, space: Json, names: dict[str, str]) -> None:
    families.gauge("target_uptime_seconds", "Start of the data plane: its counters count from then on.", status.uptime_seconds)
    families.gauge("luns_serving", "LUNs that are served.", status.luns_serving)
    families.gauge("luns_failed", "LUNs that are not ready for hosts.", status.luns_failed)
    families.gauge("iscsi_sessions", "Sessions of hosts.", sessions)
    counted = statistics.of_target(raw)
    for lun in counted.stores:
        labels = {"datastore": lun.subject, "name": names.get(lun.subject, "")}
        _counted(families, "lun", lun, labels)
        families.counter("lun_aborted", "Tasks that ended without a status.", lun.aborted, **labels)
        families.counter("lun_miscompares", "COMPARE AND WRITE that found other data.", lun.offload["miscompares"], **labels)
        for reason, count in lun.fallback_bytes.items():
            families.counter("lun_fallback_bytes", "Copied because it could not be cloned.", count, **labels, reason=reason)
        for operation in OPERATIONS:
            counted_operation = lun.operations.get(operation)
            if counted_operation is not None and counted_operation.operations:
                buckets = cumulative(counted.bounds, counted_operation.latency.counts, counted_operation.operations)
                families.histogram("lun_operation_duration_seconds", "In the target.", buckets,
                                   counted_operation.latency.total_microseconds / 1e6, **labels, operation=operation)  # fmt: skip
    for host in sorted(counted.hosts, key=lambda row: row.subject)[:MOST_HOSTS]:
        _counted(families, "host", host, {"initiator": host.subject})
    spaces = decoding.convert(space, _Space)
    for pool in spaces.pools:
        families.gauge("pool_headroom_bytes", "With less available thin LUNs take no more.", pool.headroom_bytes, pool=pool.pool)
    for space_of_lun in spaces.luns:
        labels = {"datastore": space_of_lun.uuid, "name": names.get(space_of_lun.uuid, "")}
        families.gauge(
            "lun_growth_refused", "Whether it accepts no more data for lack of space.", space_of_lun.growth == "refused", **labels
        )


def _counted(families: _Families, what: str, row: Row, labels: dict[str, str]) -> None:
    errors = 0
    for operation in OPERATIONS:
        counts = row.operations.get(operation)
        if counts is None:
            continue
        errors += counts.errors
        families.counter(
            f"{what}_operations", "Commands that ended with a status.", counts.operations, **labels, operation=operation
        )
        if operation in ("read", "write"):
            families.counter(f"{what}_bytes", "Moved by reads and writes.", counts.bytes, **labels, operation=operation)
    families.counter(f"{what}_errors", "Commands that ended with CHECK CONDITION.", errors, **labels)
    for kind in OFFLOADED:
        families.counter(f"{what}_offloaded_bytes", "Bytes that hosts did not move themselves.", row.offload[f"{kind}_bytes"],
                         **labels, kind=kind)  # fmt: skip


def _nfs(families: _Families, context: Context, stores: list[Datastore]) -> None:
    exported = [store for store in stores if store.export is not None and store.state == "active"]
    if not exported and not any(store.export is not None and store.state == "missing" for store in stores):
        return
    nfs, counted = None, None
    with contextlib.suppress(DomainError):
        nfs = context.nfs_users()
    with contextlib.suppress(DomainError), as_domain_errors():
        counted = statistics.of_nfs(context.files.counters())
    families.gauge("nfs_up", "Whether the NFS server answers.", nfs is not None)
    families.gauge("nfs_counters_up", "Whether nfs-ganesha reports its offload counters.", counted is not None)
    if nfs is not None:
        clients, users = nfs
        heard_of = sum(clients.now - client.seen_at < IDLE_SECONDS for client in clients.known)
        families.gauge("nfs_uptime_seconds", "Since the start of the NFS server.", clients.now - clients.started_at)
        families.gauge("nfs_clients", "Addresses with recent requests.", heard_of)
        for store in exported:
            labels = {"datastore": store.id, "name": store.name}
            share, export = store.share or "", str(store.export)
            families.gauge("export_info", "What hosts mount; always 1.", 1, **labels, share=share, export=export)
            families.gauge("export_served", "Whether the NFS server serves it.", store.id in users, **labels)
            families.gauge("export_clients", "Clients that may be using it.", len(users.get(store.id, ())), **labels)
    if counted is not None:
        by_path = {path: store for store in exported for path in (store.path, store.share) if path}
        for row in counted.stores:
            of = by_path.get(row.subject)
            labels = {"datastore": of.id if of else "", "name": of.name if of else row.subject}
            _counted_nfs(families, "export", row, labels, counted.bounds)
        for row in sorted(counted.hosts, key=lambda row: row.subject)[:MOST_HOSTS]:
            _counted_nfs(families, "nfs_host", row, {"host": row.subject}, [])


def _counted_nfs(families: _Families, what: str, row: Row, labels: dict[str, str], bounds: list[int]) -> None:
    """A row of VAAI-NAS's `statistics.get` (docs/vaai_nas.md)."""
    for operation in ("read", "write"):
        moved = row.operations[operation]
        labelled = {**labels, "operation": operation}
        families.counter(f"{what}_operations", "Reads and writes that ended.", moved.operations, **labelled)
        families.counter(f"{what}_bytes", "Moved by reads and writes.", moved.bytes, **labelled)
        if bounds and moved.operations:
            buckets = cumulative(bounds, moved.latency.counts, moved.operations)
            families.histogram(f"{what}_operation_duration_seconds", "In the NFS server.", buckets,
                               moved.latency.total_microseconds / 1e6, **labelled)  # fmt: skip
    for operation in NFS_OPERATIONS:
        counts = row.operations.get(operation)
        if counts is None:
            continue
        text = "Requests of VAAI-NAS that ended."
        families.counter(f"{what}_offloads", text, counts.operations, **labels, operation=operation)
        families.counter(f"{what}_offload_errors", "Of them, those that failed.", counts.errors, **labels, operation=operation)
        families.counter(f"{what}_offloads_refused", "Of these, refused.", counts.refused, **labels, operation=operation)
        if bounds and counts.operations:
            buckets = cumulative(bounds, counts.latency.counts, counts.operations)
            families.histogram(f"{what}_offload_duration_seconds", "In the NFS server.", buckets,
                               counts.latency.total_microseconds / 1e6, **labels, operation=operation)  # fmt: skip
    for kind in NFS_OFFLOADED:
        families.counter(f"{what}_offloaded_bytes", "Bytes that hosts did not move themselves.", row.offload[f"{kind}_bytes"],
                         **labels, kind=kind)  # fmt: skip
    for reason, count in row.fallback_bytes.items():
        families.counter(f"{what}_fallback_bytes", "Copied because it could not be cloned.", count, **labels, reason=reason)


def cumulative(bounds: list[int], counts: list[int], operations: int) -> list[tuple[str, float]]:
    """The target's buckets (zvol_target/docs/control.md, statistics.get) as Prometheus has them: fewer, and cumulative."""
    buckets = [
        (str(bound / 1e6), float(sum(counts[: bounds.index(bound) + 1]))) for bound in BOUNDS if bound in bounds
    ]  # fmt: skip
    return [*buckets, ("+Inf", float(max(operations, sum(counts))))]


def _database(families: _Families, call: Call) -> None:
    with call.context.store.reading() as session:
        jobs = dict(session.execute(select(Job.state, func.count()).group_by(Job.state)).tuples().all())
        ended = session.execute(
            select(Job.kind, Job.state, func.max(Job.ended_at)).where(Job.ended_at.is_not(None)).group_by(Job.kind, Job.state)
        ).all()
        alerts = dict(
            session.execute(
                select(Alert.severity, func.count())
                .where(Alert.cleared_at.is_(None), Alert.acknowledged_at.is_(None))
                .group_by(Alert.severity)
            )
            .tuples()
            .all()
        )
        sessions = session.scalar(select(func.count()).select_from(LoginSession)) or 0
    for state in JOB_STATES:
        families.gauge("jobs", "Jobs that are stored, by state.", jobs.get(state, 0), state=state)
    for kind, state, at in ended:
        families.gauge("job_end_timestamp_seconds", "When the last job of a kind ended so.", at, kind=kind, state=state)
    for severity in ("info", "warning", "critical"):
        families.gauge("alerts", "Open alerts that nobody has acknowledged.", alerts.get(severity, 0), severity=severity)
    families.gauge("api_sessions", "Browser sessions that are stored.", sessions)
