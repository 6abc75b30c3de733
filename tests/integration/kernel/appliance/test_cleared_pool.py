# SPDX-License-Identifier: Apache-2.0
"""All devices of a pool fail and return. The command of the guide resumes the pool, given one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from integration.kernel.removable_pool import RemovablePool
from support.appliance import running_appliance, running_helper
from support.programs import run, wait_for

HELPER = Path("/run/zvaai-helper-cleared.sock")


def lost_devices(pool: RemovablePool) -> int:
    """Devices of the pool that are not ONLINE, or have errors."""
    lines = [line.split() for line in run("zpool", "status", "-P", pool.name).splitlines()]
    return sum(words[0] in pool.devices and words[1:5] != ["ONLINE", "0", "0", "0"] for words in lines if words)


def test_a_clear_of_one_device_resumes_a_pool_of_several(removable_pool: RemovablePool, tmp_path: Path) -> None:
    volume = removable_pool.create_volume("volume", 64)
    with (
        running_helper(HELPER),
        running_appliance(tmp_path / "a", reconcile_seconds=3600, helper=HELPER, inventory_seconds=600) as appliance,
    ):
        with removable_pool.removed():
            writer = subprocess.Popen(["dd", "if=/dev/urandom", f"of={volume}", "bs=1M", "count=32", "conv=fsync"])
            wait_for(removable_pool.is_suspended, "the pool is suspended")
            wait_for(lambda: lost_devices(removable_pool) == 2, "both devices have failed")
        try:
            appliance.cli("pool", "device", removable_pool.name, removable_pool.devices[0], "clear", "--wait")
            wait_for(lambda: writer.poll() == 0, "the write ends", 60)
            assert appliance.json("pool", "show", removable_pool.name)["health"] == "ONLINE"
        finally:
            if removable_pool.is_suspended():
                removable_pool.clear()
            writer.wait(120)
