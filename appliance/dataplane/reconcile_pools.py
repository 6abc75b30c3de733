# SPDX-License-Identifier: Apache-2.0
"""Reconciles the iSCSI target's soft thresholds of pools (zvol_target/docs/control.md, space.set_pool).

Only pools that the target reports, which have LUNs, and that are ours. A second run changes nothing.
"""

from collections.abc import Mapping

from appliance.dataplane.reconcile import Failure, Outcome
from appliance.dataplane.target import TargetRefusedError
from appliance.dataplane.target_socket import TargetSocket


def reconcile(control: TargetSocket, thresholds: Mapping[str, int]) -> Outcome:
    """`thresholds` are percent by pool name. Returns refused changes as failures. Raises TargetUnreachableError."""
    differences, failures = [], []
    for report in control.space()["pools"]:
        name, percent = report["pool"], thresholds.get(report["pool"])
        if percent is None or report["soft_threshold"] == {"percent": percent}:
            continue
        text = f"pool {name} has another soft threshold"
        differences.append(text)
        try:
            control.set_pool(name, percent)
        except TargetRefusedError as error:
            failures.append(Failure(name, f"{text}: {error}"))
    return Outcome(tuple(differences), tuple(failures))
