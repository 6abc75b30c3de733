# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the appliance's unit tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from hypothesis import HealthCheck, settings
from simulators.appliance import Appliance, running

from appliance.domain import secrets
from appliance.worker import alerts, network

# The same inputs each time, or those of the seed of tests/run (--hypothesis-seed), without a time limit.
_fixed_seed = "ZVAAI_SEED" not in os.environ
settings.register_profile("suite", deadline=None, derandomize=_fixed_seed, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Cheap password hashes: a real one takes 64 MiB and a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


@pytest.fixture(scope="session", autouse=True)
def links_are_up() -> Iterator[None]:
    """Cables of the machine that runs the tests raise no alerts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "lost_links", dict)
        yield


@pytest.fixture(autouse=True)
def one_run_is_enough() -> Iterator[None]:
    """Alerts follow each run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alerts, "APART_S", 0.0)
        yield


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    with running(tmp_path / "appliance") as appliance:
        yield appliance


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """One appliance for all tests of a module that restore its state or do not depend on it."""
    with running(tmp_path_factory.mktemp("shared") / "appliance") as appliance:
        yield appliance
