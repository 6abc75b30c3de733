# SPDX-License-Identifier: Apache-2.0
"""ZfsEngine: the appliance's interface to OpenZFS.

Implementations: `kernel` (pyzfs and zfs -j; root only, inside the helper), `appliance.helper.client` (the same over the helper's
socket) and `simulator` (in memory). tests/ has the contract that all of them pass.

Every method is one blocking operation, which is done when it returns. Methods are thread-safe, and end within the engine's time
limits (Timeout). Any method raises PoolUnavailable for a suspended pool, EngineUnavailable without OpenZFS, PoolBusy while
another change of the pool runs, InvalidName for a name that ZFS does not allow, and NoSuchPool for a pool that is not imported;
they are not repeated below. Lists without a root (volumes, filesystems, snapshots) leave suspended pools out: `pools` has them. A
method that raises has changed nothing, unless the error says otherwise.
"""

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
    Pool,
    Properties,
    Snapshot,
    VdevSpec,
    Volume,
)

KEY_BYTES = 32
"""Key length of an encryption root (zfsprops(7), keyformat=raw)."""
LONGEST_STATUS = 256 << 10
"""A device takes a line; the names of damaged files are unlimited."""


class ZfsEngine(ABC):
    # --- pools: zpool(8)

    @abstractmethod
    def disks(self) -> list[Disk]:
        """All block devices usable for pools, free or not; no zvols, loops or memory disks. Sorted by path."""

    @abstractmethod
    def disk_health(self, device: str) -> DiskHealth:
        """SMART data of a disk, by path or kernel name; does not wake a sleeping disk. Raises NoSuchDevice."""

    @abstractmethod
    def pools(self) -> list[Pool]:
        """All imported pools with their vdevs, last scan and space. Includes suspended pools. Sorted by name."""

    @abstractmethod
    def zpool_status(self, pool: str) -> str:
        """The first LONGEST_STATUS characters of zpool-status(8), also of a suspended pool.

        Raises NoSuchPool.
        """

    def pool(self, name: str) -> Pool:
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
    ) -> tuple[str, ...]:
        """Creates a pool; its root file system gets `filesystem_properties` (default mountpoint=none).

        Returns the lines of the resulting layout, indented as `zpool status` prints them.

        `force` overrides DeviceInUse and InvalidLayout with `can_force`, but never for a device that is in use.
        Raises PoolExists, NoSuchDevice, DeviceInUse, InvalidLayout, InvalidProperty, DeviceTooSmall.
        """

    @abstractmethod
    def add_vdevs(self, pool: str, vdevs: Sequence[VdevSpec], *, force: bool = False, dry_run: bool = False) -> tuple[str, ...]:
        """Extends a pool; only spares, cache and log devices can be removed later. Returns and raises as create_pool does."""

    @abstractmethod
    def remove_vdev(self, pool: str, device: str) -> None:
        """Removes a spare, a cache or a log device; of a mirrored log the whole mirror.

        Raises NoSuchDevice, NotSupported for other devices, DatasetBusy for a spare in use, which must be detached.
        """

    @abstractmethod
    def replace(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """Starts the resilver to `new_device`; the old device leaves the pool at its end (Pool.scan).

        `device` is the name or decimal GUID in Vdev. Raises NoSuchDevice, DeviceInUse, DeviceTooSmall.
        """

    @abstractmethod
    def attach(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """Adds a device to a mirror, or makes a single device a mirror, and starts the resilver.

        Raises NoSuchDevice, DeviceInUse, DeviceTooSmall, NotSupported (raidz).
        """

    @abstractmethod
    def detach(self, pool: str, device: str) -> None:
        """Detaches a device from a mirror, or the new or old device from a replacement: a spare then stays, or becomes free.

        Raises NoSuchDevice, InsufficientReplicas, NotSupported.
        """

    @abstractmethod
    def offline(self, pool: str, device: str) -> None:
        """Stops using a device until `online`, also after a reboot. Raises NoSuchDevice, InsufficientReplicas."""

    @abstractmethod
    def online(self, pool: str, device: str) -> None:
        """Uses a device again and resilvers its missing data. Raises NoSuchDevice, DeviceFaulted."""

    @abstractmethod
    def clear(self, pool: str, device: str | None = None) -> None:
        """Sets the error counters of a device or all devices to 0, and resumes a suspended pool. Raises NoSuchDevice."""

    @abstractmethod
    def scrub_start(self, pool: str) -> None:
        """Starts a scrub, or resumes a paused one. Raises ScanRunning."""

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
    def import_pool(self, pool: str, *, new_name: str | None = None, force: bool = False) -> Pool:
        """Imports a pool by name or decimal GUID. Mounts no file system and loads no key.

        Raises PoolExists when the name is taken, PoolInUseElsewhere (`force` overrides), PoolUnavailable (devices are missing).
        """

    @abstractmethod
    def export_pool(self, pool: str, *, force: bool = False) -> None:
        """Unmounts the file systems and releases the devices. `force` also unmounts file systems in use. Raises DatasetBusy."""

    @abstractmethod
    def destroy_pool(self, pool: str) -> None:
        """Destroys the pool with its content. Raises DatasetBusy while a program uses it, HoldersUnknown."""

    @abstractmethod
    def trim_start(self, pool: str) -> None:
        """Starts TRIM of the free blocks on all devices, in the background (Vdev.trim). Raises ScanRunning, NotSupported."""

    @abstractmethod
    def trim_stop(self, pool: str) -> None:
        """Cancels TRIM. Raises NoScanRunning."""

    @abstractmethod
    def upgrade_pool(self, pool: str) -> tuple[str, ...]:
        """Enables all features of this OpenZFS; returns the new ones. Older versions cannot import the pool afterwards."""

    # --- datasets: zfs(8)

    @abstractmethod
    def datasets(self, root: str | None = None) -> DatasetList:
        """All file systems and volumes, or those at and below `root`, in one call. Raises NoSuchDataset for `root`."""

    def volumes(self, root: str | None = None) -> list[Volume]:
        return self.datasets(root).volumes

    def filesystems(self, root: str | None = None) -> list[Filesystem]:
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
    ) -> Volume:
        """Creates a volume with its properties in one step. The parent must exist.

        `volsize` is a multiple of `volblocksize`. `thick` sets the refreservation as `zfs create` does: size and metadata.
        Raises DatasetExists, NoSuchDataset (parent), InvalidProperty (also for volsize), OutOfSpace, KeyNotLoaded (parent).
        """

    @abstractmethod
    def create_filesystem(
        self, name: str, *, properties: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> Filesystem:
        """Creates a file system, and mounts it unless canmount is off or noauto. With a key it is encrypted by aes-256-gcm.

        Raises DatasetExists, NoSuchDataset (parent), InvalidProperty, OutOfSpace, KeyNotLoaded (parent), WrongKey (not 32 bytes).
        """

    @abstractmethod
    def grow_volume(self, name: str, volsize: int) -> Volume:
        """Grows a volume, and a thick volume's refreservation to what the new size needs. The same size changes nothing.

        Raises NoSuchDataset, InvalidProperty (smaller, no multiple of volblocksize), OutOfSpace.
        """

    @abstractmethod
    def destroy(self, name: str, *, with_snapshots: bool = False) -> None:
        """Destroys a file system or volume, and with `with_snapshots` its snapshots; never children or clones.

        Raises NoSuchDataset, HasDependants, DatasetBusy, SnapshotHeld.
        """

    @abstractmethod
    def dependants(self, name: str) -> list[Dependant]:
        """All dependants of a dataset or snapshot: children, snapshots, their clones, recursively. Sorted by name.

        Raises NoSuchDataset, NoSuchSnapshot.
        """

    @abstractmethod
    def holders(self, name: str) -> tuple[str, ...]:
        """Programs and devices that have a volume open or use a mounted file system. Sorted.

        Raises NoSuchDataset, and HoldersUnknown if not all programs could be examined.
        """

    @abstractmethod
    def mount(self, name: str) -> None:
        """Mounts a file system with nosuid, nodev and noexec; no error if it is mounted.

        Raises NoSuchDataset, KeyNotLoaded, NotSupported (mountpoint none or legacy, canmount off).
        """

    @abstractmethod
    def unmount(self, name: str) -> None:
        """Unmounts a file system and its children; no error if it is not mounted. Raises NoSuchDataset, DatasetBusy."""

    @abstractmethod
    def promote(self, name: str) -> None:
        """Moves the snapshots of the origin to the clone; the origin becomes a clone of it.

        Raises NoSuchDataset, NotAClone, SnapshotExists (the clone has one of the same tag).
        """

    # --- properties: zfs-set(8), zfsprops(7)

    @abstractmethod
    def properties(self, name: str) -> Properties:
        """All properties of a dataset or snapshot, native and user. Raises NoSuchDataset, NoSuchSnapshot."""

    @abstractmethod
    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Sets properties in one step: all or none. User properties are NAME:NAME, at most 256 bytes, their values 8,191.

        properties.SETTABLE has the allowed values. grow_volume sets volsize. Raises NoSuchDataset, InvalidProperty, OutOfSpace (a
        reservation; a quota below the used space).
        """

    @abstractmethod
    def inherit_property(self, name: str, property: str) -> None:
        """Removes a local value, so that the parent's applies.

        Raises NoSuchDataset, InvalidProperty.
        """

    # --- snapshots

    @abstractmethod
    def snapshots(
        self, root: str | None = None, *, recursive: bool = True, user_properties: Sequence[str] = ()
    ) -> list[Snapshot]:
        """Snapshots of all datasets, or of `root` and (`recursive`) those below, in one call, with these user properties.

        A property with the value "-" counts as unset. Sorted by dataset, then oldest first. Raises NoSuchDataset for `root`.
        """

    @abstractmethod
    def snapshot(self, snapshots: Sequence[str], *, properties: Mapping[str, str] | None = None) -> None:
        """Takes all of them (DATASET@TAG, of one pool) in one atomic step, with these user properties.

        Raises NoSuchDataset, SnapshotExists, DifferentPools, OutOfSpace (a refreservation needs space for the data of the
        snapshot).
        """

    @abstractmethod
    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        """Destroys all of them (of one pool) or none; a missing snapshot is not an error.

        Raises SnapshotHeld, HasDependants (clones), DifferentPools.
        """

    @abstractmethod
    def hold(self, snapshots: Sequence[str], tag: str) -> None:
        """Adds a hold to snapshots of one pool: all or none. Raises NoSuchSnapshot, HoldExists, DifferentPools."""

    @abstractmethod
    def release(self, snapshots: Sequence[str], tag: str) -> None:
        """Releases the hold on all or none. Raises NoSuchSnapshot, NoSuchHold, DifferentPools."""

    @abstractmethod
    def holds(self, name: str) -> list[Hold]:
        """Holds of a snapshot, sorted by tag. Raises NoSuchSnapshot."""

    @abstractmethod
    def rollback(self, name: str, *, destroy: Sequence[str] = ()) -> None:
        """Rolls the dataset back to the snapshot. Destroys the newer snapshots in `destroy` first, all or none, and then
        newer bookmarks.

        Refused while a program has the volume open: its cached data would be wrong, and its writes would land on the old data.
        A volume's size is rolled back too, its refreservation is not. What was written since needs its space once more, up to
        the refreservation.
        Raises NoSuchSnapshot, NewerSnapshots (not in `destroy`), HasDependants (clones of newer ones), SnapshotHeld, DatasetBusy,
        OutOfSpace; then nothing is destroyed.
        """

    @abstractmethod
    def clone(self, snapshot: str, name: str, *, properties: Mapping[str, str] | None = None) -> None:
        """Creates a thin clone of the snapshot, with properties inherited from its parent, and these set.

        User properties of the origin are not copied. A file system is mounted as in create_filesystem.
        Raises NoSuchSnapshot, NoSuchDataset (parent), DatasetExists, DifferentPools, InvalidProperty, OutOfSpace, KeyNotLoaded.
        """

    # --- encryption keys: zfs-load-key(8)

    @abstractmethod
    def load_key(self, name: str, key: bytes) -> None:
        """Loads the key of an encryption root, so that its volumes appear and its file systems can be mounted.

        Raises NoSuchDataset, NotEncryptionRoot, KeyLoaded (the same key is loaded), WrongKey.
        """
