# SPDX-License-Identifier: Apache-2.0
"""One change of a pool at a time, even if an earlier change has exceeded its time limit and is still in the kernel."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from simulators.zfs import Simulator

from appliance.helper.client import connect
from appliance.helper.pool_locks import PoolLocks, pools_of
from appliance.helper.tests.served import served
from appliance.zfs import leftover
from appliance.zfs.errors import EngineUnavailable, PoolBusy, Timeout
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.library import MAX_STUCK, Library
from appliance.zfs.model import Redundancy, VdevSpec


def test_pools_that_arguments_name() -> None:
    assert pools_of({"name": "tank/a@one", "new_name": None, "force": True}) == {"tank"}
    assert pools_of({"snapshots": ["tank/a@one", "rust/b@one"]}) == {"tank", "rust"}
    assert pools_of({"pool": "1234", "new_name": "tank"}) == {"1234", "tank"}
    assert pools_of({"number": 1}) == frozenset()


def test_a_pool_is_busy_until_abandoned_calls_have_ended() -> None:
    locks, over = PoolLocks(seconds=0.05), threading.Event()
    with locks.held({"tank"}, "rollback"):
        with pytest.raises(PoolBusy, match="rollback"), locks.held({"tank"}, "destroy"):
            pass
        with locks.held({"rust"}, "destroy"):
            pass
        leftover.add(over.is_set)
    with pytest.raises(PoolBusy, match="rollback"), locks.held({"rust", "tank"}, "destroy"):
        pass
    with locks.held({"rust"}, "destroy"):
        pass
    over.set()
    with locks.held({"rust", "tank"}, "destroy"):
        pass


def test_a_change_waits_for_the_one_before() -> None:
    locks, inside, may_end, order = PoolLocks(), threading.Event(), threading.Event(), []

    def first() -> None:
        with locks.held({"tank"}, "first"):
            inside.set()
            may_end.wait(60)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.1, may_end.set).start()
    with locks.held({"tank"}, "second"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_pool_that_hangs_stops_no_change_of_another(tmp_path: Path) -> None:
    simulator = Simulator()
    disks = simulator.disks()
    for number, name in enumerate(("tank", "rust")):
        simulator.create_pool(name, [VdevSpec(devices=(disks[number].path,), redundancy=Redundancy.STRIPE)])
    answers = threading.Event()
    simulator.hanging["rust"] = answers
    path = tmp_path / "helper.sock"
    with served(simulator, path):
        stuck = [
            threading.Thread(target=connect(path).create_filesystem, args=(f"rust/{number}",), daemon=True) for number in range(3)
        ]
        for thread in stuck:
            thread.start()
        client = connect(path, seconds=60)
        client.create_filesystem("tank/first")
        assert [filesystem.name for filesystem in client.datasets("tank").filesystems] == ["tank", "tank/first"]
        answers.set()
        for thread in stuck:
            thread.join(60)
        assert len(client.datasets("rust").filesystems) == 4


def test_a_suspended_pool_is_resumed_although_a_change_of_it_hangs(tmp_path: Path) -> None:
    """A change that waits for the devices ends only after `clear`. The next change of the pool waits for its end."""
    simulator = Simulator()
    simulator.create_pool("rust", [VdevSpec(devices=(simulator.disks()[0].path,), redundancy=Redundancy.STRIPE)])
    path = tmp_path / "helper.sock"
    with served(simulator, path), simulator.held_next("create_filesystem"):
        stuck = threading.Thread(target=connect(path).create_filesystem, args=("rust/a",))
        stuck.start()
        while simulator.waits["create_filesystem"]:
            threading.Event().wait(0.01)
        connect(path, seconds=10).clear("rust")
        waiting = threading.Thread(target=connect(path).create_filesystem, args=("rust/b",))
        waiting.start()
        waiting.join(0.3)
        assert stuck.is_alive() and [filesystem.name for filesystem in simulator.filesystems()] == ["rust"]
    stuck.join(60)
    waiting.join(60)


def test_calls_of_the_library_that_hang_are_counted_by_pool() -> None:
    library, answers = Library(0.02), threading.Event()
    library._loaded = SimpleNamespace(lzc_exists=lambda name: name.startswith(b"tank") or answers.wait(60))
    for _ in range(MAX_STUCK):
        with pytest.raises(Timeout):
            library.call("lzc_exists", b"rust/a")
    assert len(leftover.take()) == MAX_STUCK
    with pytest.raises(EngineUnavailable, match="rust"):
        library.call("lzc_exists", b"rust/a")
    library._seconds = 60
    assert library.call("lzc_exists", b"tank/a")
    answers.set()


def test_a_program_that_cannot_be_ended_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Like a program in the kernel, which gets SIGKILL only when it leaves the kernel."""
    monkeypatch.setattr(commands, "_kill", lambda _: None)
    leftover.take()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(Timeout):
        commands.run(("/bin/sh", "-c", f"read line <{fifo}"), seconds=0.05)
    (ended,) = leftover.take()
    assert not ended()
    fifo.write_text("end\n")
    while not ended():
        threading.Event().wait(0.01)
