# SPDX-License-Identifier: Apache-2.0
"""The simulator's volumes and file systems, their properties and keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from appliance.zfs import names
from appliance.zfs.engine import KEY_BYTES
from appliance.zfs.errors import (
    DatasetBusy,
    HasDependants,
    InvalidProperty,
    KeyNotLoaded,
    NoSuchDataset,
    NotAClone,
    NotSupported,
    SnapshotExists,
    SnapshotHeld,
    UnexpectedFailure,
    WrongKey,
)
from appliance.zfs.model import (
    DatasetList,
    Dependant,
    DependantKind,
    Encryption,
    Filesystem,
    KeyStatus,
    Property,
    Volume,
)
from appliance.zfs.properties import (
    SETTABLE,
    SHOWN,
    On,
    check_properties,
    check_volume_size,
    thick_refreservation,
)
from simulators.zfs.core import Core, operation
from simulators.zfs.space import parent_of, size_of
from simulators.zfs.state import DatasetState, PoolState, SnapshotState

NEW_FILESYSTEM_BYTES = 96 << 10
NEW_VOLUME_BYTES = 56 << 10


class Datasets(Core):
    """zfs(8), except snapshots."""

    # --- reports

    def report_volume(self, pool: PoolState, path: str, dataset: DatasetState) -> Volume:
        return Volume(
            name=pool.full_name(path),
            guid=dataset.guid,
            createtxg=dataset.createtxg,
            creation=dataset.creation,
            space=self.space_of(pool).space(path),
            origin=self._origin_name(pool, dataset),
            encryption=self._report_encryption(pool, path),
            properties=self._report_properties(pool, path),
            volsize=dataset.volsize,
            volblocksize=dataset.volblocksize,
            refreservation=size_of(dataset, "refreservation"),
        )

    def report_filesystem(self, pool: PoolState, path: str, dataset: DatasetState) -> Filesystem:
        properties = self._report_properties(pool, path)
        mountpoint = properties["mountpoint"].value
        return Filesystem(
            name=pool.full_name(path),
            guid=dataset.guid,
            createtxg=dataset.createtxg,
            creation=dataset.creation,
            space=self.space_of(pool).space(path),
            origin=self._origin_name(pool, dataset),
            encryption=self._report_encryption(pool, path),
            properties=properties,
            mountpoint=mountpoint if mountpoint.startswith("/") else None,
            mounted=dataset.mounted,
            recordsize=int(properties["recordsize"].value),
            quota=size_of(dataset, "quota"),
            refquota=size_of(dataset, "refquota"),
            reservation=size_of(dataset, "reservation"),
            refreservation=size_of(dataset, "refreservation"),
        )

    def _report_properties(self, pool: PoolState, path: str) -> dict[str, Property]:
        natives = {name: self.effective(pool, path, name) for name in SHOWN}
        return {name: value for name, value in natives.items() if value is not None} | self.user_properties(pool, path)

    def _origin_name(self, pool: PoolState, dataset: DatasetState) -> str | None:
        origin = self.snapshot_by_guid(pool, dataset.origin) if dataset.origin else None
        return f"{pool.full_name(origin[0])}@{origin[1].snapshots[origin[2]].tag}" if origin else None

    def _report_encryption(self, pool: PoolState, path: str) -> Encryption | None:
        root = self.encryption_root(pool, path)
        if root is None:
            return None
        status = KeyStatus.AVAILABLE if root[1].key_loaded else KeyStatus.UNAVAILABLE
        name = pool.full_name(root[0])
        return Encryption(algorithm=str(root[1].algorithm), root=name, key_status=status)

    def below(self, root: str | None) -> list[tuple[PoolState, str, DatasetState]]:
        """All datasets, or a dataset and those below. Without those of suspended pools, as in `zfs list`."""
        if root is not None:
            pool, path, _ = self.find(root)
            beginning = f"{path}/" if path else ""
            chosen = [p for p in pool.datasets if p == path or p.startswith(beginning)]
            return [(pool, p, pool.datasets[p]) for p in sorted(chosen)]
        pools = sorted((p for p in self.machine.pools if p.imported and not p.suspended), key=lambda p: p.name)
        return [(pool, p, pool.datasets[p]) for pool in pools for p in sorted(pool.datasets)]

    @operation
    def datasets(self, root: str | None = None) -> DatasetList:
        datasets = self.below(root)
        if any("\ufffd" in value for _, _, dataset in datasets for value in dataset.local.values()):
            raise UnexpectedFailure("datasets", "no JSON: zfs cuts its output off at a byte that is not UTF-8")
        return DatasetList(
            filesystems=self.cached(
                ("filesystems", root),
                lambda: [self.report_filesystem(*dataset) for dataset in datasets if not dataset[2].is_volume],
            ),
            volumes=self.cached(
                ("volumes", root), lambda: [self.report_volume(*dataset) for dataset in datasets if dataset[2].is_volume]
            ),
        )

    @operation
    def volume(self, name: str) -> Volume:
        pool, path, dataset = self.find(name)
        if not dataset.is_volume:
            raise NoSuchDataset(name)
        return self.report_volume(pool, path, dataset)

    @operation
    def filesystem(self, name: str) -> Filesystem:
        pool, path, dataset = self.find(name)
        if dataset.is_volume:
            raise NoSuchDataset(name)
        return self.report_filesystem(pool, path, dataset)

    # --- making

    @operation
    def create_volume(
        self,
        name: str,
        volsize: int,
        *,
        volblocksize: int = 16384,
        thick: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> Volume:
        check_volume_size(volsize, volblocksize)
        local = dict(properties or {})
        check_properties(local, On.VOLUME)
        if thick:
            local["refreservation"] = str(thick_refreservation(volsize, volblocksize))
        pool, path, dataset = self._create(name, local, None, NEW_VOLUME_BYTES)
        dataset.volsize, dataset.volblocksize = volsize, volblocksize
        self.changed(pool)
        return self.report_volume(pool, path, dataset)

    @operation
    def create_filesystem(
        self, name: str, *, properties: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> Filesystem:
        local = dict(properties or {})
        check_properties(local, On.FILESYSTEM)
        pool, path, dataset = self._create(name, local, key, NEW_FILESYSTEM_BYTES)
        dataset.mounted = self.mounts_itself(pool, path)
        self.changed(pool)
        self.check_shares(pool, path)
        return self.report_filesystem(pool, path, dataset)

    def _create(self, name: str, local: dict[str, str], key: bytes | None, size: int) -> tuple[PoolState, str, DatasetState]:
        if key is not None and len(key) != KEY_BYTES:
            raise WrongKey(name)
        pool, path = self.find_parent_of_new(name)
        above = self.encryption_root(pool, parent_of(path))
        if above and not above[1].key_loaded and "encryption" not in local:
            raise KeyNotLoaded(pool.full_name(above[0]))
        dataset = DatasetState(guid=self.new_guid(), createtxg=pool.txg, creation=self.now(), local=without_none(local))
        dataset.blocks = ((pool.txg, size),)
        held = max(size, size_of(dataset, "reservation"), size_of(dataset, "refreservation"))
        self.need_room(pool, parent_of(path), held, name)
        if key is not None:
            dataset.algorithm, dataset.key_digest, dataset.key_loaded = "aes-256-gcm", digest(key), True
        pool.datasets[path] = dataset
        self.touched()
        return pool, path, dataset

    def mounts_itself(self, pool: PoolState, path: str) -> bool:
        """Whether a file system is mounted at its creation and at the import of its pool."""
        can, where = self.effective(pool, path, "canmount"), self.effective(pool, path, "mountpoint")
        root = self.encryption_root(pool, path)
        key = root is None or root[1].key_loaded
        return bool(key and can and can.value == "on" and where and where.value.startswith("/"))

    def check_shares(self, pool: PoolState, path: str) -> None:
        """Without an NFS or SMB server `zfs create` and `zfs clone` fail, and the file system exists."""
        shares = [self.effective(pool, path, name) for name in ("sharenfs", "sharesmb")]
        if pool.datasets[path].mounted and any(share and share.value != "off" for share in shares):
            raise UnexpectedFailure("create", "filesystem successfully created, but not shared")

    @operation
    def grow_volume(self, name: str, volsize: int) -> Volume:
        pool, path, dataset = self.find(name)
        if not dataset.is_volume:
            raise NoSuchDataset(name)
        check_volume_size(volsize, dataset.volblocksize)
        if volsize < dataset.volsize:
            allowed = f"a multiple of {dataset.volblocksize} from {dataset.volsize} on"
            raise InvalidProperty("volsize", str(volsize), "a volume cannot shrink", (allowed,))
        reserved = size_of(dataset, "refreservation")
        if volsize > dataset.volsize:
            if reserved:
                needed = max(reserved, thick_refreservation(volsize, dataset.volblocksize))
                self.need_room(pool, path, needed - reserved, name)
                dataset.local["refreservation"] = str(needed)
            dataset.volsize = volsize
            self.changed(pool)
        return self.report_volume(pool, path, dataset)

    # --- destroy

    def _not_busy(self, datasets: list[tuple[str, DatasetState]], pool: PoolState) -> None:
        for path, dataset in datasets:
            if dataset.holders:
                raise DatasetBusy(pool.full_name(path), tuple(dataset.holders))

    @operation
    def destroy(self, name: str, *, with_snapshots: bool = False) -> None:
        names.new_dataset_name(name)
        pool, path, dataset = self.find(name)
        children = [pool.full_name(p) for p in pool.datasets if p.startswith(f"{path}/")]
        clones = [pool.full_name(p) for snapshot in dataset.snapshots for p in self.clones_of(pool, snapshot)]
        snapshots = [] if with_snapshots else [f"{name}@{snapshot.tag}" for snapshot in dataset.snapshots]
        if in_the_way := sorted({*children, *clones, *snapshots}):
            raise HasDependants(name, tuple(in_the_way[:100]))
        for snapshot in dataset.snapshots:
            if snapshot.holds:
                raise SnapshotHeld(f"{name}@{snapshot.tag}", tuple(sorted(snapshot.holds)))
        self._not_busy([(path, dataset)], pool)
        del pool.datasets[path]
        self.changed(pool)

    @operation
    def dependants(self, name: str) -> list[Dependant]:
        dependants: dict[str, Dependant] = {}
        if "@" in name:
            pool, _, _, snapshot = self.find_snapshot(name)
            self._clones_below(pool, name, snapshot, dependants)
        else:
            pool, path, _ = self.find(name)
            self._all_below(pool, path, dependants)
            dependants.pop(name, None)
        return sorted(dependants.values(), key=lambda dependant: dependant.name)

    def _clones_below(self, pool: PoolState, name: str, snapshot: SnapshotState, dependants: dict[str, Dependant]) -> None:
        for path in self.clones_of(pool, snapshot):
            clone = pool.full_name(path)
            if clone not in dependants:
                dependants[clone] = Dependant(clone, DependantKind.CLONE, name)
                self._all_below(pool, path, dependants)

    def _all_below(self, pool: PoolState, path: str, dependants: dict[str, Dependant]) -> None:
        beginning = f"{path}/" if path else ""
        for p in sorted(p for p in pool.datasets if p == path or p.startswith(beginning)):
            name = pool.full_name(p)
            if p != path:
                dependants.setdefault(name, Dependant(name, DependantKind.CHILD, pool.full_name(parent_of(p))))
            for snapshot in pool.datasets[p].snapshots:
                full = f"{name}@{snapshot.tag}"
                if full not in dependants:
                    dependants[full] = Dependant(full, DependantKind.SNAPSHOT, name)
                    self._clones_below(pool, full, snapshot, dependants)

    @operation
    def promote(self, name: str) -> None:
        pool, path, clone = self.find(name)
        snapshot = self.snapshot_by_guid(pool, clone.origin) if clone.origin else None
        if snapshot is None:
            raise NotAClone(name)
        _, origin, index = snapshot
        taken = {snapshot.tag for snapshot in clone.snapshots}
        for moved in origin.snapshots[: index + 1]:
            if moved.tag in taken:
                raise SnapshotExists(f"{name}@{moved.tag}")
        if origin.algorithm is not None:  # the clone becomes the encryption root in its place
            clone.algorithm, clone.key_digest, clone.key_loaded = origin.algorithm, origin.key_digest, origin.key_loaded
            origin.algorithm, origin.key_digest, origin.key_loaded = None, "", False
        clone.origin, origin.origin = origin.origin, clone.origin
        clone.snapshots = origin.snapshots[: index + 1] + clone.snapshots
        origin.snapshots = origin.snapshots[index + 1 :]
        self.changed(pool)

    @operation
    def holders(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self.find(name)[2].holders))

    # --- mounting

    @operation
    def mount(self, name: str) -> None:
        pool, path, dataset = self._filesystem(name)
        root = self.encryption_root(pool, path)
        if root and not root[1].key_loaded:
            raise KeyNotLoaded(name)
        can, where = self.effective(pool, path, "canmount"), self.effective(pool, path, "mountpoint")
        if not (where and where.value.startswith("/")) or not can or can.value == "off":
            raise NotSupported(f"{name} has no mountpoint, or canmount=off")
        if not dataset.mounted:
            dataset.mounted = True
            self.changed()

    @operation
    def unmount(self, name: str) -> None:
        pool, path, _ = self._filesystem(name)
        inside = [(p, d) for _, p, d in self.below(name) if not d.is_volume]
        self._not_busy(inside, pool)
        for _, dataset in inside:
            dataset.mounted = False
        self.changed()

    def _filesystem(self, name: str) -> tuple[PoolState, str, DatasetState]:
        pool, path, dataset = self.find(name)
        if dataset.is_volume:
            raise NoSuchDataset(name)
        return pool, path, dataset


def digest(key: bytes) -> str:
    """The stored form of a key."""
    return hashlib.sha256(key).hexdigest()


def without_none(local: dict[str, str]) -> dict[str, str]:
    """Sizes as `zfs get -p` shows them: "none" is 0."""
    sizes = {name for name, native in SETTABLE.items() if native.allowed and native.allowed[0] == "none" and not native.inherited}
    return {name: "0" if value == "none" and name in sizes else value for name, value in local.items()}
