# SPDX-License-Identifier: Apache-2.0
"""State of the simulator: devices, pools, datasets, snapshots. `save` and `load` store it in a JSON file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from appliance import decoding
from appliance.zfs.model import FeatureState, Redundancy, Role
from simulators.zfs.blocks import Blocks


@dataclass(slots=True)
class Device:
    """A disk of the simulated machine."""

    path: str
    size: int
    model: str = "Simulated disk"
    serial: str = ""
    rotational: bool = True
    present: bool = True
    used_by: str | None = None
    """Use of the disk other than by a pool, for instance "mounted on /"."""


@dataclass(slots=True)
class Leaf:
    """A device in a pool."""

    path: str
    guid: int
    offline: bool = False
    faulted: bool = False
    replaced_by: Leaf | None = None
    """The device it is being resilvered to."""
    read_errors: int = 0
    write_errors: int = 0
    checksum_errors: int = 0

    def leaves(self) -> Iterator[Leaf]:
        """The device and its replacements."""
        yield self
        if self.replaced_by is not None:
            yield from self.replaced_by.leaves()


@dataclass(slots=True)
class Top:
    """A top-level vdev."""

    index: int
    guid: int
    role: Role
    redundancy: Redundancy
    leaves: list[Leaf]

    def devices(self) -> Iterator[Leaf]:
        for leaf in self.leaves:
            yield from leaf.leaves()


@dataclass(slots=True)
class RunningScan:
    """A scrub or resilver; its progress follows from the clock."""

    function: str
    started: float
    seconds: float
    """Total duration."""
    to_examine: int
    done_seconds: float = 0.0
    """Time spent before the last start."""
    resumed: float | None = None
    """Last start; None while paused or after the end."""
    ended: float | None = None
    canceled: bool = False


@dataclass(slots=True)
class SnapshotState:
    """A snapshot."""

    tag: str
    guid: int
    createtxg: int
    creation: int
    blocks: Blocks
    volsize: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    received: dict[str, str] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    """Creation time by tag."""


@dataclass(slots=True)
class DatasetState:
    """A file system or volume."""

    guid: int
    createtxg: int
    creation: int
    volsize: int = 0
    """0 for a file system."""
    volblocksize: int = 0
    local: dict[str, str] = field(default_factory=dict)
    received: dict[str, str] = field(default_factory=dict)
    received_hidden: set[str] = field(default_factory=set)
    """Received values that `zfs inherit` hides."""
    blocks: Blocks = ()
    snapshots: list[SnapshotState] = field(default_factory=list)
    """Oldest first."""
    origin: int = 0
    """GUID of the snapshot it is a clone of."""
    mounted: bool = False
    holders: list[str] = field(default_factory=list)
    """Programs that have it open."""
    algorithm: str | None = None
    """Set on the encryption root only."""
    key_digest: str = ""
    key_loaded: bool = False

    @property
    def is_volume(self) -> bool:
        """Whether it is a volume."""
        return self.volblocksize != 0


@dataclass(slots=True)
class PoolState:
    """A pool, imported or not. Datasets are named from the pool's root, which is the empty name."""

    name: str
    guid: int
    tops: list[Top]
    spares: list[Leaf]
    properties: dict[str, str]
    features: dict[str, FeatureState]
    datasets: dict[str, DatasetState]
    txg: int = 4
    imported: bool = True
    last_host: str | None = None
    """Another system that has the pool imported, or did not export it."""
    scan: RunningScan | None = None
    suspended: bool = False
    trimming: bool = False
    bclone_used: int = 0
    bclone_saved: int = 0

    def devices(self) -> Iterator[Leaf]:
        """All its devices, spares too."""
        for top in self.tops:
            yield from top.devices()
        yield from self.spares

    def full_name(self, path: str) -> str:
        return f"{self.name}/{path}" if path else self.name


@dataclass(slots=True)
class Machine:
    """Everything."""

    devices: dict[str, Device] = field(default_factory=dict)
    pools: list[PoolState] = field(default_factory=list)
    guids_given: int = 0


def load(path: Path) -> Machine | None:
    """The saved state, or None without a file. Raises msgspec.DecodeError for other content."""
    try:
        return decoding.decode(path.read_bytes(), Machine)
    except FileNotFoundError:
        return None


def save(machine: Machine, path: Path) -> None:
    """Replaces the file atomically: a process killed at any moment leaves the old or the new state."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(machine))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
