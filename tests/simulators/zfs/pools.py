# SPDX-License-Identifier: Apache-2.0
"""The simulator's pools, vdevs and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from appliance.zfs import names
from appliance.zfs.engine import LONGEST_STATUS
from appliance.zfs.errors import (
    DatasetBusy,
    DeviceFaulted,
    DeviceInUse,
    DeviceTooSmall,
    InsufficientReplicas,
    InvalidLayout,
    NoScanRunning,
    NoSuchDevice,
    NoSuchPool,
    NotSupported,
    PoolExists,
    PoolInUseElsewhere,
    PoolUnavailable,
    ScanRunning,
)
from appliance.zfs.layout import check_layout
from appliance.zfs.model import (
    Disk,
    DiskHealth,
    FeatureState,
    Health,
    ImportablePool,
    Pool,
    Redundancy,
    Role,
    Scan,
    ScanState,
    Vdev,
    VdevSpec,
)
from appliance.zfs.properties import On, check_pool_properties, check_properties
from simulators.zfs.core import operation
from simulators.zfs.datasets import NEW_FILESYSTEM_BYTES, Datasets, without_none
from simulators.zfs.space import top_size
from simulators.zfs.state import DatasetState, Device, Leaf, PoolState, RunningScan, Top

MIN_DEVICE_BYTES = 64 << 20
"""SPA_MINDEVSIZE."""
FEATURES = (
    "async_destroy",
    "block_cloning",
    "bookmarks",
    "encryption",
    "hole_birth",
    "large_blocks",
    "lz4_compress",
    "zstd_compress",
)
_ACTIVE = {"hole_birth", "lz4_compress"}
_PARITY = {Redundancy.MIRROR: -1, Redundancy.RAIDZ1: 1, Redundancy.RAIDZ2: 2, Redundancy.RAIDZ3: 3}
_WORKING = {Health.ONLINE, Health.DEGRADED}
IN_USE = ("pool ", "mounted on ")
"""How the use of a disk begins that force does not overwrite."""
_DEGRADED_TEXT = "One or more devices could not be used. Sufficient replicas exist for the pool to continue functioning."
_MISSING_TEXT = "One or more devices are missing from the system."


class Pools(Datasets):
    """zpool(8)."""

    scan_seconds = 0.0
    """Minimum duration of a scrub or resilver."""
    scan_bytes_per_second = 1 << 30

    # --- reports

    @operation
    def disks(self) -> list[Disk]:
        owners = {leaf.path: f"pool {pool.name}" for pool in self.machine.pools for leaf in pool.devices()}
        return [
            Disk(
                path=device.path,
                device=f"/dev/sd{chr(ord('a') + index % 26)}" + ("" if index < 26 else str(index // 26)),
                size=device.size,
                model=device.model,
                serial=device.serial,
                rotational=device.rotational,
                used_by=use,
                in_use=use is not None and use.startswith(IN_USE),
            )
            for index, device in enumerate(sorted(self.machine.devices.values(), key=lambda device: device.path))
            if device.present
            for use in [owners.get(device.path, device.used_by)]
        ]

    @operation
    def disk_health(self, device: str) -> DiskHealth:
        """SMART data that a test set."""
        for disk in self.disks():
            if device in (disk.path, disk.device):
                return self.smart.get(disk.path, DiskHealth(available=False, reason="a simulated disk has no SMART"))
        raise NoSuchDevice(device)

    def pools(self) -> list[Pool]:
        for pool in self.machine.pools:
            self._finish_scan(pool)
        return [self._report(pool) for pool in sorted(self.machine.pools, key=lambda pool: pool.name) if pool.imported]

    def zpool_status(self, pool: str) -> str:
        """A short form of the output."""
        names.dataset_name(pool)
        report = self.pool(pool)
        lines = [f"  pool: {report.name}", f" state: {report.health}", f"status: {report.status}", "config:", ""]
        lines += [f"\t{device.path or device.was} {device.health}" for vdev in report.vdevs for device in vdev.devices()]
        return "\n".join([*lines, "", f"errors: {report.error_count} data errors", ""])[:LONGEST_STATUS]

    def pool(self, name: str) -> Pool:
        for pool in self.pools():
            if pool.name == name:
                return pool
        raise NoSuchPool(name)

    def _report(self, pool: PoolState) -> Pool:
        space = self.space_of(pool)
        health = Health.SUSPENDED if pool.suspended else self._health(pool)
        saved, used = pool.bclone_saved, pool.bclone_used
        status = {Health.ONLINE: "", Health.SUSPENDED: "One or more devices are faulted in response to IO failures."}
        return Pool(
            name=pool.name,
            guid=pool.guid,
            health=health,
            size=space.raw,
            allocated=space.allocated,
            free=max(0, space.raw - space.allocated),
            ashift=int(pool.properties.get("ashift", "12")),
            autotrim=pool.properties.get("autotrim") == "on",
            failmode=pool.properties.get("failmode", "wait"),
            status=status.get(health, _DEGRADED_TEXT),
            action="" if health == Health.ONLINE else "Replace the device using 'zpool replace'.",
            scan=self._report_scan(pool),
            vdevs=tuple(self._report_top(pool, top) for top in pool.tops)
            + tuple(self._report_spare(pool, s) for s in pool.spares),
            bclone_used=used,
            bclone_saved=saved,
            features=dict(pool.features),
        )

    def _report_top(self, pool: PoolState, top: Top) -> Vdev:
        leaves = tuple(self._report_leaf(leaf, top.role) for leaf in top.leaves)
        if pool.trimming:
            leaves = tuple(replace(leaf, trim="active") for leaf in leaves)
        if top.redundancy == Redundancy.STRIPE:
            return leaves[0]
        kind = "mirror" if top.redundancy == Redundancy.MIRROR else "raidz"
        size, all_sizes = top_size(top, self.machine.devices), self.space_of(pool).raw or 1
        return Vdev(
            name=f"{top.redundancy.value}-{top.index}",
            kind=kind,
            guid=top.guid,
            health=self._top_health(top),
            role=top.role,
            size=size,
            allocated=self.space_of(pool).allocated * size // all_sizes if top.role == Role.DATA else 0,
            vdevs=leaves,
        )

    def _report_leaf(self, leaf: Leaf, role: Role) -> Vdev:
        if leaf.replaced_by is not None:
            both = (self._report_device(leaf, role), self._report_leaf(leaf.replaced_by, role))
            health = Health.ONLINE if all(vdev.health == Health.ONLINE for vdev in both) else Health.DEGRADED
            return Vdev(name="replacing-0", kind="replacing", guid=leaf.guid ^ 1, health=health, role=role, vdevs=both)
        return self._report_device(leaf, role)

    def _report_device(self, leaf: Leaf, role: Role) -> Vdev:
        device = self.machine.devices.get(leaf.path)
        return Vdev(
            name=leaf.path,
            kind="disk",
            guid=leaf.guid,
            health=self._leaf_health(leaf),
            role=role,
            path=leaf.path,
            size=device.size if device else 0,
            read_errors=leaf.read_errors,
            write_errors=leaf.write_errors,
            checksum_errors=leaf.checksum_errors,
        )

    def _report_spare(self, pool: PoolState, leaf: Leaf) -> Vdev:
        used = any(other is not leaf and other.path == leaf.path for top in pool.tops for other in top.devices())
        health = Health.IN_USE if used else Health.AVAILABLE if self._works(leaf) else Health.UNAVAILABLE
        return Vdev(name=leaf.path, kind="disk", guid=leaf.guid, health=health, role=Role.SPARE, path=leaf.path)

    # --- health

    def _works(self, leaf: Leaf) -> bool:
        device = self.machine.devices.get(leaf.path)
        return device is not None and device.present and not leaf.offline and not leaf.faulted

    def _leaf_health(self, leaf: Leaf) -> Health:
        device = self.machine.devices.get(leaf.path)
        if leaf.offline:
            return Health.OFFLINE
        if device is None or not device.present:
            return Health.UNAVAILABLE
        return Health.FAULTED if leaf.faulted else Health.ONLINE

    def _top_health(self, top: Top, without: Leaf | None = None) -> Health:
        good = [leaf is not without and self._works(leaf) for leaf in top.leaves]
        failed = good.count(False)
        tolerated = {Redundancy.MIRROR: len(good) - 1, Redundancy.STRIPE: 0}.get(top.redundancy, _PARITY.get(top.redundancy, 0))
        if failed > tolerated:
            return Health.UNAVAILABLE
        return Health.DEGRADED if failed or any(leaf.replaced_by for leaf in top.leaves) and not all(good) else Health.ONLINE

    def _health(self, pool: PoolState) -> Health:
        healths = [self._top_health(top) for top in pool.tops if top.role not in {Role.CACHE, Role.LOG}]
        if Health.UNAVAILABLE in healths:
            return Health.UNAVAILABLE
        logs = [self._top_health(top) for top in pool.tops if top.role == Role.LOG]
        return Health.ONLINE if {*healths, *logs} <= {Health.ONLINE} else Health.DEGRADED

    # --- scans

    def _finish_scan(self, pool: PoolState) -> None:
        """Ends the scan if its time is over."""
        scan = pool.scan
        if scan is None or scan.resumed is None:
            return
        if scan.done_seconds + self.clock() - scan.resumed >= scan.seconds:
            scan.ended = scan.resumed + scan.seconds - scan.done_seconds
            scan.done_seconds, scan.resumed = scan.seconds, None
            if scan.function == "resilver":
                for top in pool.tops:
                    top.leaves = [self._newest(leaf) for leaf in top.leaves]
            self.changed(pool)

    def _newest(self, leaf: Leaf) -> Leaf:
        return self._newest(leaf.replaced_by) if leaf.replaced_by is not None and self._works(leaf.replaced_by) else leaf

    def _report_scan(self, pool: PoolState) -> Scan | None:
        scan = pool.scan
        if scan is None:
            return None
        done = scan.done_seconds + (self.clock() - scan.resumed if scan.resumed is not None else 0)
        part = min(1.0, done / scan.seconds) if scan.seconds else 1.0
        if scan.canceled:
            state = ScanState.CANCELED
        elif scan.ended is not None:
            state = ScanState.FINISHED
        else:
            state = ScanState.SCANNING if scan.resumed is not None else ScanState.PAUSED
        issued = int(scan.to_examine * part)
        return Scan(
            function=scan.function,
            state=state,
            started=int(scan.started),
            ended=int(scan.ended) if scan.ended is not None else None,
            to_examine=scan.to_examine,
            issued=issued,
            repaired=issued if scan.function == "resilver" else 0,
        )

    def _start_scan(self, pool: PoolState, function: str) -> None:
        size = self.space_of(pool).allocated
        seconds = max(self.scan_seconds, size / self.scan_bytes_per_second)
        pool.scan = RunningScan(function, self.clock(), seconds, size, resumed=self.clock())
        self.changed(pool)
        self._finish_scan(pool)

    def _running_scrub(self, name: str) -> tuple[PoolState, RunningScan]:
        pool = self.pool_state(name)
        self._finish_scan(pool)
        if pool.scan is None or pool.scan.ended is not None or pool.scan.function != "scrub":
            raise NoScanRunning(name)
        return pool, pool.scan

    @operation
    def scrub_start(self, pool: str) -> None:
        state = self.pool_state(pool)
        self._finish_scan(state)
        scan = state.scan
        if scan is not None and scan.ended is None:
            if scan.resumed is not None:
                raise ScanRunning(pool, scan.function)
            scan.resumed = self.clock()
            self.changed()
            return
        self._start_scan(state, "scrub")

    @operation
    def scrub_pause(self, pool: str) -> None:
        _, scan = self._running_scrub(pool)
        if scan.resumed is None:
            raise NoScanRunning(pool)
        scan.done_seconds += self.clock() - scan.resumed
        scan.resumed = None
        self.changed()

    @operation
    def scrub_stop(self, pool: str) -> None:
        _, scan = self._running_scrub(pool)
        if scan.resumed is not None:
            scan.done_seconds += self.clock() - scan.resumed
        scan.resumed, scan.ended, scan.canceled = None, self.clock(), True
        self.changed()

    # --- create, add vdevs

    @operation
    def create_pool(
        self,
        name: str,
        vdevs: Sequence[VdevSpec],
        *,
        properties: Mapping[str, str] | None = None,
        filesystem_properties: Mapping[str, str] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> tuple[str, ...]:
        names.pool_name(name)
        check_layout(vdevs, whole_pool=True)
        check_pool_properties(properties or {})
        local = {"mountpoint": "none"} | dict(filesystem_properties or {})
        check_properties(local, On.FILESYSTEM)
        if any(pool.imported and pool.name == name for pool in self.machine.pools):
            raise PoolExists(name)
        self._check_devices(vdevs, force=force)
        self._check_replication(vdevs, None, force=force)
        layout = plan_lines(name, vdevs)
        if dry_run:
            return layout
        self._forget_old_pools(device for spec in vdevs for device in spec.devices)
        features = {name: FeatureState.ACTIVE if name in _ACTIVE else FeatureState.ENABLED for name in FEATURES}
        root = DatasetState(self.new_guid(), 1, self.now(), local=without_none(local), blocks=((1, NEW_FILESYSTEM_BYTES),))
        made = PoolState(name, self.new_guid(), [], [], {"ashift": "12"} | dict(properties or {}), features, {"": root})
        self._extend(made, vdevs)
        self.machine.pools.append(made)
        root.mounted = self.mounts_itself(made, "")
        self.changed(made)
        return layout

    @operation
    def add_vdevs(self, pool: str, vdevs: Sequence[VdevSpec], *, force: bool = False, dry_run: bool = False) -> tuple[str, ...]:
        check_layout(vdevs, whole_pool=False)
        state = self.pool_state(pool)
        self._check_devices(vdevs, force=force)
        self._check_replication(vdevs, state, force=force)
        lines = [line for top in state.tops for line in self._lines(top)]
        layout = (pool, *lines, *plan_lines(pool, vdevs, len(state.tops))[1:])
        if not dry_run:
            self._forget_old_pools(device for spec in vdevs for device in spec.devices)
            self._extend(state, vdevs)
            self.changed(state)
        return layout

    def _lines(self, top: Top) -> list[str]:
        paths = [leaf.path for leaf in top.leaves]
        if top.redundancy == Redundancy.STRIPE:
            return [f"  {path}" for path in paths]
        return [f"  {top.redundancy.value}-{top.index}", *(f"    {path}" for path in paths)]

    def _extend(self, pool: PoolState, vdevs: Sequence[VdevSpec]) -> None:
        for spec in vdevs:
            leaves = [Leaf(path, self.new_guid()) for path in spec.devices]
            if spec.role == Role.SPARE:
                pool.spares += leaves
                continue
            for group in [[leaf] for leaf in leaves] if spec.redundancy == Redundancy.STRIPE else [leaves]:
                index = max((top.index for top in pool.tops), default=-1) + 1
                pool.tops.append(Top(index, self.new_guid(), spec.role, spec.redundancy, group))

    def _check_devices(self, vdevs: Sequence[VdevSpec], *, force: bool) -> None:
        for spec in vdevs:
            for path in spec.devices:
                device = self._free_device(path, force=force)
                if device.size < MIN_DEVICE_BYTES:
                    raise DeviceTooSmall(path)
            sizes = {self.machine.devices[path].size for path in spec.devices}
            if len(sizes) > 1 and spec.redundancy != Redundancy.STRIPE and not force:
                raise InvalidLayout(f"{spec.redundancy.value} contains devices of different sizes", can_force=True)

    def _free_device(self, path: str, *, force: bool) -> Device:
        device = self.machine.devices.get(path)
        if device is None or not device.present:
            raise NoSuchDevice(path)
        for pool in self.machine.pools:
            if any(leaf.path == path for leaf in pool.devices()) and (pool.imported or not force):
                kind = "is part of active pool" if pool.imported else "is part of exported pool"
                raise DeviceInUse(path, f"{kind} {pool.name}", can_force=not pool.imported)
        if device.used_by and (device.used_by.startswith(IN_USE) or not force):
            raise DeviceInUse(path, device.used_by, can_force=not device.used_by.startswith(IN_USE))
        return device

    def _check_replication(self, vdevs: Sequence[VdevSpec], pool: PoolState | None, *, force: bool) -> None:
        shapes = {
            (spec.redundancy, len(spec.devices) if spec.redundancy != Redundancy.STRIPE else 1)
            for spec in vdevs
            if spec.role == Role.DATA
        }
        if shapes and pool is not None:
            shapes |= {(top.redundancy, len(top.leaves)) for top in pool.tops if top.role == Role.DATA}
        if len(shapes) > 1 and not force:
            mixed = " and ".join(sorted(f"{redundancy.value} of {count}" for redundancy, count in shapes))
            raise InvalidLayout(f"mismatched replication level: {mixed}", can_force=True)

    def _forget_old_pools(self, paths: object) -> None:
        taken = set(paths)  # type: ignore[call-overload]
        self.machine.pools = [p for p in self.machine.pools if p.imported or not taken & {leaf.path for leaf in p.devices()}]
        for path in taken:
            self.machine.devices[path].used_by = None

    # --- devices

    def _device(self, pool: PoolState, device: str) -> tuple[Top, int, Leaf]:
        for top in pool.tops:
            for index, leaf in enumerate(top.leaves):
                if device in {leaf.path, str(leaf.guid)}:
                    return top, index, leaf
        raise NoSuchDevice(device, pool.name)

    @operation
    def remove_vdev(self, pool: str, device: str) -> None:
        state = self.pool_state(pool)
        for spare in state.spares:
            if device in {spare.path, str(spare.guid)}:
                state.spares.remove(spare)
                self.changed(state)
                return
        named = (top for top in state.tops if device in {f"{top.redundancy.value}-{top.index}", str(top.guid)})
        top = next(named, None) or self._device(state, device)[0]
        if top.role not in {Role.CACHE, Role.LOG}:
            raise NotSupported(f"{device} is neither a spare nor a cache or log device")
        state.tops.remove(top)
        self.changed(state)

    @operation
    def replace(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        state = self.pool_state(pool)
        self._finish_scan(state)
        top, _, leaf = self._device(state, device)
        spare = next((spare for spare in state.spares if spare.path == new_device), None)
        new = self.machine.devices[new_device] if spare is not None else self._free_device(new_device, force=force)
        if leaf.replaced_by is not None:
            raise ScanRunning(pool, "resilver")
        old = self.machine.devices.get(leaf.path)
        if new.size < (min(self.machine.devices[other.path].size for other in top.leaves) if old is None else old.size):
            raise DeviceTooSmall(new_device)
        self._forget_old_pools([new_device])
        if spare is not None:
            state.spares.remove(spare)
        leaf.replaced_by = Leaf(new_device, self.new_guid())
        self._start_scan(state, "resilver")

    @operation
    def attach(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        state = self.pool_state(pool)
        self._finish_scan(state)
        top, _, leaf = self._device(state, device)
        if top.redundancy not in {Redundancy.MIRROR, Redundancy.STRIPE}:
            raise NotSupported(f"{device} is part of {top.redundancy.value}: only mirrors and single devices take another one")
        if self._free_device(new_device, force=force).size < self.machine.devices[leaf.path].size:
            raise DeviceTooSmall(new_device)
        self._forget_old_pools([new_device])
        top.leaves.append(Leaf(new_device, self.new_guid()))
        top.redundancy = Redundancy.MIRROR
        self._start_scan(state, "resilver")

    @operation
    def detach(self, pool: str, device: str) -> None:
        state = self.pool_state(pool)
        self._finish_scan(state)
        for top in state.tops:
            for leaf in top.leaves:
                if leaf.replaced_by is not None and device in {leaf.replaced_by.path, str(leaf.replaced_by.guid)}:
                    leaf.replaced_by = None
                    self.changed(state)
                    return
        top, index, leaf = self._device(state, device)
        if top.redundancy != Redundancy.MIRROR:
            raise NotSupported(f"{device} is not part of a mirror or a replacement")
        if self._top_health(top, without=leaf) == Health.UNAVAILABLE:
            raise InsufficientReplicas(pool, device)
        del top.leaves[index]
        if len(top.leaves) == 1:
            top.redundancy = Redundancy.STRIPE
        self.changed(state)

    @operation
    def offline(self, pool: str, device: str) -> None:
        state = self.pool_state(pool)
        top, _, leaf = self._device(state, device)
        if self._top_health(top, without=leaf) == Health.UNAVAILABLE:
            raise InsufficientReplicas(pool, device)
        leaf.offline = True
        self.changed(state)

    @operation
    def online(self, pool: str, device: str) -> None:
        state = self.pool_state(pool)
        _, _, leaf = self._device(state, device)
        was_off, leaf.offline = leaf.offline, False
        if was_off:
            self._start_scan(state, "resilver")
        else:
            self.changed(state)
        if leaf.faulted:
            raise DeviceFaulted(device, pool)

    @operation
    def clear(self, pool: str, device: str | None = None) -> None:
        state = next((p for p in self.machine.pools if p.imported and p.name == pool), None)
        if state is None:
            raise NoSuchPool(pool)
        chosen = list(state.devices()) if device is None else [self._device(state, device)[2]]
        for leaf in chosen:
            leaf.read_errors = leaf.write_errors = leaf.checksum_errors = 0
            leaf.faulted = False
        state.suspended = self._health(state) == Health.UNAVAILABLE
        self.changed(state)

    # --- import, export

    @operation
    def importable(self) -> list[ImportablePool]:
        return [
            ImportablePool(
                name=pool.name,
                guid=pool.guid,
                health=self._health(pool),
                status={Health.ONLINE: "", Health.UNAVAILABLE: _MISSING_TEXT}.get(self._health(pool), _DEGRADED_TEXT),
                last_host=pool.last_host,
                devices=tuple(leaf.path for leaf in pool.devices()),
            )
            for pool in sorted(self.machine.pools, key=lambda pool: pool.name)
            if not pool.imported
        ]

    @operation
    def import_pool(self, pool: str, *, new_name: str | None = None, force: bool = False) -> Pool:
        state = next((p for p in self.machine.pools if not p.imported and pool in {p.name, str(p.guid)}), None)
        name = names.pool_name(new_name or (state.name if state else pool))
        if any(other.imported and other.name == name for other in self.machine.pools):
            raise PoolExists(name)
        if state is None:
            raise NoSuchPool(pool)
        if state.last_host and not force:
            raise PoolInUseElsewhere(state.name, state.last_host)
        if self._health(state) not in _WORKING:
            raise PoolUnavailable(state.name, "devices are missing")
        if any(self._top_health(top) == Health.UNAVAILABLE for top in state.tops if top.role == Role.LOG):
            raise PoolUnavailable(state.name, "its log device is missing")
        state.name, state.imported, state.last_host = name, True, None
        state.properties["failmode"] = "wait"
        self.touched()
        for dataset in state.datasets.values():
            dataset.mounted = False
        self.changed(state)
        return self._report(state)

    def _unused_pool(self, pool: str, *, force: bool) -> PoolState:
        state = self.pool_state(pool)
        for path, dataset in state.datasets.items():
            if dataset.holders and not (force and not dataset.is_volume):
                raise DatasetBusy(state.full_name(path), tuple(dataset.holders))
        return state

    @operation
    def destroy_pool(self, pool: str) -> None:
        state = self._unused_pool(pool, force=False)
        self.machine.pools.remove(state)
        self.changed()

    @operation
    def trim_start(self, pool: str) -> None:
        """Trims until `trim_stop`."""
        state = self.pool_state(pool)
        if state.trimming:
            raise ScanRunning(pool, "trim")
        state.trimming = True
        self.changed(state)

    @operation
    def trim_stop(self, pool: str) -> None:
        state = self.pool_state(pool)
        if not state.trimming:
            raise NoScanRunning(pool)
        state.trimming = False
        self.changed(state)

    @operation
    def export_pool(self, pool: str, *, force: bool = False) -> None:
        state = self._unused_pool(pool, force=force)
        for dataset in state.datasets.values():
            dataset.mounted = False
            dataset.key_loaded = False
        state.imported = False
        self.changed(state)

    @operation
    def upgrade_pool(self, pool: str) -> tuple[str, ...]:
        state = self.pool_state(pool)
        missing = tuple(name for name in FEATURES if state.features.get(name, FeatureState.DISABLED) == FeatureState.DISABLED)
        for name in missing:
            state.features[name] = FeatureState.ENABLED
        if missing:
            self.changed(state)
        return missing


def plan_lines(pool: str, vdevs: Sequence[VdevSpec], first_index: int = 0) -> tuple[str, ...]:
    """The layout as `zpool create -n` prints it."""
    lines, index = [pool], first_index
    for role in Role:
        chosen = [vdev for vdev in vdevs if vdev.role == role]
        if chosen and role != Role.DATA:
            lines.append(
                "logs" if role == Role.LOG else role.value if role in {Role.CACHE, Role.SPECIAL, Role.DEDUP} else "spares"
            )
        for vdev in chosen:
            if vdev.redundancy == Redundancy.STRIPE:
                lines += [f"  {device}" for device in vdev.devices]
                index += len(vdev.devices)
            else:
                lines += [f"  {vdev.redundancy.value}-{index}", *(f"    {device}" for device in vdev.devices)]
                index += 1
    return tuple(lines)
