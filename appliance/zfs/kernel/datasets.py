# SPDX-License-Identifier: Apache-2.0
"""The kernel engine's volumes and file systems, properties and keys: zfs(8).

`zfs create` is a single call into the kernel, like libzfs_core's, and computes a thick volume's refreservation.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from appliance.zfs import errors, names
from appliance.zfs.engine import KEY_BYTES
from appliance.zfs.errors import ZfsError
from appliance.zfs.kernel import commands, library, reading, room
from appliance.zfs.kernel.commands import Json
from appliance.zfs.kernel.core import READ_SECONDS, Core
from appliance.zfs.kernel.messages import Request
from appliance.zfs.model import DatasetList, Dependant, DependantKind, Filesystem, Properties, Volume
from appliance.zfs.properties import (
    SETTABLE,
    On,
    check_properties,
    check_user_properties,
    check_volume_size,
)

_BUSY_TRIES = 6
_SIZES = tuple(name for name, native in SETTABLE.items() if native.allowed[0] == "none" and not native.inherited)


class Datasets(Core):
    """zfs(8), except snapshots."""

    # --- reports

    def datasets(self, root: str | None = None) -> DatasetList:
        if root is not None:
            self.need_dataset(root)
        roots = self.answering_pools() if root is None else [root]
        request = Request("datasets", root or "")
        datasets: Json = {}
        if roots:
            datasets = self.datasets_json(request, "get", "-j", "-p", "-r", "-t", "filesystem,volume", "all", *roots)
        kinds = {name: str(datasets[name]["type"]).lower() for name in sorted(datasets)}
        return DatasetList(
            filesystems=[reading.filesystem(name, datasets[name]["properties"]) for name in kinds if kinds[name] == "filesystem"],
            volumes=[reading.volume(name, datasets[name]["properties"]) for name in kinds if kinds[name] == "volume"],
        )

    def _entry(self, name: str, kind: str) -> Json:
        names.dataset_name(name)
        self.need_dataset(name)
        dataset = self.datasets_json(Request(kind, name), "get", "-j", "-p", "all", name).get(name)
        if not isinstance(dataset, dict) or str(dataset["type"]).lower() != kind:
            raise errors.NoSuchDataset(name)
        properties: Json = dataset["properties"]
        return properties

    def volume(self, name: str) -> Volume:
        return reading.volume(name, self._entry(name, "volume"))

    def filesystem(self, name: str) -> Filesystem:
        return reading.filesystem(name, self._entry(name, "filesystem"))

    # --- making

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
        check_properties(properties or {}, On.VOLUME)
        sparse = () if thick else ("-s",)
        words = (*sparse, "-V", str(volsize), "-o", f"volblocksize={volblocksize}")
        self._create(name, words, properties or {}, None)
        self.wait_for_devices([name])
        return self.volume(name)

    def create_filesystem(
        self, name: str, *, properties: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> Filesystem:
        check_properties(properties or {}, On.FILESYSTEM)
        self._create(name, (), properties or {}, key)
        return self.filesystem(name)

    def _create(self, name: str, words: Sequence[str], properties: Mapping[str, str], key: bytes | None) -> None:
        names.new_dataset_name(name)
        self.need_dataset(name)
        words = [*words]
        if key is not None:
            _check_key(name, key)
            words += ["-o", "encryption=aes-256-gcm", "-o", "keyformat=raw", "-o", "keylocation=prompt"]
        request = Request("create", name, new_name=name, properties=properties)
        room.need(self, request, name, properties, words if "-V" in words and "-s" not in words else ())
        self.zfs(request, "create", *words, *options(properties), name, stdin=key or b"")

    def grow_volume(self, name: str, volsize: int) -> Volume:
        before = self.volume(name)
        check_volume_size(volsize, before.volblocksize)
        if volsize < before.volsize:
            allowed = f"a multiple of {before.volblocksize} from {before.volsize} on"
            raise errors.InvalidProperty("volsize", str(volsize), "a volume cannot shrink", (allowed,))
        if volsize == before.volsize:
            return before
        request = Request("grow_volume", name, properties={"volsize": str(volsize)})
        if before.refreservation:
            # The reservation first: otherwise the volume could not be written to its end. A killed call may have set it.
            words = ("-V", str(volsize), "-o", f"volblocksize={before.volblocksize}")
            copies = {"copies": before.properties["copies"].value}
            needed = room.reserved_by_create(self, request, name, copies, words)
            self.zfs(request, "set", f"refreservation={max(before.refreservation, needed)}", name)
        try:
            self.zfs(request, "set", f"volsize={volsize}", name)
        except ZfsError:
            if before.refreservation:
                self.zfs(request, "set", f"refreservation={before.refreservation}", name)
            raise
        return self.volume(name)

    # --- destroy

    def _retry_busy(self, name: str, act: Callable[[], object]) -> None:
        """Retries while only udev has the device open: udev opens each new volume, and after each last close."""
        for attempt in range(_BUSY_TRIES):
            try:
                act()
                return
            except errors.DatasetBusy:
                who = self._who_after_udev(name)
                if attempt + 1 == _BUSY_TRIES or any(not _is_udev(holder) for holder in who):
                    raise errors.DatasetBusy(name, who) from None
                time.sleep(0.1 * attempt)

    def _who_after_udev(self, name: str) -> tuple[str, ...]:
        """Holders once udev's queue is empty: programs that it runs, or has just forked, have other names."""
        commands.run((commands.UDEVADM, "settle", "--timeout=5"), seconds=10)
        return self.who(name)

    def destroy(self, name: str, *, with_snapshots: bool = False) -> None:
        names.new_dataset_name(name)
        self.need_dataset(name)
        request = Request("destroy", name)
        listed = self._tree(name)
        if name not in listed:
            raise errors.NoSuchDataset(name)
        in_the_way, snapshots = set(), []
        for other, properties in listed.items():
            if other == name:
                continue
            if other.startswith(f"{name}@"):
                in_the_way |= set(_clones(properties))
                snapshots.append(other)
            elif "@" not in other:
                in_the_way.add(other)
        if not with_snapshots:
            in_the_way |= set(snapshots)
        if in_the_way:
            raise errors.HasDependants(name, tuple(sorted(in_the_way)[:100]))
        for snapshot in snapshots:
            if reading.number(listed[snapshot]["userrefs"]["value"]):
                raise errors.SnapshotHeld(snapshot, self._tags(snapshot))
        if snapshots:
            # Otherwise both would be refused only after the snapshots are destroyed.
            who = self.who(name) and self._who_after_udev(name)
            if any(not _is_udev(holder) for holder in who):
                raise errors.DatasetBusy(name, who)
            self.destroy_snapshots(snapshots)
        self._retry_busy(name, lambda: self.zfs(request, "destroy", name))

    @abstractmethod
    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        """Implemented in `snapshots`."""

    def _tags(self, snapshot: str) -> tuple[str, ...]:
        held: dict[bytes, int] = self._library.call("lzc_get_holds", snapshot.encode())
        return tuple(sorted(tag.decode(errors="replace") for tag in held))

    def _tree(self, root: str) -> dict[str, Json]:
        kinds = ("-r", "-t", "filesystem,volume,snapshot", "-o", "name,clones,userrefs")
        tree = self.datasets_json(Request("dependants", root), "list", "-j", "-p", *kinds, root)
        return {name: entry["properties"] for name, entry in tree.items()}

    def dependants(self, name: str) -> list[Dependant]:
        self.need_dataset(name)
        dependants: dict[str, Dependant] = {}
        todo = [name]
        while todo:
            root = todo.pop()
            for other, properties in self._tree(root).items():
                if other != name and other not in dependants:
                    dependants[other] = _dependant(other)
                for clone in _clones(properties):
                    if clone not in dependants or dependants[clone].kind != DependantKind.CLONE:
                        dependants[clone] = Dependant(clone, DependantKind.CLONE, other)
                        todo.append(clone)
        dependants.pop(name, None)
        return sorted(dependants.values(), key=lambda dependant: dependant.name)

    def promote(self, name: str) -> None:
        names.dataset_name(name)
        self.need_dataset(name)
        try:
            self._library.call("lzc_promote", name.encode())
        except self._library.exceptions().ZFSError as problem:
            kinds = self._library.exceptions()
            if isinstance(problem, kinds.NotClone):
                raise errors.NotAClone(name) from None
            if isinstance(problem, kinds.SnapshotExists):
                raise errors.SnapshotExists(self._common_snapshot(name)) from None
            if isinstance(problem, kinds.DatasetNotFound):
                raise errors.NoSuchDataset(name) from None
            raise library.unexpected("promote", problem) from problem

    def _common_snapshot(self, name: str) -> str:
        """A snapshot of a clone whose tag the origin has too."""
        origin = self.properties(name)["origin"].value.partition("@")[0]
        theirs = {other.partition("@")[2] for other in self._tree(origin) if other.startswith(f"{origin}@")}
        ours = [other for other in self._tree(name) if other.startswith(f"{name}@")]
        return next((other for other in ours if other.partition("@")[2] in theirs), name)

    # --- mounting

    def mount(self, name: str) -> None:
        if not self.filesystem(name).mounted:
            self.zfs(Request("mount", name), "mount", "-o", "nosuid,nodev,noexec", name)

    def unmount(self, name: str) -> None:
        mounted = [filesystem for filesystem in self.datasets(name).filesystems if filesystem.mounted]
        if not mounted:
            self.filesystem(name)
            return
        # `zfs unmount` of the topmost unmounts all of them, or refuses if one is busy.
        try:
            self.zfs(Request("unmount", name), "unmount", mounted[0].name)
        except errors.DatasetBusy:
            who = tuple(holder for filesystem in mounted for holder in self.who(filesystem.name))
            raise errors.DatasetBusy(name, who) from None
        for other in reversed(self.datasets(name).filesystems):
            if other.mounted:
                self.zfs(Request("unmount", other.name), "unmount", other.name)

    # --- properties

    def properties(self, name: str) -> Properties:
        self.need_dataset(name)
        datasets = self.datasets_json(Request("properties", name), "get", "-j", "-p", "all", name)
        return reading.properties(datasets[name]["properties"])

    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        request = Request("set_properties", name, properties=properties)
        if "@" in name:
            check_user_properties(properties)
            self.need_dataset(name)
            self._set(request, properties)
            return
        check_properties(properties, On.BOTH)
        self.need_dataset(name)
        if all(map(names.is_user_property, properties)):  # every kind has them
            self._set(request, properties)
            return
        before = self.datasets_json(request, "get", "-j", "-p", f"type,{','.join(_SIZES)}", name)[name]
        check_properties(properties, On.VOLUME if before["type"] == "VOLUME" else On.FILESYSTEM)
        # Only sizes can be refused because of existing data: they are set first, and restored after a failure. In one call,
        # because OpenZFS then also accepts a refquota below the current refreservation.
        sizes = {key: value for key, value in properties.items() if key in _SIZES}
        try:
            self._set(request, sizes)
            self._set(request, {key: value for key, value in properties.items() if key not in sizes})
        except ZfsError:
            self._set(request, {key: str(before["properties"][key]["value"]) for key in sizes})
            raise

    def _set(self, request: Request, properties: Mapping[str, str]) -> None:
        if properties:
            self.zfs(request, "set", *assignments(properties), request.name)

    def inherit_property(self, name: str, property: str) -> None:
        native = SETTABLE.get(property)
        if names.is_user_property(property):
            check_user_properties({property: ""})
        elif native is None:
            raise errors.InvalidProperty(property[:100], "", "not a property that may be set")
        elif not native.inherited:
            raise errors.InvalidProperty(property, "", "is not inherited")
        self.need_dataset(name)
        self.zfs(Request("inherit_property", name), "inherit", property, name)

    # --- keys

    def load_key(self, name: str, key: bytes) -> None:
        self._check_encryption_root(name)
        _check_key(name, key)
        request, words = Request("load_key", name), ("-L", "prompt", name)
        try:
            self.zfs(request, "load-key", *words, stdin=key)
        except errors.KeyLoaded:  # zfs has not tested the key
            self.zfs(request, "load-key", "-n", *words, stdin=key)
            raise
        self.wait_for_devices(self._volumes(name))

    def _volumes(self, root: str) -> list[str]:
        """Names of the volume, or of those below a file system."""
        words = ("list", "-H", "-o", "name", "-t", "volume", "-r", root)
        return self.zfs(Request("datasets", root), *words, seconds=READ_SECONDS).decode().splitlines()

    def _check_encryption_root(self, name: str) -> None:
        names.dataset_name(name)
        self.need_dataset(name)
        dataset = self.datasets_json(Request("key", name), "get", "-j", "-p", "all", name)[name]
        kind = reading.volume if dataset["type"] == "VOLUME" else reading.filesystem
        encryption = kind(name, dataset["properties"]).encryption
        if encryption is None or encryption.root != name:
            raise errors.NotEncryptionRoot(name, encryption.root if encryption else "")


def _is_udev(holder: str) -> bool:
    return "udev" in holder


def options(properties: Mapping[str, str]) -> list[str]:
    return [word for assignment in assignments(properties) for word in ("-o", assignment)]


def assignments(properties: Mapping[str, str]) -> list[str]:
    """NAME=VALUE for zfs, which needs "none" for a quota of 0."""
    return [f"{name}={'none' if name in _SIZES and value == '0' else value}" for name, value in properties.items()]


def _check_key(name: str, key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise errors.WrongKey(name)


def _clones(properties: Json) -> list[str]:
    clones = str(properties.get("clones", {}).get("value", "-"))
    return [] if clones in {"-", ""} else clones.split(",")


def _dependant(name: str) -> Dependant:
    if "@" in name:
        return Dependant(name, DependantKind.SNAPSHOT, name.partition("@")[0])
    return Dependant(name, DependantKind.CHILD, name.rpartition("/")[0])
