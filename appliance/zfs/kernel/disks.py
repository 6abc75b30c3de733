# SPDX-License-Identifier: Apache-2.0
"""The machine's disks, by lsblk and by their names in FOLDERS."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from appliance.zfs.errors import NoSuchDevice, UnexpectedFailure
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.commands import Json
from appliance.zfs.kernel.reading import number
from appliance.zfs.layout import device_path
from appliance.zfs.model import Disk, Pool
from appliance.zfs.names import whole_disk

_COLUMNS = "NAME,PATH,SIZE,MODEL,SERIAL,ROTA,TYPE,FSTYPE,MOUNTPOINTS"
_LEFT_OUT = ("/dev/zd", "/dev/loop", "/dev/ram", "/dev/zram", "/dev/nbd", "/dev/fd", "/dev/sr", "/dev/dm-")
FOLDERS = ("/dev/disk/by-id", "/dev/disk/by-path")
"""Names that stay, the best first. Virtual disks without a serial number have only one by their path. zvols are in neither."""
_BEST_FIRST = ("nvme-eui.", "wwn-", "nvme-", "scsi-", "ata-")


class Use(NamedTuple):
    """As in `Disk`."""

    used_by: str | None
    in_use: bool


def disks(pools: Sequence[Pool]) -> list[Disk]:
    """All disks usable for pools. Raises UnexpectedFailure, Timeout."""
    result = commands.run((commands.LSBLK, "-J", "-b", "-o", _COLUMNS), seconds=30.0)
    if result.status != 0:
        raise UnexpectedFailure("lsblk", result.complaint[:2000])
    links = links_of(FOLDERS)
    owners: dict[str, str] = {}
    named: dict[str, str] = {}
    for name, path in ((pool.name, device.path) for pool in pools for device in pool.devices() if device.path):
        kernel_name = str(Path(path).resolve())
        owners |= dict.fromkeys((path, kernel_name), name)
        named[kernel_name] = whole_disk(path) or path
    devices = [
        Disk(
            path=name_in_pool(device, named) or links.get(device["path"], device["path"]),
            device=device["path"],
            size=number(device.get("size")),
            model=str(device.get("model") or "").strip(),
            serial=str(device.get("serial") or "").strip(),
            rotational=bool(device.get("rota")),
            used_by=use.used_by,
            in_use=use.in_use,
        )
        for device in commands.json_of(result.output, "lsblk").get("blockdevices", [])
        if device.get("type") == "disk" and not device["path"].startswith(_LEFT_OUT) and number(device.get("size"))
        for use in [use_of(device, owners)]
    ]
    return sorted(devices, key=lambda disk: disk.path)


def disk_of(device: str) -> str:
    """Kernel name of a whole disk, by any of its names. Raises NoSuchDevice for all else, Timeout."""
    words = ("-J", "-s", "-o", "NAME,PATH,TYPE", "--", device_path(device))
    document = commands.json_of(commands.run((commands.LSBLK, *words), seconds=30.0).output, "lsblk")
    for listed in document.get("blockdevices", []):
        if listed.get("type") == "disk" and not listed["path"].startswith(_LEFT_OUT):
            return str(listed["path"])
    raise NoSuchDevice(device)


def name_in_pool(device: Json, named: Mapping[str, str]) -> str | None:
    """The name that a pool has for this whole disk, which can have several; `named` by kernel names."""
    for part in _with_parts(device):
        name = named.get(part["path"])
        if name is not None and str(Path(name).resolve()) == device["path"]:
            return name
    return None


def links_of(folders: Sequence[str]) -> dict[str, str]:
    """Preferred name below one of the folders, by kernel name."""
    links: dict[str, str] = {}

    def rank(link: Path) -> tuple[int, str]:
        places = [place for place, beginning in enumerate(_BEST_FIRST) if link.name.startswith(beginning)]
        return (min(places, default=len(_BEST_FIRST)), link.name)

    for folder in map(Path, folders):
        for link in sorted(folder.iterdir(), key=rank) if folder.is_dir() else ():
            links.setdefault(str(link.resolve()), str(link))
    return links


def _with_parts(device: Json) -> Iterator[Json]:
    """The device, its partitions, and the volumes that are made of them (LVM, LUKS, RAID)."""
    yield device
    for part in device.get("children", []):
        yield from _with_parts(part)


def use_of(device: Json, owners: Mapping[str, str]) -> Use:
    """Use of a disk, by its entry of `lsblk --json` and the pools' names by device."""
    parts = list(_with_parts(device))
    for part in parts:
        if part["path"] in owners:
            return Use(f"pool {owners[part['path']]}", in_use=True)
    for part in parts:
        if mounted := [where for where in part.get("mountpoints") or [] if where]:
            return Use(f"mounted on {mounted[0]}", in_use=True)
    made_into_volumes = any(part.get("type") not in ("disk", "part") for part in parts)
    for part in parts:
        if part.get("fstype"):
            on = "" if part is device else f" on {part['path']}"
            return Use(f"{part['fstype']}{on}", in_use=made_into_volumes)
    return Use("partitions" if len(parts) > 1 else None, in_use=made_into_volumes)
