# SPDX-License-Identifier: Apache-2.0
"""/metrics by Prometheus' own parser, and the health of the process."""

import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from simulators.appliance import GIB, Appliance, running
from simulators.ganesha import GaneshaSimulator

from appliance.api.metrics import BOUNDS, NFS_OPERATIONS, cumulative
from appliance.dataplane.ganesha import GaneshaUnreachableError, NfsClient
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.gateway.application import create
from appliance.gateway.client import WorkerClient

ESX = "iqn.1998-01.com.vmware:esx1"
NFS_HOST = "192.0.2.11"


def scrape(appliance: Appliance, role: str = "viewer") -> dict[str, Metric]:
    """The families, by name."""
    answer = appliance.request("GET", "/metrics", role=role)
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain; version=")
    return {family.name: family for family in parser.text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], family: str, **labels: str) -> float:
    """Value of the only sample with these labels."""
    samples = [
        sample
        for sample in families[family].samples
        if labels.items() <= sample.labels.items() and not sample.name.endswith("_created")
    ]
    assert len(samples) == 1, (family, labels, samples)
    return samples[0].value


def test_metrics_match_the_state(appliance: Appliance) -> None:
    store = appliance.datastore("first", 3 * GIB, host_groups=[appliance.group("cluster", ESX)])
    before = scrape(appliance)
    assert value(before, "zvaai_datastore_size_bytes", datastore=store, name="first") == 3 * GIB
    assert value(before, "zvaai_datastore_snapshots", datastore=store) == 0
    assert value(before, "zvaai_pool_health", pool="tank", health="ONLINE") == 1
    assert value(before, "zvaai_pool_health", pool="tank", health="DEGRADED") == 0
    appliance.job("POST", "/snapshots", {"name": "s", "datastores": [store]})
    appliance.simulator.write(appliance.get(f"/datastores/{store}")["dataset"], 100 << 20)
    appliance.datastore("second", GIB)
    after = scrape(appliance)
    assert value(after, "zvaai_datastore_snapshots", datastore=store) == 1
    assert value(after, "zvaai_datastore_used_bytes", datastore=store) - value(
        before, "zvaai_datastore_used_bytes", datastore=store
    ) >= (100 << 20)
    assert value(after, "zvaai_pool_provisioned_bytes", pool="tank") == 4 * GIB
    assert value(after, "zvaai_jobs", state="succeeded") == value(before, "zvaai_jobs", state="succeeded") + 2
    assert value(after, "zvaai_target_up") == value(after, "zvaai_storage_up") == 1


def test_reserved_space_of_a_pool_is_used(appliance: Appliance) -> None:
    available = int(appliance.get("/pools/tank")["available"])
    appliance.datastore("first", available * 85 // 100 // GIB * GIB, thick=True)
    appliance.service.context.scan()  # the first LUN of a pool gets a dataset for its reservations after its job
    metrics, pool = scrape(appliance), appliance.get("/pools/tank")
    assert value(metrics, "zvaai_pool_available_bytes", pool="tank") == int(pool["available"]) < 0.3 * available
    assert value(metrics, "zvaai_pool_usable_bytes", pool="tank") == int(pool["usable"])
    assert value(metrics, "zvaai_pool_critical_ratio", pool="tank") == 0.9
    appliance.job("PATCH", "/pools/tank", {"warning_percent": 60, "critical_percent": 70})
    assert value(scrape(appliance), "zvaai_pool_critical_ratio", pool="tank") == 0.7
    assert value(metrics, "zvaai_pool_used_ratio", pool="tank") == pool["used_percent"] / 100 > 0.7
    assert value(metrics, "zvaai_pool_free_bytes", pool="tank") > 0.9 * available


ROW: dict[str, Any] = {
    name: {"operations": 0, "errors": 0, "refused": 0, "latency": {"total_microseconds": 0, "counts": []}}
    for name in (*NFS_OPERATIONS, "read", "write")
} | {
    "clone": {"operations": 3, "errors": 1, "refused": 1, "latency": {"total_microseconds": 700, "counts": [0] * 7 + [3]}},
    "read": {"operations": 4, "bytes": 8192, "latency": {"total_microseconds": 100, "counts": [0] * 5 + [4]}},
    "offload": {
        "cloned_bytes": 1 << 30,
        "copied_bytes": 40,
        "hole_bytes": 5,
        "reserved_bytes": 6,
        "fallback_bytes": {"dirty": 40},
    },
}


class _Counters(socketserver.StreamRequestHandler):
    """VAAI-NAS's control socket, as in docs/vaai_nas.md."""

    def handle(self) -> None:
        assert json.loads(self.rfile.readline())["method"] == "statistics.get"
        exports = [{"export": "/files", **ROW}, {"export": "/others", **ROW}]
        statistics = {"latency_bounds_microseconds": [1 << exponent for exponent in range(31)], "exports": exports}
        self.wfile.write(json.dumps({"result": {**statistics, "hosts": [{"host": NFS_HOST, **ROW}]}}).encode() + b"\n")


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance whose NFS server counts."""
    path = tmp_path / "vaai-nas.socket"
    with socketserver.ThreadingUnixStreamServer(str(path), _Counters) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        with running(tmp_path / "appliance") as appliance:
            appliance.service.context.files = VaaiNas(path)
            yield appliance
        server.shutdown()
        thread.join()


def test_exports_clients_and_offloads(counting: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "zvaai_nfs_up" not in scrape(counting), "who has no NFS datastore needs no NFS server"
    files = counting.nfs_datastore("files", clients=["192.0.2.0/24"])
    other = counting.nfs_datastore("other", clients=["198.51.100.1"])
    ganesha = counting.nfs
    assert isinstance(ganesha, GaneshaSimulator)
    ganesha.known.append(NfsClient(NFS_HOST, ganesha.now, 0))
    ganesha.used = {1: ganesha.now, 2: ganesha.now}
    metrics = scrape(counting)
    assert value(metrics, "zvaai_nfs_up") == value(metrics, "zvaai_nfs_counters_up") == value(metrics, "zvaai_nfs_clients") == 1
    assert value(metrics, "zvaai_nfs_uptime_seconds") == ganesha.now
    assert value(metrics, "zvaai_export_info", datastore=files, name="files", share="/files", export="1") == 1
    assert value(metrics, "zvaai_export_served", datastore=files) == 1
    assert [value(metrics, "zvaai_export_clients", datastore=store) for store in (files, other)] == [1, 0]
    assert value(metrics, "zvaai_export_offloads", datastore=files, operation="clone") == 3
    assert value(metrics, "zvaai_export_offload_errors", datastore=files, operation="clone") == 1
    assert value(metrics, "zvaai_export_offloaded_bytes", datastore=files, kind="cloned") == 1 << 30
    assert value(metrics, "zvaai_export_offloaded_bytes", datastore="", name="/others", kind="copied") == 40
    assert value(metrics, "zvaai_export_operations", datastore=files, operation="read") == 4
    assert value(metrics, "zvaai_nfs_host_bytes", host=NFS_HOST, operation="read") == 8192
    assert "zvaai_export_operation_duration_seconds" in metrics
    assert value(metrics, "zvaai_export_fallback_bytes", datastore=files, reason="dirty") == 40
    assert value(metrics, "zvaai_nfs_host_offloaded_bytes", host=NFS_HOST, kind="cloned") == 1 << 30
    buckets = {sample.labels["le"]: sample.value for sample in metrics["zvaai_export_offload_duration_seconds"].samples
               if sample.name.endswith("_bucket") and sample.labels["datastore"] == files}  # fmt: skip
    assert (buckets["6.4e-05"], buckets["0.000256"], buckets["+Inf"]) == (0, 3, 3)
    ganesha.remove(1)
    assert value(scrape(counting), "zvaai_export_served", datastore=files) == 0

    def gone() -> Any:
        raise GaneshaUnreachableError("it is not on the bus")

    monkeypatch.setattr(ganesha, "served", gone)
    metrics = scrape(counting)
    assert value(metrics, "zvaai_nfs_up") == 0 and "zvaai_export_served" not in metrics


def test_names_follow_the_rules_of_prometheus(appliance: Appliance) -> None:
    appliance.datastore("first")
    appliance.nfs_datastore("second")
    families = scrape(appliance)
    answer = appliance.request("GET", "/metrics").text
    samples = [line.rsplit(" ", 1)[0] for line in answer.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "each once"
    for family in families.values():
        assert family.name.startswith("zvaai_") and family.documentation.endswith("."), family.name
        assert family.type in ("gauge", "counter", "histogram"), family
        assert not any(unit in family.name for unit in ("_ms", "_kb", "milliseconds", "percent"))
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample


def test_buckets_are_cumulative() -> None:
    bounds = [1 << power for power in range(27)]
    buckets = cumulative(bounds, [0] * 6 + [2, 1], 3)
    assert buckets[0] == ("6.4e-05", 2.0) and buckets[1] == ("0.000256", 3.0) and buckets[-1] == ("+Inf", 3.0)
    assert len(buckets) == len(BOUNDS) + 1
    beyond = cumulative(bounds, [0] * 27 + [5], 5)
    assert beyond[-2][1] == 0 and beyond[-1] == ("+Inf", 5.0)


def test_permissions(appliance: Appliance) -> None:
    assert appliance.request("GET", "/metrics", role="").status_code == 401


def test_without_the_worker(tmp_path: Path) -> None:
    """The HTTP process lives, and is not ready."""
    client = create(WorkerClient(tmp_path / "worker.sock")).test_client()
    assert client.get("/api/v1/health/live").status_code == 200
    for path in ("/health/ready", "/metrics", "/status"):
        answer = client.get(f"/api/v1{path}")
        assert answer.status_code == 503 and answer.json
        assert answer.json["detail"] == "the worker does not answer", "and no path or address"
        assert answer.headers["Retry-After"] == "2"


def test_ready_and_not(appliance: Appliance) -> None:
    assert appliance.request("GET", "/health/ready", role="").json == {"status": "ok"}
    database = appliance.configuration.database
    appliance.service.stop()  # its threads open the database too
    appliance.store.engine.dispose()
    for file in database.parent.glob(f"{database.name}*"):
        file.rename(file.with_name(f"hidden-{file.name}"))
    database.mkdir()
    answer = appliance.request("GET", "/health/ready", role="")
    assert answer.status_code == 503 and answer.json and answer.json["detail"] == "the database does not answer"
    assert appliance.request("GET", "/health/live", role="").status_code == 200
    database.rmdir()
    for file in database.parent.glob("hidden-*"):
        file.rename(file.with_name(file.name.removeprefix("hidden-")))
    assert appliance.request("GET", "/health/ready", role="").status_code == 200
