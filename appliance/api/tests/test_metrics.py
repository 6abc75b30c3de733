"""/metrics by Prometheus' own parser, and the health of the process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric

from appliance.api.metrics import BOUNDS, cumulative
from appliance.testing import GIB, Appliance, running

ESX = "iqn.1998-01.com.vmware:esx1"


def scrape(appliance: Appliance, role: str = "viewer") -> dict[str, Metric]:
    """The families, by name."""
    answer = appliance.request("GET", "/metrics", role=role)
    assert answer.status_code == 200 and answer.content_type.startswith("text/plain; version=")
    return {family.name: family for family in parser.text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], family: str, **labels: str) -> float:
    """Of the one sample with these labels."""
    found = [
        one for one in families[family].samples if labels.items() <= one.labels.items() and not one.name.endswith("_created")
    ]
    assert len(found) == 1, (family, labels, found)
    return found[0].value


def test_what_is_told_is_so(appliance: Appliance) -> None:
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
    assert value(after, "zvaai_pool_promised_bytes", pool="tank") == 4 * GIB
    assert value(after, "zvaai_jobs", state="succeeded") == value(before, "zvaai_jobs", state="succeeded") + 2
    assert value(after, "zvaai_worker_up") == value(after, "zvaai_target_up") == value(after, "zvaai_storage_up") == 1


def test_names_are_as_prometheus_wants_them(appliance: Appliance) -> None:
    appliance.datastore("first")
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


def test_who_may(appliance: Appliance) -> None:
    assert appliance.request("GET", "/metrics", role="").status_code == 401


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Appliance]:
    """One whose worker does not answer."""
    with running(tmp_path / "alone") as one:
        socket = one.configuration.worker_socket
        hidden = socket.with_suffix(".hidden")
        socket.rename(hidden)
        yield one
        hidden.rename(socket)


def test_without_the_worker(alone: Appliance) -> None:
    """What the database knows is told; ready it is not, though it lives."""
    families = scrape(alone)
    assert value(families, "zvaai_worker_up") == value(families, "zvaai_target_up") == 0
    assert "zvaai_pool_health" not in families and value(families, "zvaai_jobs", state="failed") == 0
    assert alone.request("GET", "/health/live", role="").status_code == 200
    answer = alone.request("GET", "/health/ready", role="")
    assert answer.status_code == 503 and answer.json
    assert answer.json["detail"] == "the worker does not answer", "and no path or address"


def test_ready_and_not(appliance: Appliance) -> None:
    assert appliance.request("GET", "/health/ready", role="").json == {"status": "ok"}
    database = appliance.configuration.database
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
