# SPDX-License-Identifier: Apache-2.0
"""The simulator as a worker's storage: state in a file, an initial pool, volumes as sparse files."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.config import Configuration
from appliance.database.store import Store
from appliance.dataplane.ganesha import ExportControl
from appliance.dataplane.target_socket import TargetSocket
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.domain.secrets import Seal
from appliance.helper.client import HelperClient
from appliance.worker.assembly import complete
from appliance.worker.context import Context
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.folders import Folders, SnapshotFolders
from appliance.zfs.keys import Keys, StoredKeys
from appliance.zfs.model import Filesystem, Pool, Redundancy, VdevSpec, Volume
from simulators.copies import FolderCopies
from simulators.zfs import Simulator

POOL = "tank"


def simulator(file: Path | None = None) -> Simulator:
    """The simulator with the state of the file; at first with one pool of two mirrored disks."""
    engine = Simulator(path=file)
    if not engine.pools():
        devices = tuple(disk.path for disk in engine.disks()[:2])
        engine.create_pool(POOL, [VdevSpec(devices=devices, redundancy=Redundancy.MIRROR)])
    return engine


def assembled(
    configuration: Configuration,
    engine: ZfsEngine,
    target: TargetSocket,
    nfs: ExportControl,
    files: VaaiNas,
    store: Store | None = None,
) -> Context:
    """A worker's context. Keys, folders and copies are in the state directory, unless the engine has them."""
    directory = configuration.state_directory
    keys: Keys = StoredKeys(engine, directory / "keys")
    folders: Folders = SnapshotFolders(engine, lambda filesystem: context.path(filesystem))
    copies: ConfigurationCopies = FolderCopies(directory / "copies")
    if isinstance(engine, HelperClient):
        keys = folders = copies = engine
    context = Context(
        configuration=configuration,
        store=store or Store(configuration.database),
        engine=engine,
        keys=keys,
        folders=folders,
        copies=copies,
        target=target,
        nfs=nfs,
        files=files,
        seal=Seal(configuration.secrets_key),
        shut_down=engine.shut_down if isinstance(engine, HelperClient) else lambda _reboot: None,
        topmost=None,
    )
    return complete(context)


def again(old: Context) -> Context:
    """Context of another worker, with only the state in database, storage, target and NFS server."""
    new = assembled(old.configuration, old.engine, old.target, old.nfs, old.files, old.store)
    for name in ("seal", "device", "path", "mounts", "on_files", "folder"):
        setattr(new, name, getattr(old, name))
    return new


def in_folder(context: Context, directory: Path) -> None:
    """Volumes are sparse files of their size, and file systems folders, for a real target and a real NFS server.

    Snapshots, clones and rollbacks of the simulator do not change the files.
    """
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

    def folder(name: str) -> str:
        path = directory / name
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def files(filesystem: Filesystem) -> str:
        return folder(f"{filesystem.guid}.files")

    def reservations(pool: Pool) -> str:
        return folder(f"reservations-{pool.guid}")

    context.device, context.path, context.folder = device, files, reservations
    context.on_files, context.mounts = True, str(directory)
