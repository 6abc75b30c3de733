# SPDX-License-Identifier: Apache-2.0
"""ZfsEngine: the one way the appliance talks to OpenZFS.

Implementations: `kernel` (pyzfs and zfs -j; root only, inside the helper), `appliance.helper.client` (the same over the helper's
socket) and `simulator` (in memory). tests/ has the contract that all of them pass.

Every method is one operation that was done when it returns, may be called from any thread, blocks, and ends within the engine's
time limits (Timeout). Any method raises PoolUnavailable when the pool is suspended, EngineUnavailable when nobody answers,
PoolBusy while another change of the pool runs, InvalidName for a name ZFS does not allow and NoSuchPool for a pool that is not
imported; they are not repeated below. The lists of everything (volumes, filesystems, snapshots without a root) leave suspended
pools out: `pools` tells of them. Unless an error says otherwise nothing was changed by a method that raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from appliance.zfs.errors import NoSuchPool
from appliance.zfs.model import (
    DatasetList,
    Dependant,
    Disk,
    DiskHealth,
    Filesystem,
    Hold,
    ImportablePool,
    NewEncryption,
    Pool,
    PoolPlan,
    Properties,
    Snapshot,
    VdevSpec,
    Volume,
)

LONGEST_STATUS = 256 << 10
"""A device is a line; names of damaged files may be without end."""


class ZfsEngine(ABC):
    """OpenZFS, as far as the appliance needs it."""

    # --- pools: zpool(8)

    @abstractmethod
    def disks(self) -> list[Disk]:
        """All block devices that could be a pool's, whether free or not; no zvols, loops or memory disks. Sorted by path."""

    @abstractmethod
    def disk_health(self, device: str) -> DiskHealth:
        """What one of `disks`, by path or kernel's name, tells by SMART; a sleeping one is left asleep. Raises NoSuchDevice."""

    @abstractmethod
    def pools(self) -> list[Pool]:
        """All imported pools with their vdevs, last scan and space. Answers for suspended pools too. Sorted by name."""

    @abstractmethod
    def zpool_status(self, pool: str) -> str:
        """What zpool-status(8) says of it, for people: at most LONGEST_STATUS characters, its beginning. Of a suspended pool too.

        Raises NoSuchPool.
        """

    def pool(self, name: str) -> Pool:
        """One of `pools`."""
        for pool in self.pools():
            if pool.name == name:
                return pool
        raise NoSuchPool(name)

    @abstractmethod
    def create_pool(
        self,
        name: str,
        vdevs: Sequence[VdevSpec],
        *,
        properties: Mapping[str, str] | None = None,
        filesystem_properties: Mapping[str, str] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> PoolPlan:
        """Makes a pool; its root file system gets `filesystem_properties` (mountpoint=none unless told).

        `force` overrides what DeviceInUse and InvalidLayout with `can_force` say, never a device that is in use now.
        Raises PoolExists, NoSuchDevice, DeviceInUse, InvalidLayout, InvalidProperty, DeviceTooSmall.
        """

    @abstractmethod
    def add_vdevs(self, pool: str, vdevs: Sequence[VdevSpec], *, force: bool = False, dry_run: bool = False) -> PoolPlan:
        """Extends a pool; only spares, cache and log devices can be removed later. Raises as create_pool does."""

    @abstractmethod
    def remove_vdev(self, pool: str, device: str) -> None:
        """Takes a spare, a cache or a log device out of the pool, of a mirror of logs all.

        Raises NoSuchDevice, NotSupported for others, DatasetBusy for a spare that is in use: detach that one.
        """

    @abstractmethod
    def replace(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """Starts the resilver onto `new_device`; the old one leaves the pool when that is done (Pool.scan).

        `device` is the name or GUID (decimal) that Vdev tells. Raises NoSuchDevice, DeviceInUse, DeviceTooSmall.
        """

    @abstractmethod
    def attach(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """Adds a copy to a mirror, or makes one of a single device, and starts the resilver.

        Raises NoSuchDevice, DeviceInUse, DeviceTooSmall, NotSupported (raidz).
        """

    @abstractmethod
    def detach(self, pool: str, device: str) -> None:
        """Takes a device out of a mirror, or the new or old one out of a replacement: a spare stays for good, or goes back.

        Raises NoSuchDevice, InsufficientReplicas, NotSupported.
        """

    @abstractmethod
    def offline(self, pool: str, device: str) -> None:
        """Stops using a device until `online`, also after a reboot. Raises NoSuchDevice, InsufficientReplicas."""

    @abstractmethod
    def online(self, pool: str, device: str, *, expand: bool = False) -> None:
        """Uses a device again and resilvers what it missed; `expand` lets it use all its size. Raises NoSuchDevice."""

    @abstractmethod
    def clear(self, pool: str, device: str | None = None) -> None:
        """Sets the error counters to 0 and lets a suspended pool go on, of one device or all. Raises NoSuchDevice."""

    @abstractmethod
    def scrub_start(self, pool: str) -> None:
        """Starts a scrub, or goes on with a paused one. Raises ScanRunning."""

    @abstractmethod
    def scrub_pause(self, pool: str) -> None:
        """Pauses the running scrub. Raises NoScanRunning."""

    @abstractmethod
    def scrub_stop(self, pool: str) -> None:
        """Ends the running or paused scrub. Raises NoScanRunning."""

    @abstractmethod
    def importable(self) -> list[ImportablePool]:
        """Pools on the machine's devices that are not imported."""

    @abstractmethod
    def import_pool(self, pool: str, *, new_name: str | None = None, force: bool = False, mount: bool = True) -> Pool:
        """Imports by name or GUID (decimal), and mounts its file systems. No key is loaded.

        Raises PoolExists when the name is taken, PoolInUseElsewhere (`force` overrides), PoolUnavailable (devices are missing).
        """

    @abstractmethod
    def export_pool(self, pool: str, *, force: bool = False) -> None:
        """Unmounts its file systems and gives its devices free. `force` unmounts what is in use. Raises DatasetBusy."""

    @abstractmethod
    def destroy_pool(self, pool: str) -> None:
        """Destroys the pool with all that is in it. Raises DatasetBusy while a program uses it, HoldersUnknown."""

    @abstractmethod
    def trim_start(self, pool: str) -> None:
        """Tells all devices which blocks are free; goes on in the background (Vdev.trim). Raises ScanRunning, NotSupported."""

    @abstractmethod
    def trim_stop(self, pool: str) -> None:
        """Ends it. Raises NoScanRunning."""

    @abstractmethod
    def upgrade_pool(self, pool: str) -> tuple[str, ...]:
        """Enables all features of this OpenZFS and names those that were not; older ones can't import the pool afterwards."""

    # --- datasets: zfs(8)

    @abstractmethod
    def datasets(self, root: str | None = None) -> DatasetList:
        """All file systems and volumes, or those at and below `root`, in one call. Raises NoSuchDataset for `root`."""

    def volumes(self, root: str | None = None) -> list[Volume]:
        """The volumes of `datasets`."""
        return self.datasets(root).volumes

    def filesystems(self, root: str | None = None) -> list[Filesystem]:
        """The file systems of `datasets`."""
        return self.datasets(root).filesystems

    @abstractmethod
    def volume(self, name: str) -> Volume:
        """One volume. Raises NoSuchDataset."""

    @abstractmethod
    def filesystem(self, name: str) -> Filesystem:
        """One file system. Raises NoSuchDataset."""

    @abstractmethod
    def create_volume(
        self,
        name: str,
        volsize: int,
        *,
        volblocksize: int = 16384,
        thick: bool = False,
        properties: Mapping[str, str] | None = None,
        encryption: NewEncryption | None = None,
    ) -> Volume:
        """Makes a volume and sets all its properties in the same step. The dataset above has to be there.

        `volsize` is a multiple of `volblocksize`. `thick` sets the refreservation `zfs create` would: the size and its metadata.
        Raises DatasetExists, NoSuchDataset (above), InvalidProperty (also for volsize), OutOfSpace, KeyNotLoaded (above).
        """

    @abstractmethod
    def create_filesystem(
        self, name: str, *, properties: Mapping[str, str] | None = None, encryption: NewEncryption | None = None
    ) -> Filesystem:
        """Makes a file system, and mounts it where its mountpoint says, unless canmount is off or noauto.

        Raises DatasetExists, NoSuchDataset (above), InvalidProperty, OutOfSpace, KeyNotLoaded (above).
        """

    @abstractmethod
    def grow_volume(self, name: str, volsize: int) -> Volume:
        """Makes a volume larger; a thick one's refreservation grows by as much. The same size changes nothing.

        Raises NoSuchDataset, InvalidProperty (smaller, no multiple of volblocksize), OutOfSpace.
        """

    @abstractmethod
    def rename(self, name: str, new_name: str) -> None:
        """Renames a file system or volume with all below it, also from one parent to another.

        A volume that is open keeps its device node; the link /dev/zvol/NEW comes once it was closed.
        Raises NoSuchDataset (also the new parent), DatasetExists, DifferentPools, DatasetBusy (a file system in use).
        """

    @abstractmethod
    def destroy(self, name: str, *, with_snapshots: bool = False) -> None:
        """Destroys a file system or volume, and with `with_snapshots` the snapshots of it; never children or clones.

        Raises NoSuchDataset, HasDependants, DatasetBusy, SnapshotHeld.
        """

    @abstractmethod
    def dependants(self, name: str) -> list[Dependant]:
        """All that hangs on a dataset or snapshot, directly or not: children, snapshots, their clones, and so on. Sorted by name.

        Raises NoSuchDataset, NoSuchSnapshot.
        """

    @abstractmethod
    def holders(self, name: str) -> tuple[str, ...]:
        """Programs and devices that have a volume open or work in a mounted file system. Sorted.

        Raises NoSuchDataset, and HoldersUnknown when not all programs could be examined: then nothing is known.
        """

    @abstractmethod
    def mount(self, name: str) -> None:
        """Mounts a file system where its mountpoint says, nosuid, nodev and noexec; mounted already is well.

        Raises NoSuchDataset, KeyNotLoaded, NotSupported (mountpoint none or legacy, canmount off).
        """

    @abstractmethod
    def unmount(self, name: str, *, force: bool = False) -> None:
        """Unmounts it with those below it; not mounted is well. Raises NoSuchDataset, DatasetBusy."""

    @abstractmethod
    def promote(self, name: str) -> None:
        """Makes a clone the owner of the snapshots it came from; its origin becomes the clone.

        Raises NoSuchDataset, NotAClone, SnapshotExists (the clone has one of the same tag).
        """

    # --- properties: zfs-set(8), zfsprops(7)

    @abstractmethod
    def properties(self, name: str) -> Properties:
        """All properties of a dataset or snapshot, native and user. Raises NoSuchDataset, NoSuchSnapshot."""

    @abstractmethod
    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Sets them in one step: all or none.

        User properties are NAME:NAME, 256 bytes at most, their values 8,191. What may be set and to what: properties.SETTABLE.
        volsize is grow_volume's. Raises NoSuchDataset, InvalidProperty, OutOfSpace (a reservation; a quota below what is used).
        """

    @abstractmethod
    def inherit_property(self, name: str, property: str, *, received: bool = False) -> None:
        """Removes a local value; then the parent's counts, or with `received` the received one where there is one.

        Raises NoSuchDataset, InvalidProperty.
        """

    # --- snapshots

    @abstractmethod
    def snapshots(
        self, root: str | None = None, *, recursive: bool = True, user_properties: Sequence[str] = ()
    ) -> list[Snapshot]:
        """Snapshots of all datasets, or of `root` and (`recursive`) those below, in one call, with these user properties.

        A property that is "-" counts as not set here. Sorted by dataset, then oldest first. Raises NoSuchDataset for `root`.
        """

    @abstractmethod
    def snapshot(self, snapshots: Sequence[str], *, properties: Mapping[str, str] | None = None) -> None:
        """Takes all of them (DATASET@TAG, of one pool) in one atomic step, with these user properties.

        Raises NoSuchDataset, SnapshotExists, DifferentPools, OutOfSpace (a refreservation needs room for what a snapshot pins).
        """

    @abstractmethod
    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        """Destroys all of them (of one pool) or none; those that are gone already are well.

        Raises SnapshotHeld, HasDependants (clones), DifferentPools.
        """

    @abstractmethod
    def hold(self, snapshots: Sequence[str], tag: str) -> None:
        """Keeps snapshots of one pool from being destroyed: all or none. Raises NoSuchSnapshot, HoldExists, DifferentPools."""

    @abstractmethod
    def release(self, snapshots: Sequence[str], tag: str) -> None:
        """Ends the hold on all or none. Raises NoSuchSnapshot, NoSuchHold, DifferentPools."""

    @abstractmethod
    def holds(self, name: str) -> list[Hold]:
        """Holds of a snapshot, sorted by tag. Raises NoSuchSnapshot."""

    @abstractmethod
    def rollback(self, name: str, *, destroy: Sequence[str] = ()) -> None:
        """Puts the dataset back to the snapshot. Newer ones that `destroy` names are destroyed first, all or none.

        What programs have in memory of the dataset's data is wrong afterwards, and writes under way would land on the old
        data: refused while somebody has the volume open. A volume's size goes back too, its refreservation stays as it is.
        Raises NoSuchSnapshot, NewerSnapshots (not named), HasDependants (clones of newer ones), SnapshotHeld, DatasetBusy.
        """

    @abstractmethod
    def clone(self, snapshot: str, name: str, *, properties: Mapping[str, str] | None = None) -> None:
        """Makes a dataset of the snapshot's kind and content, thin, with its properties inherited from its parent, and these set.

        User properties of the origin are not copied. A file system is mounted as in create_filesystem.
        Raises NoSuchSnapshot, NoSuchDataset (above), DatasetExists, DifferentPools, InvalidProperty, OutOfSpace, KeyNotLoaded.
        """

    # --- encryption keys: zfs-load-key(8)

    @abstractmethod
    def load_key(self, name: str, key: bytes) -> None:
        """Loads the key of an encryption root; volumes below appear, file systems can be mounted.

        Raises NoSuchDataset, NotEncryptionRoot, KeyLoaded, WrongKey.
        """

    @abstractmethod
    def unload_key(self, name: str) -> None:
        """Forgets the key. Raises NoSuchDataset, NotEncryptionRoot, KeyNotLoaded, DatasetBusy (mounted or open)."""
