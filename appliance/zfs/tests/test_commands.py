# SPDX-License-Identifier: Apache-2.0
"""Running programs: time limits, bounds, nothing inherited. And reading what zpool lists as text, and its words for vdevs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from appliance.zfs.errors import EngineUnavailable, Timeout, UnexpectedFailure
from appliance.zfs.kernel import commands, reading
from appliance.zfs.kernel.pools import words_of
from appliance.zfs.model import Health, Redundancy, Role, VdevSpec


def test_output_status_and_complaint() -> None:
    result = commands.run(["/bin/sh", "-c", "cat; echo no >&2; exit 3"], seconds=10, stdin=b"yes")
    assert (result.status, result.output, result.complaint) == (3, b"yes", "no\n")


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZPOOL_SCRIPTS_ENABLED", "1")
    names = commands.run(["/usr/bin/env"], seconds=10).output.decode()
    assert "ZPOOL_SCRIPTS" not in names and "LC_ALL=C.UTF-8" in names


def test_time_limit_ends_started_programs(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    for seconds in (0.5, 5, 30):
        began = time.monotonic()
        with pytest.raises(Timeout) as caught:
            commands.run(["/bin/sh", "-c", f"sleep 600 & echo $! >{pid}; wait"], seconds=seconds)
        assert time.monotonic() - began < seconds + 60 and caught.value.seconds == seconds
        if pid.exists() and pid.read_text():  # it has reached this point then
            break
    until = time.monotonic() + 60
    while Path(f"/proc/{pid.read_text().strip()}/fd").exists() and _is_alive(int(pid.read_text())):
        assert time.monotonic() < until, "what the program started is still there"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_endless_output_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT_BYTES", 1 << 20)
    with pytest.raises(UnexpectedFailure):
        commands.run(["/usr/bin/yes"], seconds=30)


def test_missing_program() -> None:
    with pytest.raises(EngineUnavailable):
        commands.run(["/usr/sbin/nosuchprogram"], seconds=1)
    with pytest.raises(UnexpectedFailure):
        commands.run(["/bin/true", "a\0b"], seconds=1)


@pytest.mark.parametrize("output", [b"[]", b"{", b"\xff", b"7"])
def test_no_json(output: bytes) -> None:
    with pytest.raises(UnexpectedFailure):
        commands.json_of(output, "x")


LISTED = """\
  pool: tank
    id: 12754005948987169404
 state: ONLINE
action: The pool can be imported using its name or numeric identifier.
config:

\ttank             ONLINE
\t  mirror-0       ONLINE
\t    /dev/shm/d3  ONLINE
\t    /dev/shm/d2  ONLINE
\tspares
\t  /dev/shm/d4

  pool: other pool
    id: 77
 state: UNAVAIL
status: The pool was last accessed by another system.
 action: The pool cannot be imported. Attach the missing
\tdevices and try again.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY
config:

\tother      UNAVAIL  insufficient replicas
\t  sda      UNAVAIL
"""


def test_pools_to_import() -> None:
    first, second = reading.importable(LISTED)
    assert (first.name, first.guid, first.health, first.last_host) == ("tank", 12754005948987169404, Health.ONLINE, None)
    assert first.devices == ("/dev/shm/d3", "/dev/shm/d2", "/dev/shm/d4")
    assert (second.guid, second.health, second.last_host) == (77, Health.UNAVAILABLE, "another system")
    assert second.action == "The pool cannot be imported. Attach the missing devices and try again."
    assert reading.importable("") == []
    resilver = LISTED.replace("The pool was last accessed by another system.", "One or more devices were being resilvered.")
    assert [pool.last_host for pool in reading.importable(resilver)] == [None, "unknown"]


def test_vdevs_are_not_merged() -> None:
    """zpool takes single devices after a mirror for devices of the mirror, and "log", "cache" and "spare" once."""

    def vdev(devices: str, redundancy: Redundancy = Redundancy.STRIPE, role: Role = Role.DATA) -> VdevSpec:
        return VdevSpec(devices=tuple(devices), redundancy=redundancy, role=role)

    mirror, raidz = Redundancy.MIRROR, Redundancy.RAIDZ1
    assert words_of([vdev("ab", mirror), vdev("cd")]) == ["c", "d", "mirror", "a", "b"]
    logs = [vdev("ab", mirror, Role.LOG), vdev("c", role=Role.SPARE), vdev("d", role=Role.LOG), vdev("ef", mirror, Role.LOG)]
    words = words_of([*logs, vdev("g", role=Role.SPARE), vdev("hij", raidz), vdev("k")])
    assert " ".join(words) == "k raidz1 h i j log d mirror a b mirror e f spare c g"


def test_guids_of_64_bits() -> None:
    assert reading.number("18446744073709551615") == (1 << 64) - 1
    assert reading.number("-") == reading.number("none") == reading.number(None) == 0
