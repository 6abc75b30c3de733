# SPDX-License-Identifier: Apache-2.0
"""Nothing is done without complete knowledge of a dataset's holders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zfs.errors import HoldersUnknown
from appliance.zfs.kernel import KernelEngine, core
from appliance.zfs.model import Property, Source

DEVICE = Path("/dev/zd16")


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like /proc, with one process that has the device open, and a volume with a device."""
    monkeypatch.setattr(core, "_PROCESSES", tmp_path)
    monkeypatch.setattr(KernelEngine, "_device_of", lambda self, name: DEVICE)
    _process(tmp_path, 4242, [str(DEVICE)])
    yield tmp_path


def _process(folder: Path, number: int, opened: list[str]) -> Path:
    process = folder / str(number)
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text(f"program{number}\n")
    for link in ("cwd", "root"):
        (process / link).symlink_to("/")
    for index, path in enumerate(opened):
        (process / "fd" / str(index)).symlink_to(path)
    return process


def test_a_holder_is_found(processes: Path) -> None:
    _process(processes, 4243, ["/dev/null"])
    assert KernelEngine().holders_of(["tank/a"]) == {"tank/a": ("program4242 (process 4242)",)}


def test_a_process_that_ends_meanwhile_holds_nothing(processes: Path) -> None:
    (processes / "4243").mkdir()  # no link in it, as of an ended process
    assert len(KernelEngine().holders_of(["tank/a"])["tank/a"]) == 1


def test_a_scan_that_takes_too_long_proves_nothing(processes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_HOLDER_SECONDS", -1.0)
    with pytest.raises(HoldersUnknown, match="tank/a"):
        KernelEngine().holders_of(["tank/a"])
    monkeypatch.setattr(KernelEngine, "holders", lambda self, name: KernelEngine().holders_of([name])[name])
    assert KernelEngine().who("tank/a") == ()  # for the text of an error only


def test_a_process_that_can_not_be_read_proves_nothing(processes: Path) -> None:
    process = _process(processes, 4243, [])
    (process / "fd").rmdir()
    (process / "fd").write_text("as unreadable as a folder of somebody else's")
    with pytest.raises(HoldersUnknown):
        KernelEngine().holders_of(["tank/a"])


@pytest.mark.parametrize(
    ("properties", "known"),
    [
        ({"type": "volume", "volmode": "default"}, False),
        ({"type": "volume", "volmode": "none"}, True),
        ({"type": "volume", "volmode": "default", "keystatus": "unavailable"}, True),
        ({"type": "filesystem"}, True),
    ],
)
def test_a_missing_link_is_no_proof(properties: dict[str, str], known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """udev may be late or missing; only a volume without a device has certainly no holder."""
    assert not os.path.lexists("/dev/zvol/absent/a")  # noqa: PTH110
    values = {name: Property(value, Source.NONE) for name, value in properties.items()}
    monkeypatch.setattr(KernelEngine, "properties", lambda self, name: values)
    if known:
        assert KernelEngine().holders_of(["absent/a"]) == {"absent/a": ()}
        return
    with pytest.raises(HoldersUnknown, match="udevadm trigger"):
        KernelEngine().holders_of(["absent/a"])
