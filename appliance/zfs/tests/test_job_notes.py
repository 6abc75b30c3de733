# SPDX-License-Identifier: Apache-2.0
"""How many jobs have ended, in the note and in the pools."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from appliance.zfs.errors import PoolUnavailable
from appliance.zfs.job_notes import PROPERTY, Ended, Noted, NotesFile, PoolMarks
from appliance.zfs.model import VdevSpec
from appliance.zfs.simulator import Simulator

JOB, OWN, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")


@pytest.fixture
def simulator() -> Simulator:
    """With pools `one` and `two`."""
    made = Simulator()
    for name, disk in zip(("one", "two"), made.disks(), strict=False):
        made.create_pool(name, [VdevSpec(devices=(disk.path,))])
    return made


class Notes(NotesFile):
    """Who notes marks the pools too."""

    def note_jobs(self, jobs: Sequence[str], database: str, ended: int) -> None:
        """See NotesFile."""
        super().note_jobs(jobs, database, ended)
        self.mark_pools()


def notes(simulator: Simulator, path: Path) -> NotesFile:
    """As a process that was just started has them."""
    return Notes(path / "jobs", PoolMarks(simulator))


def test_the_note_and_each_pool_tell_it(simulator: Simulator, tmp_path: Path) -> None:
    assert notes(simulator, tmp_path).noted_jobs() == Noted()
    notes(simulator, tmp_path).note_jobs([JOB], OWN, 7)
    own = Ended(OWN, 7)
    assert notes(simulator, tmp_path).noted_jobs() == Noted((JOB,), own, (own, own))
    (tmp_path / "jobs").unlink()
    assert notes(simulator, tmp_path).noted_jobs() == Noted(by_pools=(own, own))


def test_it_never_goes_down_but_for_another_database(simulator: Simulator, tmp_path: Path) -> None:
    kept = notes(simulator, tmp_path)
    kept.note_jobs([], OWN, 7)
    kept.note_jobs([JOB], OWN, 6)
    assert kept.noted_jobs() == Noted((JOB,), Ended(OWN, 7), (Ended(OWN, 7),) * 2)
    anew = notes(simulator, tmp_path)
    (tmp_path / "jobs").unlink()
    anew.note_jobs([], OWN, 3)
    assert anew.noted_jobs() == Noted((), Ended(OWN, 3), (Ended(OWN, 7),) * 2)
    kept.note_jobs([], OTHER, 1)
    assert kept.noted_jobs() == Noted((), Ended(OTHER, 1), (Ended(OTHER, 1),) * 2)


def test_a_pool_that_can_not_be_written_gets_the_next(simulator: Simulator, tmp_path: Path) -> None:
    kept = notes(simulator, tmp_path)
    simulator.suspend("one")
    simulator.late["two"] = ("rollback",)
    kept.note_jobs([JOB], OWN, 1)
    simulator.clear("one")
    assert kept.noted_jobs() == Noted((JOB,), Ended(OWN, 1))
    simulator.late.clear()
    kept.note_jobs([], OWN, 2)
    assert kept.noted_jobs().by_pools == (Ended(OWN, 2),) * 2
    simulator.fail_next("set_properties", PoolUnavailable("one", "hangs"))
    kept.note_jobs([], OWN, 3)
    assert kept.noted_jobs().by_pools == (Ended(OWN, 2), Ended(OWN, 3))
    kept.note_jobs([], OWN, 4)
    assert kept.noted_jobs().by_pools == (Ended(OWN, 4),) * 2


def test_a_pool_that_knows_more_is_not_written_though_one_of_its_name_was(simulator: Simulator, tmp_path: Path) -> None:
    """One was exported, and another imported that is called the same."""
    kept = notes(simulator, tmp_path)
    kept.note_jobs([], OWN, 5)
    simulator.set_properties("one", {PROPERTY: str(Ended(OWN, 9))})
    kept.note_jobs([], OWN, 6)
    assert kept.noted_jobs().by_pools == (Ended(OWN, 9), Ended(OWN, 6))


def test_who_notes_waits_for_no_pool_that_is_read(simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, really = NotesFile(tmp_path / "jobs", PoolMarks(simulator)), PoolMarks.read

    def read(self: PoolMarks) -> tuple[Ended, ...]:
        other = threading.Thread(target=kept.note_jobs, args=([JOB], OWN, 1), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
        return really(self)

    monkeypatch.setattr(PoolMarks, "read", read)
    assert kept.noted_jobs() == Noted()


@pytest.mark.parametrize("text", ["7", f"{OWN} -1", f"{OWN} 1 ", f"{OWN} {'9' * 16}", "-", f"{OWN.upper()}x 1"])
def test_what_is_no_number_tells_nothing(text: str, simulator: Simulator, tmp_path: Path) -> None:
    simulator.set_properties("one", {PROPERTY: text})
    simulator.receive_properties("two", {PROPERTY: f"{OWN} 9"})
    assert notes(simulator, tmp_path).noted_jobs().by_pools == (), "what was received is another pool's"


def test_a_note_of_an_earlier_version_has_no_number(simulator: Simulator, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(f"{JOB}\n")
    assert notes(simulator, tmp_path).noted_jobs() == Noted((JOB,))
