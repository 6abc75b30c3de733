# SPDX-License-Identifier: Apache-2.0
"""Makes the iSCSI target tell hosts when a pool gets full: its soft threshold (zvol_target/docs/control.md, space.set_pool).

Only pools that the target tells of, which are those with LUNs, and that are ours. Run again it does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.dataplane.reconcile import Failure, Outcome
from appliance.dataplane.target import TargetControl, TargetRefusedError

_SMALLEST, _LARGEST = 64 << 20, 4 << 30


def _headroom(told: Mapping[str, Any]) -> int | None:
    """What somebody has set; None for the daemon's own choice (zvol_target/docs/space.md), which follows the pool's size."""
    own = min(max(told["total_bytes"] // 64, _SMALLEST), _LARGEST, told["total_bytes"] // 8)
    return None if told["headroom_bytes"] == own else int(told["headroom_bytes"])


def reconcile(control: TargetControl, wanted: Mapping[str, int]) -> Outcome:
    """`wanted` is percent, by the pool's name. What is refused is told. Raises TargetUnreachableError."""
    found, failures = [], []
    for told in control.space()["pools"]:
        name, percent = told["pool"], wanted.get(told["pool"])
        if percent is None or told["soft_threshold"] == {"percent": percent}:
            continue
        text = f"pool {name} has another soft threshold"
        found.append(text)
        try:
            control.set_pool(name, percent, _headroom(told))
        except TargetRefusedError as error:
            failures.append(Failure(name, f"{text}: {error}"))
    return Outcome(tuple(found), tuple(failures))
