# SPDX-License-Identifier: Apache-2.0
"""The kernel engine's pools: zpool(8)."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence

from appliance.zfs import errors, names
from appliance.zfs.engine import LONGEST_STATUS, ZfsEngine
from appliance.zfs.kernel import commands, messages, reading, smart
from appliance.zfs.kernel.core import POOL_SECONDS, READ_SECONDS
from appliance.zfs.kernel.datasets import assignments
from appliance.zfs.kernel.disks import disks, paths_of
from appliance.zfs.kernel.messages import Request
from appliance.zfs.kernel.snapshots import Snapshots
from appliance.zfs.layout import check_layout, device_path
from appliance.zfs.model import (
    Disk,
    DiskHealth,
    FeatureState,
    Health,
    ImportablePool,
    Pool,
    Redundancy,
    Role,
    ScanState,
    Vdev,
    VdevSpec,
)
from appliance.zfs.properties import On, check_pool_properties, check_properties


class KernelEngine(Snapshots, ZfsEngine):
    """OpenZFS of this machine's kernel. Only for root; other users need the helper."""

    # --- reports

    def disks(self) -> list[Disk]:
        return disks(self.pools())

    def disk_health(self, device: str) -> DiskHealth:
        for path in paths_of(device):
            health = smart.health(path)
            if not health.unanswered:
                break
        return health

    def pools(self) -> list[Pool]:
        request = Request("pools")
        status = commands.json_of(self.zpool(request, "status", "-j", "-p", "-P", "-t", seconds=READ_SECONDS), "pools")
        listed = commands.json_of(self.zpool(request, "list", "-j", "-p", "-o", "all", seconds=READ_SECONDS), "pools")
        statuses, properties = status.get("pools", {}), listed.get("pools", {})
        return [
            reading.pool(name, statuses[name], properties[name]["properties"]) for name in sorted(statuses) if name in properties
        ]

    def zpool_status(self, pool: str) -> str:
        """Names of damaged files (-v) are read from the pool, so not for a suspended one."""
        names.dataset_name(pool)
        files = ["-v"] if pool in self.answering_pools() else []
        request = Request("read the status", pool)
        output = self.zpool(request, "status", "-P", "-i", "-s", "-t", *files, pool, seconds=READ_SECONDS)
        return output[:LONGEST_STATUS].decode(errors="replace")

    # --- create, add vdevs

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
        root = {"mountpoint": "none"} | dict(filesystem_properties or {})
        check_properties(root, On.FILESYSTEM)
        with contextlib.suppress(errors.NoSuchPool):
            self.need_pool(name)
            raise errors.PoolExists(name)
        options = [word for key, value in (properties or {}).items() for word in ("-o", f"{key}={value}")]
        options += [word for assignment in assignments(root) for word in ("-O", assignment)]
        return self._extend("create", name, options, vdevs, force=force, dry_run=dry_run)

    def add_vdevs(self, pool: str, vdevs: Sequence[VdevSpec], *, force: bool = False, dry_run: bool = False) -> tuple[str, ...]:
        check_layout(vdevs, whole_pool=False)
        self._need(pool)
        return self._extend("add", pool, [], vdevs, force=force, dry_run=dry_run)

    def _extend(
        self, verb: str, pool: str, options: Sequence[str], vdevs: Sequence[VdevSpec], *, force: bool, dry_run: bool
    ) -> tuple[str, ...]:
        words = (verb, *(("-f",) if force else ()), *options)
        request = Request(f"{verb} pool", pool)
        specs = words_of(vdevs)
        planned = self.zpool(request, words[0], "-n", *words[1:], pool, *specs, seconds=POOL_SECONDS).decode(errors="replace")
        lines = tuple(line.removeprefix("\t").rstrip() for line in planned.splitlines() if line.startswith("\t"))
        if not dry_run:
            self.zpool(request, *words, pool, *specs, seconds=POOL_SECONDS)
        return lines

    # --- devices

    def _need(self, pool: str) -> None:
        names.dataset_name(pool)
        self.need_pool(pool)

    def _change(self, pool: str, device: str, *words: str) -> None:
        self._need(pool)
        part = self._part(pool, device)
        request = Request(words[0], pool, device=device)
        self.zpool(request, *words, pool, part, seconds=POOL_SECONDS)

    def _part(self, pool: str, device: str) -> str:
        """zpool's name of a device, given by name, path or GUID."""
        vdev = self._vdev(pool, device)
        return vdev.path if vdev.role == Role.SPARE and vdev.path else str(vdev.guid)

    def _vdev(self, pool: str, device: str) -> Vdev:
        def all_of(vdevs: tuple[Vdev, ...]) -> list[Vdev]:
            return [part for vdev in vdevs for part in (vdev, *all_of(vdev.vdevs))]

        for vdev in all_of(self.pool(pool).vdevs):
            if device in {vdev.name, vdev.path, vdev.was, str(vdev.guid)}:
                return vdev
        raise errors.NoSuchDevice(device, pool)

    def remove_vdev(self, pool: str, device: str) -> None:
        self._need(pool)
        for vdev in self.pool(pool).vdevs:
            below = {name for part in (vdev, *vdev.devices()) for name in (part.name, part.path, part.was, str(part.guid))}
            if device not in below:
                continue
            if vdev.role not in {Role.SPARE, Role.CACHE, Role.LOG}:
                raise errors.NotSupported(f"{device} is neither a spare nor a cache or log device")
            if vdev.health == Health.IN_USE:
                raise errors.DatasetBusy(device, ("it is in use as a spare; detach it, or the device that it replaces",))
            self._change(pool, str(vdev.guid), "remove")
            return
        raise errors.NoSuchDevice(device, pool)

    def replace(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        self._add_device("replace", pool, device, new_device, force=force)

    def attach(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        self._add_device("attach", pool, device, new_device, force=force)

    def _add_device(self, verb: str, pool: str, device: str, new_device: str, *, force: bool) -> None:
        device_path(new_device)
        self._need(pool)
        part = self._part(pool, device)
        request = Request(verb, pool, device=new_device)
        self.zpool(request, verb, *(("-f",) if force else ()), pool, part, new_device, seconds=POOL_SECONDS)

    def detach(self, pool: str, device: str) -> None:
        self._change(pool, device, "detach")

    def offline(self, pool: str, device: str) -> None:
        self._change(pool, device, "offline")

    def online(self, pool: str, device: str) -> None:
        """Also expands it. libzfs (zpool_vdev_online) finds a whole disk that may expand only by its name.

        It opens that disk for writing. udev then reads the partitions again, just when OpenZFS opens the first one.
        """
        self._need(pool)
        vdev = self._vdev(pool, device)
        part, disk = str(vdev.guid), names.whole_disk(vdev.path or "")
        request, words = Request("online", pool, device=device), ("online", "-e", pool)
        try:
            printed = self.zpool(request, *words, part, seconds=POOL_SECONDS)
        except errors.NoSuchDevice:
            if disk is None:
                raise
            printed = self.zpool(request, *words, disk, seconds=POOL_SECONDS)
            if b"no longer present" in printed:
                commands.run((commands.UDEVADM, "settle", "--timeout=5"), seconds=10)
                self.zpool(request, "clear", pool, part, seconds=POOL_SECONDS)
                if self._vdev(pool, part).health == Health.ONLINE:
                    return
        if b"remains in faulted state" in printed:  # zpool ends with 0
            raise errors.DeviceFaulted(vdev.path or device, pool)

    def clear(self, pool: str, device: str | None = None) -> None:
        names.dataset_name(pool)
        part = (self._part(pool, device),) if device is not None else ()
        self.zpool(Request("clear", pool, device=device or ""), "clear", pool, *part, seconds=POOL_SECONDS)

    # --- scrub

    def scrub_start(self, pool: str) -> None:
        self._need(pool)
        self.zpool(Request("scrub", pool), "scrub", pool)

    def scrub_pause(self, pool: str) -> None:
        self._scrub(pool, "-p", {ScanState.SCANNING})

    def scrub_stop(self, pool: str) -> None:
        self._scrub(pool, "-s", {ScanState.SCANNING, ScanState.PAUSED})

    def _scrub(self, pool: str, option: str, states: set[ScanState]) -> None:
        self._need(pool)
        # Without a running scrub zpool reports no error.
        scan = self.pool(pool).scan
        if scan is None or scan.function != "scrub" or scan.state not in states:
            raise errors.NoScanRunning(pool)
        self.zpool(Request("scrub", pool), "scrub", option, pool)

    # --- import, export

    def importable(self) -> list[ImportablePool]:
        result = commands.run((commands.ZPOOL, "import", *self._search), seconds=POOL_SECONDS)
        if result.status != 0 and "no pools available" not in result.complaint:
            raise messages.translate(Request("importable"), result.complaint)
        return reading.importable(result.output.decode(errors="replace"))

    def import_pool(self, pool: str, *, new_name: str | None = None, force: bool = False) -> Pool:
        if not pool.isdecimal():
            names.dataset_name(pool)
        if new_name is not None:
            names.pool_name(new_name)
        # TrueNAS sets failmode=continue: then hosts get errors while devices are lost. Read-only pools ignore the option.
        options = ("-N", "-o", "failmode=wait", *(("-f",) if force else ()), *self._search)
        request = Request("import", pool, new_name=new_name or pool)
        taken = {imported.name for imported in self.pools()}
        if (new_name or pool) in taken:
            raise errors.PoolExists(new_name or pool)
        words = (*options, pool, *((new_name,) if new_name else ()))
        result = commands.run((commands.ZPOOL, "import", *words), seconds=POOL_SECONDS)
        if result.status != 0:
            error = messages.translate(request, result.complaint)
            if isinstance(error, errors.PoolUnavailable) and b"use '-m'" in result.output:
                remedy = f"Connect it. If it is lost, run as root: zpool import -m {shlex.join(words)}"
                error.reason = f"its log device is missing. {remedy}. The last writes of hosts are lost then"
            raise error
        for imported in self.pools():
            if imported.name == (new_name or pool) or str(imported.guid) == pool:
                return imported
        raise errors.NoSuchPool(new_name or pool)

    def export_pool(self, pool: str, *, force: bool = False) -> None:
        self._release(pool, "export", *(("-f",) if force else ()))

    def destroy_pool(self, pool: str) -> None:
        self._release(pool, "destroy")

    def _release(self, pool: str, *words: str) -> None:
        """Runs `zpool WORDS POOL` if no program uses the pool."""
        self._need(pool)
        volumes = [volume.name for volume in self.volumes(pool)]
        # OpenZFS 2.3 waits in the kernel without limit for each open volume, and blocks new opens.
        commands.run((commands.UDEVADM, "settle", "--timeout=5"), seconds=10)
        self._check_unused(volumes)
        request = Request(words[0], pool)
        try:
            self.zpool(request, *words, pool, seconds=POOL_SECONDS)
        except errors.DatasetBusy:
            self._check_unused([filesystem.name for filesystem in self.filesystems(pool) if filesystem.mounted])
            raise

    def _check_unused(self, datasets: Sequence[str]) -> None:
        for name, who in self.holders_of(datasets).items():
            if who:
                raise errors.DatasetBusy(name, who)

    def trim_start(self, pool: str) -> None:
        self._need(pool)
        self.zpool(Request("trim", pool), "trim", pool)

    def trim_stop(self, pool: str) -> None:
        self._need(pool)
        self.zpool(Request("trim", pool), "trim", "-c", pool)

    def upgrade_pool(self, pool: str) -> tuple[str, ...]:
        self._need(pool)
        before = self.pool(pool).features
        self.zpool(Request("upgrade", pool), "upgrade", pool)
        after = self.pool(pool).features
        off = FeatureState.DISABLED
        return tuple(sorted(name for name, state in after.items() if state != off and before.get(name, off) == off))


_ROLE_WORDS = {Role.LOG: "log", Role.CACHE: "cache", Role.SPARE: "spare", Role.SPECIAL: "special", Role.DEDUP: "dedup"}


def words_of(vdevs: Sequence[VdevSpec]) -> list[str]:
    """Vdevs for zpool-create(8).

    A keyword applies to all that follows. So data comes first, and single devices, which have none, before mirrors.
    OpenZFS takes the keywords of logs, caches and spares once (make_root_vdev of zpool_vdev.c).
    """
    words: list[str] = []
    role = Role.DATA
    for vdev in sorted(vdevs, key=lambda vdev: (vdev.role != Role.DATA, vdev.role, vdev.redundancy != Redundancy.STRIPE)):
        if vdev.role != role:
            role = vdev.role
            words.append(_ROLE_WORDS[role])
        if vdev.redundancy != Redundancy.STRIPE:
            words.append(vdev.redundancy.value)
        words += vdev.devices
    return words
