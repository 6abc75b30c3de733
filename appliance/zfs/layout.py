# SPDX-License-Identifier: Apache-2.0
"""Valid vdevs of a pool: rules of zpoolconcepts(7) that do not depend on the devices."""

import re
from collections.abc import Sequence

from appliance.zfs.errors import InvalidLayout, NoSuchDevice
from appliance.zfs.model import MAX_DEVICES, Redundancy, Role, VdevSpec

FEWEST = {Redundancy.STRIPE: 1, Redundancy.MIRROR: 2, Redundancy.RAIDZ1: 2, Redundancy.RAIDZ2: 3, Redundancy.RAIDZ3: 4}
MOST_IN_RAIDZ = 255

_PATH = re.compile(r"/dev(/[A-Za-z0-9_+:.=@,%-]+)+")


def device_path(path: str) -> str:
    """An absolute path below /dev, without "..". Raises NoSuchDevice."""
    if len(path) > 1023 or not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise NoSuchDevice(path[:1023])
    return path


def check_layout(vdevs: Sequence[VdevSpec], *, whole_pool: bool) -> None:
    """Raises InvalidLayout, NoSuchDevice."""
    devices = [device_path(device) for vdev in vdevs for device in vdev.devices]
    if not devices:
        raise InvalidLayout("no device is named")
    if len(devices) > MAX_DEVICES:
        raise InvalidLayout(f"more than {MAX_DEVICES} devices")
    if len(set(devices)) < len(devices):
        twice = next(device for device in devices if devices.count(device) > 1)
        raise InvalidLayout(f"{twice} is named twice")
    if whole_pool and not any(vdev.role == Role.DATA for vdev in vdevs):
        raise InvalidLayout("no device for data is named")
    for vdev in vdevs:
        if len(vdev.devices) < FEWEST[vdev.redundancy]:
            raise InvalidLayout(f"{vdev.redundancy.value} needs {FEWEST[vdev.redundancy]} devices or more")
        if vdev.redundancy in {Redundancy.RAIDZ1, Redundancy.RAIDZ2, Redundancy.RAIDZ3} and len(vdev.devices) > MOST_IN_RAIDZ:
            raise InvalidLayout(f"{vdev.redundancy.value} takes {MOST_IN_RAIDZ} devices at most")
        if vdev.role in {Role.CACHE, Role.SPARE} and vdev.redundancy != Redundancy.STRIPE:
            raise InvalidLayout(f"{vdev.role.value} devices are single ones")
        if vdev.role == Role.LOG and vdev.redundancy not in {Redundancy.STRIPE, Redundancy.MIRROR}:
            raise InvalidLayout("log devices are single ones or mirrors")
