# SPDX-License-Identifier: Apache-2.0
"""The appliance's service with many datastores: time of lists and of a reconcile, resources of its processes, and their growth.

Its three processes are real, with gunicorn and TLS, and so is the target, which serves all LUNs from sparse files. The helper
has the simulator. The bound next to each list is `/setup`, which the same server answers by one query.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import ssl
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulators.zfs import Simulator, state
from simulators.zfs.state import DatasetState, SnapshotState
from support.appliance import Appliance, Process
from support.programs import wait_for

from appliance.database.models import AuditEntry, Host, HostGroup, HostInitiator, Job, Presentation, PresentationGroup, User
from appliance.database.store import Store
from appliance.domain import access
from appliance.domain.access import Caller, Role
from appliance.zfs.model import Redundancy, VdevSpec

GIB, TIB, MIB = 1 << 30, 1 << 40, 1 << 20
SNAPSHOTS = 10
"""Size of each datastore."""
GROUPS, HOSTS_OF_EACH = 16, 8
FLOOR_MS, FLOOR_MIB, FLOOR_RECONCILE_S = 100, 200, 10
BOUND = "/setup"


def lists(store: str) -> dict[str, str]:
    return {
        "an empty operation (the bound)": BOUND,
        "datastores, a page of 50": "/datastores?limit=50",
        "datastores, the last page": "/datastores?limit=50&cursor=ZHMwOTk5OQ==",
        "datastores, a page of 500": "/datastores?limit=500",
        "one datastore": f"/datastores/{store}",
        "snapshots of a datastore": f"/datastores/{store}/snapshots?limit=100",
        "volumes, a page of 100": "/volumes?limit=100",
        "hosts, a page of 100": "/hosts?limit=100",
        "host groups": "/host-groups",
        "jobs, a page of 100": "/jobs?limit=100",
        "jobs that failed": "/jobs?state=failed&limit=100",
        "alerts": "/alerts",
        "audit, a page of 100": "/audit?limit=100",
        "pools": "/pools",
        "status": "/status",
        "readiness": "/readiness",
    }


# --- state before the start


def fill_storage(path: Path, count: int) -> list[str]:
    """A pool with `count` datastores and ten times as many snapshots; returns the UUIDs."""
    simulator = Simulator(disks=4, disk_size=256 * TIB)
    simulator.create_pool(
        "tank", [VdevSpec(devices=tuple(disk.path for disk in simulator.disks()[:2]), redundancy=Redundancy.MIRROR)]
    )
    simulator.create_filesystem("tank/zvaai", properties={"canmount": "off", "mountpoint": "none"})
    machine = simulator.machine
    pool, uuids, now = machine.pools[0], [], int(time.time())
    for number in range(count):
        identity, pool.txg = str(uuid.UUID(int=(number + 1) << 64 | 0x4000 << 64 | 8 << 60)), pool.txg + 1
        uuids.append(identity)
        volume = DatasetState(simulator.new_guid(), pool.txg, now, volsize=TIB, volblocksize=65536)
        volume.local = {
            "compression": "lz4", "sync": "standard", "zvaai:uuid": identity, "zvaai:name": f"ds{number:05}",
            "zvaai:lun": str(number), "zvaai:guid": str(volume.guid), "zvaai:thick": "off",
        }  # fmt: skip
        for _ in range(SNAPSHOTS):
            volume.blocks = (*volume.blocks, (pool.txg, MIB))
            volume.snapshots.append(
                SnapshotState(f"auto-{len(volume.snapshots)}", simulator.new_guid(), pool.txg, now, volume.blocks, TIB)
            )
            pool.txg += 1
        pool.datasets[f"zvaai/ds{number:05}-{identity[:8]}"] = volume
    state.save(machine, path)
    return uuids


def fill_database(path: Path, uuids: Sequence[str], hosts_of_each: int = HOSTS_OF_EACH) -> str:
    """Hosts that see the datastores, past jobs and audit entries; returns a token."""
    store, now, choice = Store(path), time.time(), random.Random(1)
    with store.session() as session:
        user = access.add_user(session, "bench", Role.ADMIN, "no password")
        caller = Caller(user.id, user.name, Role.ADMIN, False, "")
        _, token = access.add_token(session, caller, "bench", Role.ADMIN, 86400, confirmed=True)
        groups = [
            HostGroup(id=str(uuid.uuid4()), name=f"cluster {number:02}", disabled=[], created_at=now) for number in range(GROUPS)
        ]
        session.add_all(groups)
        session.flush()
        for number in range(GROUPS * hosts_of_each):
            host = Host(
                id=str(uuid.uuid4()), name=f"esx{number:03}", group_id=groups[number % GROUPS].id, addresses=[], created_at=now
            )
            session.add(host)
            session.flush()
            session.add(HostInitiator(iqn=f"iqn.1998-01.com.vmware:esx{number:03}", host_id=host.id))
        session.add_all(Presentation(datastore=uuid, lun=number) for number, uuid in enumerate(uuids))
        session.flush()
        session.add_all(
            PresentationGroup(datastore=uuid, group_id=groups[number % GROUPS].id) for number, uuid in enumerate(uuids)
        )
        session.add_all(
            Job(
                id=str(uuid.uuid4()), sequence=number + 1, kind="snapshot.create", subject=choice.choice(uuids),
                parameters={"names": [f"tank/zvaai/x@{number}"], "about": [choice.choice(uuids)]},
                state="failed" if number % 100 == 0 else "succeeded", step="taking the snapshot", percent=100, cancel=False,
                actor="schedule hourly", created_at=now, started_at=now, ended_at=now, result={"snapshots": []},
            )
            for number in range(20 * len(uuids))
        )  # fmt: skip
        session.add_all(
            AuditEntry(
                at=now, actor="bench", address="192.0.2.1", action="snapshot.create", subject=choice.choice(uuids), status=202,
                after={"name": "before the update"},
            )
            for _ in range(50 * len(uuids))
        )  # fmt: skip
        assert session.query(User).count() == 1
    store.close()
    return str(token)


# --- requests


class Client:
    """A persistent connection, as a browser has."""

    def __init__(self, appliance: Appliance, token: str) -> None:
        context = ssl.create_default_context(cafile=str(appliance.frontend.certificate))
        self._connection = http.client.HTTPSConnection("127.0.0.1", appliance.port, timeout=120, context=context)
        self._token = token

    def ask(self, path: str, method: str = "GET") -> Any:
        self._connection.request(method, f"/api/v1{path}", headers={"Authorization": f"Bearer {self._token}"})
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, (path, answer.status, content[:500])
        return json.loads(content)

    def seconds(self, path: str, method: str = "GET") -> float:
        """Seconds until the last byte of the response."""
        began = time.perf_counter()
        self.ask(path, method)
        return time.perf_counter() - began


def percentile(values: Sequence[float], percent: int) -> float:
    """By the nearest rank."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def at_once(appliance: Appliance, token: str, clients: int, path: str, each: int) -> list[float]:
    """Seconds of each request by several concurrent clients."""
    times: list[float] = []

    def work() -> None:
        caller = Client(appliance, token)
        times.extend([caller.seconds(path) for _ in range(each)])

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def processor_seconds(process_ids: Iterable[int]) -> float:
    """Processor time of processes, including threads that ended: proc_pid_stat(5), utime and stime."""
    ticks_of_processes = (
        Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[11:13] for process_id in process_ids
    )
    return sum(int(ticks) for two in ticks_of_processes for ticks in two) / os.sysconf("SC_CLK_TCK")


def processor_times(appliance: Appliance, caller: Client, path: str, blocks: int = 5, each: int = 10) -> list[float]:
    """Processor seconds of a request over all processes, averaged over a block of requests, because ticks are coarse."""
    ids, times = list(processes_of(appliance).values()), []
    for _ in range(blocks):
        before = processor_seconds(ids)
        for _ in range(each):
            caller.ask(path)
        times.append((processor_seconds(ids) - before) / each)
    return times


def memory(process_id: int) -> tuple[float, float]:
    """MiB of a process now and at most: Pss counts shared memory proportionally, VmHWM completely."""
    pss = next(line for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    most = next(line for line in Path(f"/proc/{process_id}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(pss.split()[1]) / 1024, int(most.split()[1]) / 1024


@contextlib.contextmanager
def running(directory: Path, count: int, hosts_of_each: int = HOSTS_OF_EACH) -> Iterator[tuple[Appliance, str, list[str], float]]:
    """The processes, once all LUNs are served; a token, the datastores, and the seconds from the worker's start."""
    appliance = Appliance(directory, reconcile_seconds=30, inventory_seconds=10, simulating_helper=True)
    uuids = fill_storage(directory / "simulator.json", count)
    (directory / "state").mkdir()
    token = fill_database(directory / "state" / "appliance.sqlite", uuids, hosts_of_each)
    processes: list[Process] = [process for process in (appliance.helper, appliance.worker, appliance.api) if process]
    try:
        appliance.target.start()
        began = time.monotonic()
        for process in processes:
            process.start()
        appliance.frontend.start()
        wait_for(appliance.responds, "the API responds", timeout=60)
        caller = Client(appliance, token)
        wait_for(lambda: bool(caller.ask("/status")["reconciled_at"]), "it has reconciled", timeout=300)
        first = time.monotonic() - began
        assert len(appliance.luns()) == count, appliance.logs()
        yield appliance, token, uuids, first
    finally:
        appliance.frontend.stop()
        for process in reversed(processes):
            process.stop()
        appliance.target.stop()


def measure(directory: Path, count: int, repetitions: int) -> dict[str, Any]:
    """All figures for `count` datastores."""
    with running(directory, count) as (appliance, token, uuids, first):
        caller = Client(appliance, token)
        results: dict[str, Any] = {"first": first, "lists": {}}
        paths = lists(uuids[len(uuids) // 2])
        for path in paths.values():
            caller.ask(path)
        times: dict[str, list[float]] = {name: [] for name in paths}
        for _ in range(repetitions):  # alternating, so that other load of the machine affects all
            for name, path in paths.items():
                times[name].append(caller.seconds(path))
        results["lists"] = times
        results["processor"] = {name: processor_times(appliance, caller, path) for name, path in paths.items()}
        results["at once"] = at_once(appliance, token, 4, "/datastores?limit=50", max(5, repetitions // 4))
        results["reconcile"] = [caller.seconds("/reconcile", "POST") for _ in range(max(5, repetitions // 10))]
        results["memory"] = {name: memory(pid) for name, pid in processes_of(appliance).items()}
        return results


def processes_of(appliance: Appliance) -> dict[str, int]:
    assert appliance.helper is not None
    (server,) = appliance.api.children()
    return {
        "helper (with the simulator)": appliance.helper.process_id,
        "worker": appliance.worker.process_id,
        "API, serving": server,
        "API, watching": appliance.api.process_id,
    }


# --- report


def reported(values: Sequence[float], scale: float = 1000) -> str:
    """median / p95 [minimum-maximum]"""
    median, high = statistics.median(values) * scale, percentile(values, 95) * scale
    return f"{median:.1f} / {high:.1f} [{min(values) * scale:.1f}-{max(values) * scale:.1f}]"


def verdict(met: bool) -> str:
    """As in the other tables."""
    return "met" if met else "NOT met"


def report(results: dict[int, dict[str, Any]]) -> None:
    """Prints the tables; the limits apply to the largest count."""
    counts = sorted(results)
    largest = results[counts[-1]]

    def row(name: str, cell: Callable[[Any], str]) -> None:
        print(f"{name:34}" + "".join(f"{cell(results[count]):>36}" for count in counts))

    def row_of(part: str, name: str, cell: Callable[[Any], str]) -> None:
        row(name, lambda results: cell(results[part][name]))

    print("\nAnswers over TLS, ms: median / p95 [min-max], with datastores (and ten times as many snapshots):")
    print(f"{'':34}" + "".join(f"{count:>36}" for count in counts))
    for name in largest["lists"]:
        row_of("lists", name, reported)
    row("datastores, 50, 4 clients at once", lambda results: reported(results["at once"]))
    print("\nProcessor time of a request, all processes together, ms: median / p95 [min-max] of blocks of 10")
    for name in largest["lists"]:
        row_of("processor", name, reported)
    print("\nReconciling, s")
    row("nothing to do", lambda results: reported(results["reconcile"], 1))
    row("from the start until all is served", lambda results: f"{results['first']:.1f}")
    print("\nMemory, MiB: now (Pss), and at most (resident)")
    for name in largest["memory"]:
        row_of("memory", name, lambda two: "{:.0f}, {:.0f}".format(*two))
    slowest = max(largest["lists"], key=lambda name: percentile(largest["lists"][name], 95))
    high = percentile(largest["lists"][slowest], 95) * 1000
    print(f"\nfloor: lists within {FLOOR_MS} ms, p95: slowest {high:.0f} ({slowest}), {verdict(high <= FLOOR_MS)}")
    most = max(peak for _, peak in largest["memory"].values())
    print(f"floor: each process below {FLOOR_MIB} MiB: {most:.0f}, {verdict(most <= FLOOR_MIB)}")
    long = max(largest["reconcile"])
    print(f"floor: a reconcile within {FLOOR_RECONCILE_S} s: {long:.2f}, {verdict(long <= FLOOR_RECONCILE_S)}")


def main(words: Sequence[str]) -> int:
    """Measures and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datastores", type=int, nargs="+", default=[100, 300, 1000], help="how many (default 100 300 1000)")
    parser.add_argument("--repetitions", type=int, default=100, help="requests for each list (default 100)")
    parser.add_argument("--json", type=Path, help="also write every single value to this file")
    options = parser.parse_args(words)
    results = {}
    for count in options.datastores:
        with tempfile.TemporaryDirectory() as name:
            results[count] = measure(Path(name), count, options.repetitions)
    report(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
