# SPDX-License-Identifier: Apache-2.0
"""The package's udev rule: the server takes nothing that it finds in a zvol."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.kernel.conftest import VolumeOf
from integration.kernel.zvol_clone.blocks import partition_of
from support.programs import REPOSITORY, run

RULE = REPOSITORY / "packaging/systemd/59-zvaai-target.rules"


@pytest.fixture
def rule() -> Iterator[None]:
    installed = Path("/run/udev/rules.d", RULE.name)
    installed.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(RULE, installed)
    run("udevadm", "control", "--reload")
    yield
    installed.unlink()
    run("udevadm", "control", "--reload")


def probed(device: Path) -> tuple[set[str], set[str]]:
    """Names of the properties by which LVM, mdadm and others take a device, and its links."""
    run("udevadm", "settle")
    properties = dict(line.split("=", 1) for line in run("udevadm", "info", "-q", "property", str(device)).splitlines())
    return {name for name in properties if name.startswith(("ID_FS", "ID_PART"))}, set(properties["DEVLINKS"].split())


def test_udev_finds_a_signature_without_the_rule(volume: VolumeOf) -> None:
    device = volume(16)
    run("mkswap", device)
    names, links = probed(device)
    assert "ID_FS_TYPE" in names and any(link.startswith("/dev/disk/by-uuid/") for link in links)


@pytest.mark.usefixtures("rule")
def test_udev_finds_nothing_in_a_zvol_and_makes_its_link(volume: VolumeOf) -> None:
    device = volume(16)
    run("mkswap", device)
    assert probed(device) == (set(), {str(device)})
    # As at the start of the server and at the import of the pool.
    run("udevadm", "trigger", "--action=add", "--settle", device)
    assert probed(device) == (set(), {str(device)})


@pytest.mark.usefixtures("rule")
def test_udev_finds_nothing_in_a_partition_of_a_zvol(volume: VolumeOf) -> None:
    device = volume(16)
    part = partition_of(device)
    run("mkswap", part)
    assert probed(part) == (set(), {str(part)})
    assert probed(device) == (set(), {str(device)})
