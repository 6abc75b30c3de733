# SPDX-License-Identifier: Apache-2.0
"""What history costs the worker: processor time, memory and disk, with many LUNs and hosts that all have load.

Real are the collector, its files, the database and the control socket's protocol. Simulated are storage and the target's figures.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.service import fill_database, fill_storage
from simulators.ganesha import GaneshaSimulator
from simulators.storage import assembled
from simulators.vaai_nas import VaaiNasSimulator
from simulators.zfs import Simulator
from support.programs import CACHE

from appliance.config import Configuration
from appliance.database.models import HostInitiator
from appliance.database.store import Store
from appliance.dataplane.target_socket import TargetSocket
from appliance.domain.history import STEP_S
from appliance.worker.history import History

MIB = 1 << 20
OPERATIONS = (
    "read", "write", "verify", "synchronize_cache", "compare_and_write", "write_same", "unmap", "extended_copy", "token",
    "reservation", "other",
)  # fmt: skip
BOUNDS = [1 << power for power in range(27)]
REASONS = ("unsupported", "unaligned", "other_pool", "other_block_size", "other_key", "dirty", "overlap", "thick", "failed")
FLOOR_PERCENT, FLOOR_MIB, FLOOR_GIB = 2, 200, 3


def row(choice: random.Random, tick: int, **name: Any) -> dict[str, Any]:
    """Counters as the target reports them, increased after each tick."""
    counters = {
        operation: {
            "operations": 1000 * tick, "bytes": 4096000 * tick, "errors": 0, "medium_errors": 0,
            "latency": {"total_microseconds": 300000 * tick, "counts": [tick * choice.randrange(1, 99) for _ in range(22)]},
        }
        for operation in OPERATIONS
    }  # fmt: skip
    offload = {f"{kind}_bytes": MIB * tick for kind in ("cloned", "copied", "zeroed", "unmapped")}
    return {
        **name,
        **counters,
        "offload": {**offload, "miscompares": 0, "fallback_bytes": dict.fromkeys(REASONS, 0)},
        "aborted": 0,
    }


def serve(path: Path, uuids: list[str], iqns: list[str], paths: int) -> None:
    """The target's control socket: each answer is one tick later."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        tick = 0
        while True:
            tick, same = tick + 1, random.Random(1)
            result = {
                "latency_bounds_microseconds": BOUNDS,
                "luns": [row(same, tick, uuid=uuid, number=number) for number, uuid in enumerate(uuids)],
                "hosts": [row(same, tick, initiator=iqn) for iqn in iqns],
                "sessions": [row(same, tick, initiator=iqn, initiator_port=f"{iqn},i,0x1") for iqn in iqns * paths],
            }
            answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n"
            connection, _ = listening.accept()
            with connection:
                connection.makefile("rb").readline()
                connection.sendall(answer)


def resident() -> float:
    """MiB of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MIB


def main() -> None:
    """Prints the cost and its floor."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--luns", type=int, default=1000)
    options.add_argument("--ticks", type=int, default=30, help="of 10 s each; they follow each other at once")
    options.add_argument("--paths", type=int, default=2, help="sessions of each host")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        directory = Path(folder)
        uuids = fill_storage(directory / "storage", given.luns)
        configuration = Configuration(state_directory=directory, runtime_directory=directory)
        fill_database(configuration.database, uuids)
        store = Store(configuration.database)
        with store.reading() as session:
            iqns = sorted(initiator.iqn for initiator in session.query(HostInitiator))
        control = directory / "control"
        target = multiprocessing.Process(target=serve, args=(control, uuids, iqns, given.paths), daemon=True)
        target.start()
        while not control.exists():
            time.sleep(0.01)
        nfs = GaneshaSimulator()
        engine = Simulator(path=directory / "storage")
        context = assembled(configuration, engine, TargetSocket(control), nfs, VaaiNasSimulator(served=nfs.served), store)
        context.datastores()
        before = peak = resident()
        history, begin = History(context), int(time.time()) // 60 * 60 - 86400
        history.collect(begin)
        history.collect(begin + STEP_S)
        history.write()  # makes the files
        collecting, writing, longest = 0.0, 0.0, 0.0
        for tick in range(2, given.ticks + 2):
            now = begin + tick * STEP_S
            context.scan(3600)
            started = time.process_time()
            history.collect(now)
            collected = time.process_time()
            if now % 60 == 0 or tick == given.ticks + 1:
                history.write()
            ended = time.process_time()
            peak = max(peak, resident())
            collecting, writing, longest = (
                collecting + collected - started,
                writing + ended - collected,
                max(longest, ended - started),
            )
        size = sum(file.stat().st_blocks * 512 for file in (directory / "history").iterdir())
        files = sum(1 for _ in (directory / "history").iterdir())
        percent = 100 * (collecting + writing) / (given.ticks * STEP_S)
        store.close()
        target.terminate()
    print(f"{given.luns} LUNs, {len(iqns)} hosts, {given.paths * len(iqns)} sessions, all under load; {given.ticks} samples")
    each, most = [duration / given.ticks * 1000 for duration in (collecting, writing)], longest * 1000
    print(f"processor: {percent:.2f} % of a core (floor {FLOOR_PERCENT})")
    print(f"           collecting {each[0]:.0f} ms, writing {each[1]:.0f} ms a sample; the longest sample {most:.0f} ms")
    print(f"memory:    {peak - before:.0f} MiB more than without history (floor {FLOOR_MIB})")
    print(f"disk:      {size / (1 << 30):.2f} GiB in {files} files (floor {FLOOR_GIB})")


if __name__ == "__main__":
    main()
