# SPDX-License-Identifier: Apache-2.0
"""Messages of zfs and zpool of OpenZFS 2.3.9, and their errors. All but those about sectors and multihost were observed."""

from __future__ import annotations

import pytest

from appliance.zfs import errors
from appliance.zfs.kernel import messages
from appliance.zfs.kernel.messages import Request, translate

REPAIR = "invalid vdev specification\nthe following errors must be manually repaired:\n"
OVERRIDE = "invalid vdev specification\nuse '-f' to override the following errors:\n"
HOT_SPARE = f"{REPAIR}/dev/sdd is reserved as a hot spare for pool tank\n"
MISMATCH = f"{OVERRIDE}mismatched replication level: pool uses mirror and new vdev is file\n"
EXPORTED = f"{OVERRIDE}/dev/sdb is part of exported pool 'old'\n"
FOREIGN = (
    "cannot import 'tank': pool was previously in use from another system.\n"
    "Last accessed by other.host (hostid=1267) at Sun Nov 22 04:14:30 2026\n"
    "The pool can be imported, use 'zpool import -f' to import the pool.\n"
)
MULTIHOST = (
    "Cannot import 'tank': pool has the multihost property on and the\n"
    "system's hostid is not set. Set a unique hostid with the zgenhostid(8) command.\n"
)
NOT_LOADED = "The ZFS modules are not loaded.\nTry running 'modprobe zfs' as root to load them.\n"
SUSPENDED = "cannot open 'tank': pool I/O is currently suspended\n"
SMALL = "cannot set property for 'tank': size is less than current used or reserved space\n"
SECTORS = "adding devices with different physical sector sizes is not allowed\n"
ASHIFT = "As root, read its ashift: zpool get ashift tank all-vdevs. Set that value: zpool set ashift=VALUE tank. Then repeat"
LAST = "cannot offline /dev/sda: no valid replicas\n"
COMPRESSION = "cannot set property for 'tank': 'compression' must be one of 'on | off | lzjb'\n"
V1, TANK = Request("x", "tank/v1"), Request("x", "tank")
SEEN: list[tuple[Request, str, errors.ZfsError]] = [
    (V1, "cannot open 'tank/v1': dataset does not exist\n", errors.NoSuchDataset("tank/v1")),
    (Request("x", "tank/v1@s"), "cannot open 'tank/v1@s': dataset does not exist\n", errors.NoSuchSnapshot("tank/v1@s")),
    (Request("x", "tank/v1"), "cannot create 'tank/v1': dataset already exists\n", errors.DatasetExists("tank/v1")),
    (Request("x", "tank/a/b"), "cannot create 'tank/a/b': parent does not exist\n", errors.NoSuchDataset("tank/a")),
    (V1, "cannot create 'tank/v1': out of space\n", errors.OutOfSpace("tank/v1")),
    (TANK, SMALL, errors.OutOfSpace("tank", quota=True)),
    (
        Request("x", "tank", properties={"compression": "foo"}),
        COMPRESSION,
        errors.InvalidProperty("compression", "foo", "'compression' must be one of 'on | off | lzjb'", ("on", "off", "lzjb")),
    ),
    (V1, "cannot destroy 'tank/v1': dataset is busy\n", errors.DatasetBusy("tank/v1")),
    (V1, "cannot unmount '/mnt/v1': pool or dataset is busy\n", errors.DatasetBusy("tank/v1")),
    (V1, "Key load error: Incorrect key provided for 'tank/v1'.\n", errors.WrongKey("tank/v1")),
    (V1, "Key load error: Key already loaded for 'tank/v1'.\n", errors.KeyLoaded("tank/v1")),
    (TANK, HOT_SPARE, errors.DeviceInUse("/dev/sdd", "is reserved as a hot spare for pool tank", can_force=False)),
    (TANK, EXPORTED, errors.DeviceInUse("/dev/sdb", "is part of exported pool 'old'", can_force=True)),
    (
        TANK,
        MISMATCH,
        errors.InvalidLayout("mismatched replication level: pool uses mirror and new vdev is file", can_force=True),
    ),
    (Request("import", "815"), FOREIGN, errors.PoolInUseElsewhere("tank", "other.host")),
    (Request("import", "815"), MULTIHOST, errors.UnexpectedFailure("import", MULTIHOST.strip())),
    (
        Request("import", "815"),
        "cannot import 'tank' as 'tank2': one or more devices is currently unavailable\n",
        errors.PoolUnavailable("tank", "devices are missing or damaged"),
    ),
    (Request("x", "nosuch"), "cannot import 'nosuch': no such pool available\n", errors.NoSuchPool("nosuch")),
    (TANK, "cannot import 'tank': a pool with that name already exists\n", errors.PoolExists("tank")),
    (TANK, "cannot scrub tank: currently scrubbing; use 'zpool scrub -s' to cancel\n", errors.ScanRunning("tank", "scrub")),
    (TANK, "cannot cancel scrubbing tank: there is no active scrub\n", errors.NoScanRunning("tank")),
    (Request("x", "tank", device="/dev/sda"), LAST, errors.InsufficientReplicas("tank", "/dev/sda")),
    (
        Request("add pool", "tank"),
        f"cannot add to 'tank': {SECTORS}",
        errors.NotSupported(f"Pool tank and the new disks differ in sector size. {ASHIFT}"),
    ),
    (
        Request("attach", "tank", device="/dev/sdx"),
        f"cannot attach /dev/sdx to 815: {SECTORS}",
        errors.NotSupported("/dev/sdx has larger sectors than the vdev allows. Use a disk with 512-byte sectors"),
    ),
    (V1, NOT_LOADED, errors.EngineUnavailable(messages.NOT_LOADED)),
    (V1, SUSPENDED, errors.PoolUnavailable("tank", "suspended: its devices do not answer")),
    (TANK, "cannot resolve path '/dev/sdz'\n", errors.NoSuchDevice("/dev/sdz")),
    (V1, "something new\n", errors.UnexpectedFailure("x", "something new")),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "said", "meant"), SEEN)
def test_meaning(request_: Request, said: str, meant: errors.ZfsError) -> None:
    error = translate(request_, said)
    assert (type(error), error.details()) == (type(meant), meant.details())
