# SPDX-License-Identifier: Apache-2.0
"""Engines on which the contract is tested: in the guest the kernel's, natively the simulator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from appliance.helper.checks import Policy
from appliance.helper.tests.served import client_of
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.tests.contract.on_kernel import MEMORY, kernel_rig
from appliance.zfs.tests.contract.rig import Rig
from appliance.zfs.tests.contract.simulated import simulated_rig

IN_GUEST = os.environ.get("ZVAAI_GUEST") == "1"
ENGINES = ["kernel"] if IN_GUEST else ["simulator", "simulator through the helper"]
"""The helper in front of the kernel's engine is tested in tests/integration/kernel/appliance, because calls in the guest cost 20
times more.
"""


@pytest.fixture(scope="package", params=ENGINES)
def shared_rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """An engine with its pool."""
    engine: str = request.param
    directory = tmp_path_factory.mktemp("rig")
    with contextlib.ExitStack() as stack:
        if engine.startswith("kernel"):
            rig = stack.enter_context(kernel_rig(KernelEngine(device_directories=[str(MEMORY)])))
        else:
            rig = stack.enter_context(simulated_rig(directory))
        if engine.endswith("helper"):
            policy = Policy(device_directories=("/dev/",))
            rig.engine = stack.enter_context(client_of(rig.engine, directory / "helper.sock", policy=policy))
        yield rig


@pytest.fixture
def rig(shared_rig: Rig) -> Rig:
    """The same, by the name that tests use."""
    return shared_rig
