# SPDX-License-Identifier: Apache-2.0
"""The helper's checks of each argument, independent of earlier checks: the caller may be an attacker who controls the worker.

Types are checked before (operations). Names, properties and layouts use the engines' tables. Allowed devices and mountpoints, and
limits of a request, are the helper's own.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.dataplane.ganesha import ExportSettings
from appliance.helper.mounts import SAFE, is_allowed
from appliance.zfs import names
from appliance.zfs.configuration_copies import LARGEST
from appliance.zfs.errors import InvalidName, NoSuchDevice, Refused
from appliance.zfs.folders import MOST_RANGE_BYTES, MOST_TEXT_BYTES
from appliance.zfs.layout import check_layout, device_path
from appliance.zfs.model import Dataset, DatasetList, Dependant, ImportablePool, Pool, Snapshot, VdevSpec
from appliance.zfs.properties import (
    MAX_SIZE,
    MAX_VOLBLOCKSIZE,
    On,
    check_pool_properties,
    check_properties,
    check_user_properties,
    check_user_property,
)

MAX_SNAPSHOTS = 20_000
"""Per request."""
MAX_PROPERTIES = 200
MAX_KEY_BYTES = 512
MAX_GUID = (1 << 64) - 1
MAX_EXPORTS = 65535
MAX_CLIENTS = 16_384
"""Per export."""
MAX_GENERATION = 1 << 60
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHARE = re.compile(r"/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")


@dataclass(frozen=True, slots=True)
class Policy:
    device_directories: tuple[str, ...] = ("/dev/disk/",)
    mount_directories: tuple[str, ...] = ("/srv/zvaai/",)
    pools: frozenset[str] | None = None
    """Pools that may be shown and changed. None: all."""

    def check(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Raises the ZfsError of the first refused argument."""
        for name in ("name", "pool", "root", "snapshot", "snapshots", "dataset"):
            value = arguments.get(name) or ()
            for dataset in (value,) if isinstance(value, str) else value:
                if self.pools is not None and names.pool_of(dataset) not in self.pools:
                    raise Refused(f"pool {names.pool_of(dataset)[:300]} is none of this helper's")
        for name, value in arguments.items():
            if value is not None:
                self._check(operation, name, value)
        if operation == "inherit_property" and arguments["property"] in {"mountpoint", *SAFE}:
            raise Refused(f"what {arguments['property']} would be is not said: set it")

    def shown(self, result: Any) -> Any:
        if isinstance(result, DatasetList):
            return DatasetList(filesystems=self.shown(result.filesystems), volumes=self.shown(result.volumes))
        if self.pools is None or not isinstance(result, list):
            return result
        named = (Pool, ImportablePool, Dataset, Snapshot, Dependant)
        return [item for item in result if not isinstance(item, named) or names.pool_of(item.name) in self.pools]

    def _check(self, operation: str, name: str, value: Any) -> None:
        pool_check = names.pool_name if operation == "create_pool" else names.dataset_name
        simple: dict[str, Callable[[Any], object]] = {
            "called": file_name,
            "content": copy_content,
            "dataset": names.dataset_name,
            "destroy": snapshot_names,
            "device": existing_device,
            "file": file_name,
            "generation": lambda value: within("generation", value + 1, MAX_GENERATION),
            "guid": lambda value: within("guid", value, MAX_GUID),
            "identifier": _identifier,
            "installation": _identifier,
            "key": key,
            "length": lambda value: within("length", value, MOST_RANGE_BYTES),
            "new_device": self._new_device,
            "new_name": names.pool_name,
            "number": lambda value: within("number", value, MAX_EXPORTS),
            "offset": lambda value: within("offset", value + 1, 1 << 62),
            "path": folder_path,
            "pool": _existing_pool,
            "root": names.dataset_name,
            "share": share,
            "snapshot": names.snapshot_name,
            "snapshots": snapshot_names,
            "settings": export_settings,
            "tag": names.hold_tag,
            "text": lambda value: within("text", len(value) + 1, MOST_TEXT_BYTES + 1),
            "user_properties": _user_property_names,
            "vdevs": self._vdevs,
            "volblocksize": lambda size: _between("volblocksize", size, MAX_VOLBLOCKSIZE),
            "volsize": lambda size: _between("volsize", size, MAX_SIZE),
        }
        if name == "name":
            (pool_check if operation == "create_pool" else _name_check(operation))(value)
        elif name in {"properties", "filesystem_properties"}:
            self._properties(operation, name, value)
        elif name == "property":
            _property_name(value)
        elif name in simple:
            simple[name](value)
        elif not isinstance(value, bool):
            raise Refused(f"{operation} has no check of its argument {name}")

    def _properties(self, operation: str, name: str, value: Mapping[str, str]) -> None:
        if len(value) > MAX_PROPERTIES:
            raise Refused(f"{len(value)} properties: {MAX_PROPERTIES} at most")
        if operation == "create_pool" and name == "properties":
            check_pool_properties(value)
        elif operation == "snapshot":
            check_user_properties(value)
        else:
            kinds = {"create_volume": On.VOLUME, "create_filesystem": On.FILESYSTEM, "create_pool": On.FILESYSTEM}
            check_properties(value, kinds.get(operation, On.BOTH))
        mountpoint = value.get("mountpoint", "none")
        if mountpoint != "none" and not is_allowed(mountpoint, self.mount_directories):
            raise Refused(f"mountpoint={mountpoint[:300]!r}: one name below {' or '.join(self.mount_directories)} only")
        for name_, safe in SAFE.items():
            if value.get(name_, safe) != safe:
                raise Refused(f"{name_}={value[name_]}: {safe} only")

    def _new_device(self, path: str) -> None:
        device_path(path)
        if not path.startswith(self.device_directories):
            raise Refused(f"{path}: devices below {' or '.join(self.device_directories)} only")

    def _vdevs(self, vdevs: Sequence[VdevSpec]) -> None:
        check_layout(vdevs, whole_pool=False)
        for vdev in vdevs:
            for path in vdev.devices:
                self._new_device(path)


def existing_device(device: str) -> None:
    """A GUID, a path below /dev, or a name such as "mirror-0". Raises NoSuchDevice."""
    if device.startswith("/"):
        device_path(device)
    elif not _DEVICE_NAME.fullmatch(device):
        raise NoSuchDevice(device[:255])


def key(value: bytes) -> None:
    """Raises Refused."""
    if not 0 < len(value) <= MAX_KEY_BYTES:
        raise Refused(f"a key of {len(value)} bytes: 1 to {MAX_KEY_BYTES}")


def copy_content(value: str) -> None:
    """A copy of the configuration. Raises Refused."""
    if len(value) > LARGEST or not value.isascii():
        raise Refused(f"a copy of the configuration has at most {LARGEST} characters of ASCII")


def export_settings(value: ExportSettings) -> None:
    """IPv4 and IPv6 addresses and networks without duplicates. Raises Refused."""
    if len(value.clients) > MAX_CLIENTS:
        raise Refused(f"{len(value.clients)} clients: {MAX_CLIENTS} at most")
    try:
        networks = {ipaddress.ip_network(client) for client in value.clients}
    except ValueError as problem:
        raise Refused(f"no client: {problem}"[:300]) from None
    if len(networks) != len(value.clients) or any("%" in client for client in value.clients):
        raise Refused("a client is named twice, or by an address with a scope")
    if value.thick_size is not None:
        within("thick_size", value.thick_size, MAX_SIZE)


def share(value: str) -> None:
    """The path that clients mount. Raises Refused."""
    if len(value) > 255 or not _SHARE.fullmatch(value) or {".", ".."} & set(value.split("/")):
        raise Refused(f"{value[:300]!r} is not a path of an export")


def folder_path(value: str) -> None:
    """Names separated by single slashes; "" is the root. Raises Refused."""
    if len(value) > 1023:
        raise Refused("a path of more than 1023 characters")
    for name in value.split("/") if value else ():
        file_name(name)


def file_name(value: str) -> None:
    """Raises Refused."""
    if not 0 < len(value) <= 255 or value in (".", "..") or "/" in value or not value.isprintable():
        raise Refused(f"{value[:300]!r} is not a name of a file")


def within(name: str, value: int, largest: int) -> None:
    """Raises Refused."""
    if not 0 < value <= largest:
        raise Refused(f"{name}={value}: 1 to {largest}")


def _identifier(value: str) -> None:
    """Identifier of a key, which is its file's name, or of an installation."""
    if not _UUID.fullmatch(value):
        raise Refused("an identifier is a UUID in lower case")


def snapshot_names(value: Sequence[str]) -> None:
    """Raises Refused, InvalidName."""
    if len(value) > MAX_SNAPSHOTS:
        raise Refused(f"{len(value)} snapshots in one step: {MAX_SNAPSHOTS} at most")
    for name in value:
        names.snapshot_name(name)


def _existing_pool(name: str) -> None:
    """A pool's name; import also accepts a GUID."""
    if not (name.isdecimal() and name.isascii() and len(name) <= 20):
        names.dataset_name(name)
        if "/" in name:
            raise InvalidName(name, "this is not a pool")


def _name_check(operation: str) -> Callable[[str], object]:
    if operation in {"dependants", "properties", "set_properties", "inherit_property"}:
        return names.dataset_or_snapshot_name
    if operation in {"holds", "rollback"}:
        return names.snapshot_name
    if operation in {"create_volume", "create_filesystem", "create_encryption_root", "destroy", "clone"}:
        return names.new_dataset_name
    return names.dataset_name


def _user_property_names(value: Sequence[str]) -> None:
    if len(value) > MAX_PROPERTIES:
        raise Refused(f"{len(value)} properties: {MAX_PROPERTIES} at most")
    for name in value:
        check_user_property(name, "")


def _property_name(name: str) -> None:
    if names.is_user_property(name):
        check_user_property(name, "")
    elif len(name) > 64 or not name.isascii() or not name.replace("_", "").isalnum():
        raise Refused("no property has such a name")


def _between(name: str, size: int, largest: int) -> None:
    """Limits a number to 64 bits; the engine has the exact rules."""
    if not -largest <= size <= largest * 4:
        raise Refused(f"{name}={size}: {largest} at most")
