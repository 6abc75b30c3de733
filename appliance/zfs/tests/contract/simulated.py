# SPDX-License-Identifier: Apache-2.0
"""The simulator as a rig."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from simulators.zfs import Simulator

from appliance.zfs.model import Redundancy, VdevSpec
from appliance.zfs.tests.contract.rig import MIB, Rig


class SimulatedHands:
    """Actions of other programs on the simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def write(self, name: str, size: int) -> None:
        self._simulator.write(name, size)

    def opened(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self._simulator.opened(name)

    def receive(self, source: str, name: str) -> None:
        self._simulator.receive(source, name)

    @contextlib.contextmanager
    def sent(self, name: str) -> Iterator[None]:
        self._simulator.sent.add(name)
        yield
        self._simulator.sent.remove(name)

    def unload_key(self, name: str) -> None:
        self._simulator.unload_key(name)

    def spoil(self, name: str) -> None:
        self._simulator.set_properties(name, {"org.example:odd": "a\ufffd"})

    @contextlib.contextmanager
    def slow_scans(self) -> Iterator[None]:
        self._simulator.scan_seconds = 3600.0
        yield
        self._simulator.scan_seconds = 0.0

    def damage(self, device: str) -> None:
        self._simulator.fault_disk(device, write=1)

    def unplug(self, device: str) -> None:
        self._simulator.fault_disk(device, write=1)

    def set_failmode(self, pool: str, failmode: str) -> None:
        self._simulator.pool_state(pool).properties["failmode"] = failmode

    def used_elsewhere(self, pool: str) -> None:
        self._simulator.used_elsewhere(pool, "elsewhere")


@contextlib.contextmanager
def simulated_rig(directory: Path) -> Iterator[Rig]:
    """A simulator that keeps its state in a file, with the pool "sim"."""
    simulator = Simulator(disks=8, disk_size=256 * MIB, path=directory / "simulator.json")
    devices = [disk.path for disk in simulator.disks()]
    simulator.create_pool("sim", [VdevSpec(devices=tuple(devices[:2]), redundancy=Redundancy.MIRROR)])
    yield Rig(simulator, "sim", devices[2:], SimulatedHands(simulator))
