# SPDX-License-Identifier: Apache-2.0
"""luns.list reports settings of a zvol that make GOOD untrue, and the appliance reads it."""

from __future__ import annotations

from pathlib import Path

from support.programs import run, wait_for
from support.target import IQN, Target
from support.volumes import VolumeMaker
from support.zfs import Pool

from appliance.dataplane.target_socket import TargetSocket

NAME = "risky"


def test_sync_disabled_and_write_through_are_reported(target: Target, pool: Pool, make_volume: VolumeMaker) -> None:
    device, dataset = make_volume(NAME, 16), f"{pool.name}/{NAME}"
    queue = Path("/sys/block", device.resolve().name, "queue/write_cache")
    assert queue.read_text().strip() == "write back"

    def reports(*risks: str) -> None:
        def is_reported() -> bool:
            (lun,) = target.call("luns.list", {"target": IQN})["luns"]
            return bool(lun.get("durability_risks") == list(risks))

        wait_for(is_reported, f"the risks are {risks}")
        ((served,),) = (served_target.luns for served_target in TargetSocket(target.socket_path).targets())
        assert served.write_through == ("write_through" in risks)

    run("zfs", "set", "sync=disabled", dataset)
    target.add_lun(0, device)
    reports("sync_disabled")
    queue.write_text("write through")
    reports("sync_disabled", "write_through")
    run("zfs", "set", "sync=always", dataset)
    reports()
    run("zfs", "inherit", "sync", dataset)
    reports("write_through")
    # Linux 6.1 refuses "write back" for a zvol the second time (EINVAL). A zvol that an import opens again accepts it.
    target.call("luns.delete", {"target": IQN, "number": 0})
