# SPDX-License-Identifier: Apache-2.0
"""The simulator as the worker's engine: its state in the state directory, a pool to begin with, volumes as sparse files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from appliance.worker.reservations import mountpoint
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.model import Filesystem, Pool, Redundancy, VdevSpec, Volume
from appliance.zfs.simulator import Simulator

POOL = "tank"


def engine(state_directory: Path) -> ZfsEngine:
    """As it was left; at first with one pool of two mirrored disks."""
    simulator = Simulator(path=state_directory / "simulator.json")
    if not simulator.pools():
        devices = tuple(disk.path for disk in simulator.disks()[:2])
        simulator.create_pool(POOL, [VdevSpec(devices=devices, redundancy=Redundancy.MIRROR)])
    return simulator


def folders(directory: Path | None) -> Callable[[Pool], str]:
    """Where a real target keeps persistent reservations: the simulator's datasets are mounted nowhere."""
    if directory is None:
        return mountpoint

    def folder(pool: Pool) -> str:
        path = directory / f"reservations-{pool.guid}"
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    return folder


def paths(directory: Path | None) -> Callable[[Filesystem], str]:
    """Where a real NFS server finds file systems: folders, as the simulator mounts nothing.

    They hold what is written to them and nothing else: snapshots, clones and rollbacks are the simulator's only.
    """
    if directory is None:
        return lambda filesystem: filesystem.mountpoint or ""

    def path(filesystem: Filesystem) -> str:
        place = directory / f"{filesystem.guid}.files"
        place.mkdir(parents=True, exist_ok=True)
        return str(place)

    return path


def devices(directory: Path | None) -> Callable[[Volume], str]:
    """Where volumes are opened: sparse files of their size, so that a real target can serve them.

    They hold what is written to them and nothing else: snapshots, clones and rollbacks are the simulator's only.
    """
    if directory is None:
        return lambda volume: volume.device
    directory.mkdir(parents=True, exist_ok=True)

    def device(volume: Volume) -> str:
        path = directory / f"{volume.guid}.volume"  # no rename changes the GUID
        if not path.exists() or path.stat().st_size != volume.volsize:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(descriptor, volume.volsize)
            finally:
                os.close(descriptor)
        return str(path)

    return device
