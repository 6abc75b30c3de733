# SPDX-License-Identifier: Apache-2.0
"""The machine's disks, by lsblk and by their names in FOLDERS."""

import re
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
_NVME = r"nvme-(?!eui\.|uuid\.|nvme\.).+"
_BEST_FIRST = re.compile(rf"(dm-uuid-mpath-)|({_NVME}_\d{{1,4}}$)|({_NVME})|(ata-)|(scsi-S)|(wwn-)|(nvme-)|(scsi-)")
"""Names with model and serial number come before others: a failed disk is found by its label. Of NVMe, udev's rules call the
name without the number of the namespace obsolete.
"""


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
            path=name_in_pool(device, named) or links.get(_kernel_name(device), device["path"]),
            device=device["path"],
            size=number(device.get("size")),
            model=str(device.get("model") or "").strip(),
            serial=str(device.get("serial") or "").strip(),
            rotational=bool(device.get("rota")),
            used_by=use.used_by,
            in_use=use.in_use,
            in_pool=next((named[part] for part in map(_kernel_name, _with_parts(device)) if part in named), None),
        )
        for device in whole_disks(commands.json_of(result.output, "lsblk"))
        for use in [use_of(device, owners)]
    ]
    return sorted(devices, key=lambda disk: disk.path)


def whole_disks(document: Json) -> list[Json]:
    """Entries of `lsblk --json`. A multipath map stands for the disks that are its paths, with their model and serial number."""
    entries: dict[str, Json] = {}
    for device in document.get("blockdevices", []):
        if device.get("type") == "disk" and not device["path"].startswith(_LEFT_OUT) and number(device.get("size")):
            known = {name: device.get(name) for name in ("model", "serial")}
            maps = [part | known for part in device.get("children", []) if part.get("type") == "mpath"]
            for entry in maps or [device]:
                entries.setdefault(entry["path"], entry)
    return list(entries.values())


def paths_of(device: str) -> list[str]:
    """Kernel names of a disk, by any of its names: several with multipath. Raises NoSuchDevice for all else, Timeout."""
    words = ("-J", "-s", "-o", "NAME,PATH,TYPE", "--", device_path(device))
    document = commands.json_of(commands.run((commands.LSBLK, *words), seconds=30.0).output, "lsblk")
    of_disks = [entry for entry in document.get("blockdevices", []) if entry.get("type") in ("disk", "mpath")]
    paths = [part["path"] for entry in of_disks for part in _with_parts(entry) if part.get("type") == "disk"]
    if not paths or paths[0].startswith(_LEFT_OUT):
        raise NoSuchDevice(device)
    return paths


def name_in_pool(device: Json, named: Mapping[str, str]) -> str | None:
    """The name that a pool has for this whole disk, which can have several; `named` by kernel names."""
    for part in _with_parts(device):
        name = named.get(_kernel_name(part))
        if name is not None and str(Path(name).resolve()) == _kernel_name(device):
            return name
    return None


def links_of(folders: Sequence[str]) -> dict[str, str]:
    """Preferred name below one of the folders, by kernel name."""
    links: dict[str, str] = {}

    def rank(link: Path) -> tuple[int, str]:
        match = _BEST_FIRST.match(link.name)
        return (match.lastindex or 0 if match else _BEST_FIRST.groups + 1, link.name)

    for folder in map(Path, folders):
        for link in sorted(folder.iterdir(), key=rank) if folder.is_dir() else ():
            links.setdefault(str(link.resolve()), str(link))
    return links


def _kernel_name(device: Json) -> str:
    """/dev/dm-0, which lsblk calls /dev/mapper/NAME."""
    return str(Path(device["path"]).resolve())


def _with_parts(device: Json) -> Iterator[Json]:
    """The device, its partitions, and the volumes that are made of them (LVM, LUKS, RAID)."""
    yield device
    for part in device.get("children", []):
        yield from _with_parts(part)


def use_of(device: Json, owners: Mapping[str, str]) -> Use:
    """Use of a disk, by its entry of `lsblk --json` and the pools' names by device."""
    parts = list(_with_parts(device))
    for part in parts:
        if _kernel_name(part) in owners:
            return Use(f"pool {owners[_kernel_name(part)]}", in_use=True)
    for part in parts:
        if mounted := [where for where in part.get("mountpoints") or [] if where]:
            return Use(f"mounted on {mounted[0]}", in_use=True)
    made_into_volumes = any(part.get("type") not in ("disk", "part", "mpath") for part in parts)
    # Partitions of a multipath map are maps of kpartx, so that OpenZFS cannot open it.
    made_into_volumes |= device.get("type") == "mpath" and len(parts) > 1
    for part in parts:
        if part.get("fstype"):
            on = "" if part is device else f" on {part['path']}"
            return Use(f"{part['fstype']}{on}", in_use=made_into_volumes)
    return Use("partitions" if len(parts) > 1 else None, in_use=made_into_volumes)
