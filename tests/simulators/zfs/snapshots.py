# SPDX-License-Identifier: Apache-2.0
"""The simulator's snapshots, holds, rollback and clones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.zfs import names
from appliance.zfs.errors import (
    DatasetBusy,
    HasDependants,
    HoldExists,
    InvalidName,
    KeyNotLoaded,
    NewerSnapshots,
    NoSuchHold,
    NoSuchSnapshot,
    OutOfSpace,
    SnapshotExists,
    SnapshotHeld,
)
from appliance.zfs.model import Hold, Snapshot
from appliance.zfs.properties import On, check_properties, check_user_properties
from simulators.zfs.blocks import born_after, total
from simulators.zfs.core import operation
from simulators.zfs.datasets import without_none
from simulators.zfs.properties import PropertiesAndKeys
from simulators.zfs.space import parent_of, size_of, snapshot_used
from simulators.zfs.state import DatasetState, PoolState, SnapshotState


class Snapshots(PropertiesAndKeys):
    """zfs-snapshot(8), zfs-hold(8), zfs-rollback(8), zfs-clone(8)."""

    @operation
    def snapshots(
        self, root: str | None = None, *, recursive: bool = True, user_properties: Sequence[str] = ()
    ) -> list[Snapshot]:
        if root is not None:
            self.find(root)
        columns = tuple(user_properties)
        return self.cached(("snapshots", root, recursive, columns), lambda: self._report_snapshots(root, recursive, columns))

    def _report_snapshots(self, root: str | None, recursive: bool, user_properties: tuple[str, ...]) -> list[Snapshot]:
        rows = []
        clones: dict[int, list[str]] = {}
        for pool, path, dataset in self.below(None):
            if dataset.origin:
                clones.setdefault(dataset.origin, []).append(pool.full_name(path))
        for pool, path, dataset in self.below(root):
            name = pool.full_name(path)
            if not dataset.snapshots or (not recursive and name != root):
                continue
            clone_of = self.snapshot_by_guid(pool, dataset.origin) if dataset.origin else None
            origin = clone_of[1].snapshots[clone_of[2]] if clone_of else None
            for index, snapshot in enumerate(dataset.snapshots):
                properties = self.snapshot_properties(pool, path, snapshot) if user_properties else {}
                rows.append(
                    Snapshot(
                        name=f"{name}@{snapshot.tag}",
                        guid=snapshot.guid,
                        createtxg=snapshot.createtxg,
                        creation=snapshot.creation,
                        used=snapshot_used(dataset, index, origin),
                        referenced=total(snapshot.blocks),
                        holds=len(snapshot.holds),
                        clones=tuple(clones.get(snapshot.guid, ())),
                        properties={key: properties[key] for key in user_properties if key in properties},
                    )
                )
        return rows

    @operation
    def snapshot(self, snapshots: Sequence[str], *, properties: Mapping[str, str] | None = None) -> None:
        check_user_properties(properties or {})
        for name in snapshots:
            names.snapshot_name(name)
        self.check_one_pool(list(snapshots))
        if len({name.partition("@")[0] for name in snapshots}) < len(snapshots):
            raise InvalidName(snapshots[0], "one step takes one snapshot of a dataset")
        chosen = []
        for name in snapshots:
            dataset_name, _, tag = name.partition("@")
            pool, path, dataset = self.find(dataset_name)
            if any(snapshot.tag == tag for snapshot in dataset.snapshots):
                raise SnapshotExists(name)
            newest = dataset.snapshots[-1].createtxg if dataset.snapshots else 0
            pinned = min(born_after(dataset.blocks, newest), size_of(dataset, "refreservation"))
            self.need_room(pool, path, pinned, name)
            chosen.append((pool, dataset, tag))
        for pool, dataset, tag in chosen:
            made = SnapshotState(tag, self.new_guid(), pool.txg, self.now(), dataset.blocks, dataset.volsize)
            made.properties = dict(properties or {})
            dataset.snapshots.append(made)
        if chosen:
            self.changed(chosen[0][0])

    @operation
    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        self.check_one_pool(list(snapshots))
        chosen = []
        for name in dict.fromkeys(snapshots):
            try:
                pool, _, dataset, snapshot = self.find_snapshot(name)
            except NoSuchSnapshot:
                self.pool_state(names.pool_of(name))
                continue
            self._destroyable(pool, name, snapshot)
            chosen.append((pool, dataset, snapshot))
        for _, dataset, snapshot in chosen:
            dataset.snapshots.remove(snapshot)
        if chosen:
            self.changed(chosen[0][0])

    def _destroyable(self, pool: PoolState, name: str, snapshot: SnapshotState) -> None:
        if name in self.sent:
            raise DatasetBusy(name)
        if snapshot.holds:
            raise SnapshotHeld(name, tuple(sorted(snapshot.holds)))
        if clones := self.clones_of(pool, snapshot):
            raise HasDependants(name, tuple(pool.full_name(path) for path in clones))

    # --- holds

    @operation
    def hold(self, snapshots: Sequence[str], tag: str) -> None:
        names.hold_tag(tag)
        self.check_one_pool(list(snapshots))
        held = [(name, self.find_snapshot(name)) for name in snapshots]
        for name, (_, _, _, snapshot) in held:
            if tag in snapshot.holds:
                raise HoldExists(name, tag)
        for _, (_, _, _, snapshot) in held:
            snapshot.holds[tag] = self.now()
        self.changed(held[0][1][0] if held else None)

    @operation
    def release(self, snapshots: Sequence[str], tag: str) -> None:
        self.check_one_pool(list(snapshots))
        held = [(name, self.find_snapshot(name)) for name in snapshots]
        for name, (_, _, _, snapshot) in held:
            if tag not in snapshot.holds:
                raise NoSuchHold(name, tag)
        for _, (_, _, _, snapshot) in held:
            del snapshot.holds[tag]
        self.changed(held[0][1][0] if held else None)

    @operation
    def holds(self, name: str) -> list[Hold]:
        return [Hold(tag, created) for tag, created in sorted(self.find_snapshot(name)[3].holds.items())]

    # --- rollback, clone

    @operation
    def rollback(self, name: str, *, destroy: Sequence[str] = ()) -> None:
        pool, path, dataset, snapshot = self.find_snapshot(name)
        newer = dataset.snapshots[dataset.snapshots.index(snapshot) + 1 :]
        prefix = name.partition("@")[0]
        if unnamed := tuple(full for other in newer if (full := f"{prefix}@{other.tag}") not in destroy):
            raise NewerSnapshots(name, unnamed)
        for other in newer:
            self._destroyable(pool, f"{prefix}@{other.tag}", other)
        if dataset.holders:
            raise DatasetBusy(prefix, tuple(dataset.holders))
        quota = size_of(dataset, "refquota")
        if quota and total(snapshot.blocks) > quota:
            raise OutOfSpace(name, quota=True)
        again = min(born_after(dataset.blocks, snapshot.createtxg), size_of(dataset, "refreservation"))
        self.need_room(pool, parent_of(path), again, name)
        dataset.snapshots = dataset.snapshots[: dataset.snapshots.index(snapshot) + 1]
        dataset.blocks = snapshot.blocks
        if dataset.is_volume and dataset.volsize != snapshot.volsize:
            dataset.volsize = snapshot.volsize
        self.changed(pool)

    @operation
    def clone(self, snapshot: str, name: str, *, properties: Mapping[str, str] | None = None) -> None:
        pool, origin_path, origin, source = self.find_snapshot(snapshot)
        self.check_one_pool([snapshot, name])
        local = dict(properties or {})
        check_properties(local, On.VOLUME if origin.is_volume else On.FILESYSTEM)
        _, path = self.find_parent_of_new(name)
        root = self.encryption_root(pool, origin_path)
        if root and not root[1].key_loaded:
            raise KeyNotLoaded(pool.full_name(root[0]))
        made = DatasetState(guid=self.new_guid(), createtxg=pool.txg, creation=self.now(), local=without_none(local))
        made.origin, made.blocks = source.guid, source.blocks
        made.volsize, made.volblocksize = source.volsize, origin.volblocksize
        self.need_room(pool, parent_of(path), max(size_of(made, "reservation"), size_of(made, "refreservation")), name)
        pool.datasets[path] = made
        self.touched()
        made.mounted = not made.is_volume and self.mounts_itself(pool, path)
        self.changed(pool)
        self.check_shares(pool, path)
