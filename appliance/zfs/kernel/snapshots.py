# SPDX-License-Identifier: Apache-2.0
"""The kernel engine's snapshots, holds, rollback and clones; libzfs_core for atomic steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.zfs import errors, names
from appliance.zfs.errors import ZfsError
from appliance.zfs.kernel import commands, library, reading, room
from appliance.zfs.kernel.core import POOL_SECONDS
from appliance.zfs.kernel.datasets import Datasets, options
from appliance.zfs.kernel.messages import Request
from appliance.zfs.model import Hold, Snapshot
from appliance.zfs.properties import On, check_properties, check_user_properties

Translate = Callable[[BaseException, Any], ZfsError]


class Snapshots(Datasets):
    """zfs-snapshot(8), zfs-hold(8), zfs-rollback(8), zfs-clone(8)."""

    def snapshots(
        self, root: str | None = None, *, recursive: bool = True, user_properties: Sequence[str] = ()
    ) -> list[Snapshot]:
        check_user_properties(dict.fromkeys(user_properties, ""))
        if root is not None:
            names.dataset_name(root)
            self.need_dataset(root)
        roots = self.answering_pools() if root is None else [root]
        columns = ",".join((*reading.SNAPSHOT_COLUMNS, *user_properties))
        depth = ("-r",) if recursive else ("-d", "1")
        words = ("list", "-j", "-p", *depth, "-t", "snapshot", "-o", columns, *roots)
        # After a reboot, thousands of snapshots are read from disks that nothing is cached of.
        listed = self.datasets_json(Request("snapshots", root or ""), *words, seconds=POOL_SECONDS) if roots else {}
        if not listed and root is not None and not self.exists(root):
            raise errors.NoSuchDataset(root)
        rows = [reading.snapshot(name, entry["properties"], user_properties) for name, entry in listed.items()]
        if not recursive:
            rows = [row for row in rows if row.dataset == root]
        return sorted(rows, key=lambda row: (row.dataset, row.createtxg, row.tag))

    def _atomic(self, translate: Translate, function: str, *arguments: Any) -> None:
        """Calls libzfs_core; its first failure with a name becomes a ZfsError."""
        kinds = self._library.exceptions()
        try:
            self._library.call(function, *arguments)
        except kinds.ZFSError as problem:
            raise translate(library.failures(problem)[0], kinds) from problem

    def snapshot(self, snapshots: Sequence[str], *, properties: Mapping[str, str] | None = None) -> None:
        check_user_properties(properties or {})
        for name in snapshots:
            names.snapshot_name(name)
        self.check_one_pool(snapshots)
        if len({name.partition("@")[0] for name in snapshots}) < len(snapshots):
            raise errors.InvalidName(snapshots[0], "one step takes one snapshot of a dataset")
        if not snapshots:
            return
        self.need_dataset(snapshots[0])

        def translate(problem: BaseException, kinds: Any) -> ZfsError:
            name = library.name_of(problem, snapshots[0])
            if isinstance(problem, kinds.DatasetExists):
                return errors.SnapshotExists(name)
            missing = [dataset for name in snapshots if not self.exists(dataset := name.partition("@")[0])]
            if isinstance(problem, kinds.DatasetNotFound) or missing:
                return errors.NoSuchDataset(missing[0] if missing else name.partition("@")[0])
            return _of_space(problem, kinds, name, "snapshot")

        user = {name.encode(): value.encode() for name, value in (properties or {}).items()}
        self._atomic(translate, "lzc_snapshot", [name.encode() for name in snapshots], user)

    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        for name in snapshots:
            names.snapshot_name(name)
        self.check_one_pool(snapshots)
        if not snapshots:
            return
        self.need_pool(names.pool_of(snapshots[0]))

        def translate(problem: BaseException, kinds: Any) -> ZfsError:
            name = library.name_of(problem, snapshots[0])
            if isinstance(problem, kinds.SnapshotIsCloned):
                return errors.HasDependants(name, tuple(dependant.name for dependant in self.dependants(name))[:100])
            if isinstance(problem, kinds.SnapshotIsHeld):
                tags = self._tags(name)
                return errors.SnapshotHeld(name, tags) if tags else errors.DatasetBusy(name)
            return _of_space(problem, kinds, name, "destroy_snapshots")

        self._atomic(translate, "lzc_destroy_snaps", [name.encode() for name in dict.fromkeys(snapshots)], False)

    # --- holds

    def _need_snapshots(self, snapshots: Sequence[str]) -> None:
        """All exist, in one responsive pool: libzfs_core ignores missing ones."""
        for name in snapshots:
            names.snapshot_name(name)
        self.check_one_pool(snapshots)
        for name in snapshots:
            try:
                self.need_dataset(name)
            except errors.NoSuchDataset:
                raise errors.NoSuchSnapshot(name) from None
            if not self.exists(name):
                raise errors.NoSuchSnapshot(name)

    def hold(self, snapshots: Sequence[str], tag: str) -> None:
        names.hold_tag(tag)
        self._need_snapshots(snapshots)

        def translate(problem: BaseException, kinds: Any) -> ZfsError:
            name = library.name_of(problem, snapshots[0])
            if isinstance(problem, kinds.HoldExists):
                return errors.HoldExists(name, tag)
            return _of_space(problem, kinds, name, "hold")

        if snapshots:
            self._atomic(translate, "lzc_hold", {name.encode(): tag.encode() for name in snapshots}, None)

    def release(self, snapshots: Sequence[str], tag: str) -> None:
        names.hold_tag(tag)
        self._need_snapshots(snapshots)
        for name in snapshots:
            if tag not in self._tags(name):
                raise errors.NoSuchHold(name, tag)

        def translate(problem: BaseException, kinds: Any) -> ZfsError:
            name = library.name_of(problem, snapshots[0])
            if isinstance(problem, kinds.HoldNotFound):
                return errors.NoSuchHold(name, tag)
            return _of_space(problem, kinds, name, "release")

        if snapshots:
            self._atomic(translate, "lzc_release", {name.encode(): [tag.encode()] for name in snapshots})

    def holds(self, name: str) -> list[Hold]:
        self._need_snapshots([name])
        held: dict[bytes, int] = self._library.call("lzc_get_holds", name.encode())
        return [Hold(tag.decode(errors="replace"), int(created)) for tag, created in sorted(held.items())]

    # --- rollback, clone

    def _need_closed(self, volume: str) -> None:
        """Raises DatasetBusy while a program has the volume open, HoldersUnknown if that is unknown."""
        if self.properties(volume)["type"].value == "volume" and (who := self.holders(volume)):
            raise errors.DatasetBusy(volume, who)

    def rollback(self, name: str, *, destroy: Sequence[str] = ()) -> None:
        names.snapshot_name(name)
        dataset = name.partition("@")[0]
        try:
            listed = self.snapshots(dataset, recursive=False)
        except errors.NoSuchDataset:
            raise errors.NoSuchSnapshot(name) from None
        order = [row.name for row in listed]
        if name not in order:
            raise errors.NoSuchSnapshot(name)
        newer = tuple(order[order.index(name) + 1 :])
        if unnamed := tuple(other for other in newer if other not in destroy):
            raise errors.NewerSnapshots(name, unnamed)
        # OpenZFS would roll back an open volume under its writers.
        commands.run((commands.UDEVADM, "settle", "--timeout=5"), seconds=10)
        self._retry_busy(dataset, lambda: self._need_closed(dataset))
        self._need_room_for_rollback(dataset, name, listed[order.index(name)].referenced)
        self.destroy_snapshots(newer)
        self._destroy_newer_bookmarks(dataset, listed[order.index(name)].createtxg)
        # That may have taken long, and the caller may have given up.
        self._need_closed(dataset)

        def translate(problem: BaseException, kinds: Any) -> ZfsError:
            if isinstance(problem, kinds.DatasetBusy):
                return errors.DatasetBusy(dataset, self.who(dataset))
            if isinstance(problem, kinds.SnapshotNotLatest):
                return errors.NewerSnapshots(name, ())
            if isinstance(problem, kinds.DatasetNotFound):
                return errors.NoSuchSnapshot(name)
            return _of_space(problem, kinds, name, "rollback")

        self._atomic(translate, "lzc_rollback_to", dataset.encode(), name.encode())

    def _destroy_newer_bookmarks(self, dataset: str, createtxg: int) -> None:
        """OpenZFS refuses a rollback below a bookmark, and replication tools keep them (dsl_dataset_rollback_check)."""
        listed = self._library.call("lzc_get_bookmarks", dataset.encode(), [b"createtxg"])
        newer = [b"%s#%s" % (dataset.encode(), tag) for tag, row in listed.items() if row[b"createtxg"][b"value"] > createtxg]
        if newer:
            self._atomic(lambda problem, kinds: _of_space(problem, kinds, dataset, "rollback"), "lzc_destroy_bookmarks", newer)

    def _need_room_for_rollback(self, dataset: str, name: str, referenced: int) -> None:
        """OpenZFS reserves again what the dataset writes over, and refuses without that space: after the newer snapshots are
        destroyed, if this did not ask before (dsl_dataset_rollback_check).
        """
        written = f"written@{name.partition('@')[2]}"
        words = ("get", "-j", "-p", f"{written},refreservation,refquota,available", dataset, dataset.rpartition("/")[0])
        request = Request("rollback", name)
        answers = self.datasets_json(request, *words)

        def number(of: str, key: str) -> int:
            value = answers[of]["properties"].get(key, {}).get("value", "0")
            return int(value) if value.isdecimal() else 0

        quota = number(dataset, "refquota")
        if quota and referenced > quota:
            raise errors.OutOfSpace(name, quota=True)
        again = min(number(dataset, written), number(dataset, "refreservation"))
        if again > number(dataset.rpartition("/")[0], "available"):
            raise errors.OutOfSpace(name)

    def clone(self, snapshot: str, name: str, *, properties: Mapping[str, str] | None = None) -> None:
        names.snapshot_name(snapshot)
        names.new_dataset_name(name)
        self.check_one_pool([snapshot, name])
        self._need_snapshots([snapshot])
        kind = self.properties(snapshot.partition("@")[0])["type"].value
        check_properties(properties or {}, On.VOLUME if kind == "volume" else On.FILESYSTEM)
        request = Request("clone", snapshot, new_name=name, properties=properties or {})
        room.need(self, request, name, properties or {})
        try:
            self.zfs(request, "clone", *options(properties or {}), snapshot, name)
        except errors.OutOfSpace:
            self._undo_clone(snapshot, name)
            raise
        if kind == "volume":
            self.wait_for_devices([name])

    def _undo_clone(self, snapshot: str, name: str) -> None:
        """Destroys a clone that the kernel left without its reservation: the space was used after the check."""
        if self.exists(name) and self.properties(name)["origin"].value == snapshot:
            self.destroy(name)


def _of_space(problem: BaseException, kinds: Any, name: str, operation: str) -> ZfsError:
    if isinstance(problem, kinds.NoSpace):
        return errors.OutOfSpace(name)
    if isinstance(problem, kinds.QuotaExceeded):
        return errors.OutOfSpace(name, quota=True)
    if isinstance(problem, (kinds.SuspendedPool, kinds.ReadOnlyPool)):
        return errors.PoolUnavailable(names.pool_of(name), str(problem))
    return library.unexpected(operation, problem)
