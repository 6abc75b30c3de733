# SPDX-License-Identifier: Apache-2.0
"""The simulator's properties and keys."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.zfs import names
from appliance.zfs.errors import (
    DatasetBusy,
    InvalidProperty,
    KeyLoaded,
    KeyNotLoaded,
    NotEncryptionRoot,
    OutOfSpace,
    WrongKey,
)
from appliance.zfs.model import Properties, Property, Source, Volume
from appliance.zfs.properties import SETTABLE, On, check_properties, check_user_properties, thick_refreservation
from simulators.zfs.core import operation
from simulators.zfs.datasets import Datasets, digest, without_none
from simulators.zfs.space import size_of
from simulators.zfs.state import DatasetState, PoolState, SnapshotState


class PropertiesAndKeys(Datasets):
    """zfs-set(8), zfs-inherit(8), zfs-load-key(8)."""

    # --- properties

    @operation
    def properties(self, name: str) -> Properties:
        if "@" in name:
            pool, path, _, snapshot = self.find_snapshot(name)
            return self.snapshot_properties(pool, path, snapshot)
        pool, path, dataset = self.find(name)
        report = (self.report_volume if dataset.is_volume else self.report_filesystem)(pool, path, dataset)
        space = report.space
        figures: dict[str, object] = {
            "type": "volume" if dataset.is_volume else "filesystem",
            "guid": report.guid,
            "createtxg": report.createtxg,
            "creation": report.creation,
            "used": space.used,
            "available": space.available,
            "referenced": space.referenced,
            "usedbydataset": space.used_by_dataset,
            "usedbysnapshots": space.used_by_snapshots,
            "usedbychildren": space.used_by_children,
            "usedbyrefreservation": space.used_by_refreservation,
            "written": space.written,
            "origin": report.origin or "-",
            "encryption": report.encryption.algorithm if report.encryption else "off",
        }
        shown = {key: Property(str(value), Source.NONE) for key, value in figures.items()}
        if isinstance(report, Volume):
            shown["volsize"] = Property(str(report.volsize), Source.LOCAL)
            shown["volblocksize"] = Property(str(report.volblocksize), Source.DEFAULT)
        else:
            shown["mounted"] = Property("yes" if report.mounted else "no", Source.NONE)
        return shown | dict(report.properties)

    def snapshot_properties(self, pool: PoolState, path: str, snapshot: SnapshotState) -> dict[str, Property]:
        """User properties of a snapshot, its own and inherited ones."""
        inherited = {
            name: Property(inherited.value, Source.INHERITED, inherited.inherited_from or pool.full_name(path))
            for name, inherited in self.user_properties(pool, path).items()
        }
        figures = {"type": "snapshot", "guid": snapshot.guid, "createtxg": snapshot.createtxg, "creation": snapshot.creation}
        local = {name: Property(value, Source.LOCAL) for name, value in snapshot.properties.items()}
        received = {name: Property(value, Source.RECEIVED) for name, value in snapshot.received.items()}
        shown = {name: Property(str(value), Source.NONE) for name, value in figures.items()}
        return shown | inherited | received | local

    @operation
    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        if "@" in name:
            check_user_properties(properties)
            pool, _, _, snapshot = self.find_snapshot(name)
            snapshot.properties |= properties
            self.changed(pool)
            return
        pool, path, dataset = self.find(name)
        check_properties(properties, On.VOLUME if dataset.is_volume else On.FILESYSTEM)
        if properties.get("refreservation") == "auto":
            properties = {**properties, "refreservation": str(thick_refreservation(dataset.volsize, dataset.volblocksize))}
        if dataset.mounted and properties.get("mountpoint") not in (None, dataset.local.get("mountpoint")):
            self._not_busy([(path, dataset)], pool)
        before = dict(dataset.local)
        space = self.space_of(pool).space(path)
        for quota, used in (("quota", space.used), ("refquota", space.referenced)):
            value = properties.get(quota, "none")
            if value not in {"none", "0"} and int(value) < used:
                raise OutOfSpace(name, quota=True)
        reserved, refquota = (
            as_size(properties.get(size, str(size_of(dataset, size)))) for size in ("refreservation", "refquota")
        )
        if refquota and refquota < reserved:
            raise OutOfSpace(name, quota="refreservation" not in properties)
        growth = 0
        if "refreservation" in properties:
            growth += max(0, as_size(properties["refreservation"]) - size_of(dataset, "refreservation"))
        if "reservation" in properties:
            growth += max(0, as_size(properties["reservation"]) - max(space.used, size_of(dataset, "reservation")))
        if growth:
            self.need_room(pool, path, growth, name)
        dataset.local = without_none(before | dict(properties))
        dataset.received_hidden -= set(properties)
        if dataset.mounted and {"mountpoint", "canmount"} & set(properties):
            dataset.mounted = self.mounts_itself(pool, path) or properties.get("canmount") == "noauto"
        elif "mountpoint" in properties and not dataset.is_volume:
            dataset.mounted = self.mounts_itself(pool, path)
        self.changed(pool)

    @operation
    def inherit_property(self, name: str, property: str) -> None:
        if not names.is_user_property(property) and property not in SETTABLE:
            raise InvalidProperty(property, "", "not a property that may be set")
        if "@" in name:
            pool, _, _, snapshot = self.find_snapshot(name)
            snapshot.properties.pop(property, None)
            self.changed(pool)
            return
        pool, _, dataset = self.find(name)
        native = SETTABLE.get(property)
        if native is not None and not native.inherited:
            raise InvalidProperty(property, "", "is not inherited")
        dataset.local.pop(property, None)
        if property in dataset.received:
            dataset.received_hidden.add(property)
        self.changed(pool)

    # --- keys

    @operation
    def load_key(self, name: str, key: bytes) -> None:
        pool, dataset = self._encryption_root(name)
        if digest(key) != dataset.key_digest:
            raise WrongKey(name)
        if dataset.key_loaded:
            raise KeyLoaded(name)
        dataset.key_loaded = True
        self.changed(pool)

    @operation
    def unload_key(self, name: str) -> None:
        pool, dataset = self._encryption_root(name)
        if not dataset.key_loaded:
            raise KeyNotLoaded(name)
        for _, path, below in self.below(name):
            if below.mounted or below.holders:
                raise DatasetBusy(pool.full_name(path), tuple(below.holders) or ("mounted",))
        dataset.key_loaded = False
        self.changed(pool)

    def _encryption_root(self, name: str) -> tuple[PoolState, DatasetState]:
        pool, path, _ = self.find(name)
        root = self.encryption_root(pool, path)
        if root is None or root[0] != path:
            raise NotEncryptionRoot(name, pool.full_name(root[0]) if root else "")
        return pool, root[1]


def as_size(value: str) -> int:
    """Bytes of a size's text."""
    return 0 if value == "none" else int(value)
