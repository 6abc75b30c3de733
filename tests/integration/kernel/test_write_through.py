# SPDX-License-Identifier: Apache-2.0
"""luns.list reports a zvol whose flushes Linux drops, and the appliance reads it."""

from __future__ import annotations

from pathlib import Path

from support.programs import wait_for
from support.target import IQN, Target
from support.volumes import VolumeMaker

from appliance.dataplane.target_socket import TargetSocket

NAME = "through"


def test_a_queue_set_to_write_through_is_reported(target: Target, make_volume: VolumeMaker) -> None:
    device = make_volume(NAME, 16)
    queue = Path("/sys/block", device.resolve().name, "queue/write_cache")
    assert queue.read_text().strip() == "write back"

    def reports(expected: bool) -> None:
        def is_reported() -> bool:
            (lun,) = target.call("luns.list", {"target": IQN})["luns"]
            return lun["write_through"] is expected

        wait_for(is_reported, f"write_through is {expected}")
        ((served,),) = (served_target.luns for served_target in TargetSocket(target.socket_path).targets())
        assert served.write_through is expected

    target.add_lun(0, device)
    reports(False)
    queue.write_text("write through")
    reports(True)
    # Linux 6.1 refuses "write back" for a zvol the second time (EINVAL). A zvol that an import opens again accepts it.
    target.call("luns.delete", {"target": IQN, "number": 0})
