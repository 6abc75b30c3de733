"""Which engines the contract is tested on: in the guest the kernel's, natively the simulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zfs.tests.contract.rig import Rig
from appliance.zfs.tests.contract.simulated import simulated_rig

IN_GUEST = os.environ.get("ZVAAI_GUEST") == "1"


@pytest.fixture(scope="session", params=["simulator"])
def shared_rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One of the engines with its pool."""
    directory: Path = tmp_path_factory.mktemp("rig")
    with simulated_rig(directory) as rig:
        yield rig


@pytest.fixture
def rig(shared_rig: Rig) -> Iterator[Rig]:
    """The same, with no other pool left behind by the test."""
    yield shared_rig
    for pool in shared_rig.engine.pools():
        assert pool.name == shared_rig.pool, f"the test left pool {pool.name}"
