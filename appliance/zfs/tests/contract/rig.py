# SPDX-License-Identifier: Apache-2.0
"""Environment of the contract's tests: devices, and programs that use datasets."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from appliance.zfs.engine import ZfsEngine
from appliance.zfs.model import Redundancy, VdevSpec

MIB = 1 << 20


class Hands(Protocol):
    """Actions of other programs, not of the engine."""

    def write(self, name: str, size: int) -> None:
        """Writes this number of new bytes, without overwriting, and syncs."""

    def opened(self, name: str) -> AbstractContextManager[None]:
        """A program has the volume open, or uses the mounted file system."""

    def receive(self, source: str, name: str) -> None:
        """Receives the snapshot `source` as `name`, with its properties."""

    def sent(self, name: str) -> AbstractContextManager[None]:
        """`zfs send` reads the snapshot of a dataset with at least 8 MiB."""

    def unload_key(self, name: str) -> None:
        """Unloads the key of an encryption root, as after a restart or an import."""

    def spoil(self, name: str) -> None:
        """Sets a user property that is not UTF-8."""

    def slow_scans(self) -> AbstractContextManager[None]:
        """Scrubs do not end during the body."""

    def damage(self, device: str) -> None:
        """The device of a pool fails."""

    def unplug(self, device: str) -> None:
        """The device of an exported pool is away for good. It can be used by a new pool."""

    def set_failmode(self, pool: str, failmode: str) -> None:
        """Sets the pool's `failmode`, as TrueNAS does."""

    def used_elsewhere(self, pool: str) -> None:
        """Marks an exported pool as used by another system."""


@dataclass
class Rig:
    """An engine with a shared pool, and free devices of 256 MiB for other pools."""

    engine: ZfsEngine
    pool: str
    devices: list[str]
    hands: Hands
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def name(self, what: str = "ds") -> str:
        """An unused name below the pool."""
        return f"{self.pool}/{what}{next(self.numbers)}"

    def filesystem(self, **properties: str) -> str:
        """Name of a new file system that is not mounted."""
        name = self.name("fs")
        self.engine.create_filesystem(name, properties=properties)
        return name

    def volume(self, size: int = 16 * MIB, **properties: str) -> str:
        """Name of a new thin volume."""
        name = self.name("vol")
        self.engine.create_volume(name, size, properties=properties)
        return name

    def mirror(self, name: str) -> str:
        """A new pool on the first two devices."""

        self.engine.create_pool(name, [VdevSpec(devices=tuple(self.devices[:2]), redundancy=Redundancy.MIRROR)], force=True)
        return name
