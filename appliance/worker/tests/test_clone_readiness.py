# SPDX-License-Identifier: Apache-2.0
"""Readiness lists datastores of a pool that differ in properties that OpenZFS later than 2.4 requires to be equal for a clone."""

from __future__ import annotations

from typing import Any

from simulators.appliance import Appliance


def clone_properties(appliance: Appliance) -> list[dict[str, Any]]:
    appliance.request("POST", "/reconcile")  # reads the properties again
    return [check for check in appliance.get("/readiness")["checks"] if check["id"] == "clone_properties"]


def made(appliance: Appliance, name: str, **more: Any) -> str:
    """Creates a datastore; its dataset."""
    return str(appliance.get(f"/datastores/{appliance.datastore(name, **more)}")["dataset"])


def test_datastores_of_a_pool_agree_or_are_named(appliance: Appliance) -> None:
    first = made(appliance, "first")
    assert clone_properties(appliance) == [], "one datastore has nobody to clone from"
    second = made(appliance, "second")
    [check] = clone_properties(appliance)
    assert (check["result"], check["subject"]) == ("ok", "tank")
    # "on" means the same value.
    appliance.simulator.set_properties(first, {"compression": "on", "checksum": "on"})
    appliance.simulator.set_properties(second, {"compression": "lz4", "checksum": "fletcher4"})
    assert clone_properties(appliance)[0]["result"] == "ok"
    appliance.simulator.set_properties(second, {"compression": "zstd", "copies": "2"})
    [check] = clone_properties(appliance)
    assert check["result"] == "warning"
    assert check["evidence"] == "compression differs: lz4 (first), zstd (second); copies differs: 1 (first), 2 (second)"
    assert "zfs set" in check["remedy"]


def test_thick_datastores_do_not_count(appliance: Appliance) -> None:
    made(appliance, "first")
    second = made(appliance, "second", thick=True)
    appliance.simulator.set_properties(second, {"compression": "zstd"})
    assert clone_properties(appliance) == []
