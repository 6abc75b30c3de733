"""kill -9 at random points of clones, promises and removals on ZFS: the ledger is right after each restart, nothing leaks."""

from __future__ import annotations

import filecmp
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import pool_property
from support.file_tool import FileTool
from support.programs import run
from support.short_pool import MIB, ShortPool

SOURCE = 6 * MIB
RECORD = 128 << 10


class Crowd:
    """Files that are changed all the time, and what of them must be so whenever the books are opened."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.choose = random.Random(seed)
        self.sources = [root / f"source{number}" for number in range(2)]
        self.by_name = [root / f"clone{number}" for number in range(4)]
        self.into = [root / f"into{number}" for number in range(2)]
        self.written = [root / f"written{number}" for number in range(3)]
        self.promised: dict[Path, bool | None] = {}  # None: nobody knows

    def begin(self) -> None:
        """The sources never change."""
        for path in (*self.sources, *self.written):
            path.write_bytes(os.urandom(SOURCE))
        for path in self.into:
            path.touch()

    def operation(self) -> tuple[object, ...]:
        """A random one, as words for the tool."""
        choose, thick = self.choose, [*self.by_name, *self.into, *self.written]
        source, written = choose.choice(self.sources), choose.choice(self.written)
        offset = choose.randrange(SOURCE // RECORD) * RECORD
        length = choose.randrange(1, (SOURCE - offset) // RECORD + 1) * RECORD
        return choose.choice(
            [
                ("clone", choose.choice(["fast", "full"]), source, self.root, choose.choice(self.by_name).name),
                ("clone", choose.choice(["fast", "full"]), source, self.root, choose.choice(self.by_name).name),
                ("into", choose.choice(["fast", "full"]), source, choose.choice(self.into)),
                ("range", "full", source, offset, written, offset, length),
                ("reserve", choose.choice(thick)),
                ("reserve", choose.choice(thick)),
                ("unreserve", choose.choice(thick)),
                ("remove", choose.choice(self.by_name)),
                ("write", written, offset, length, choose.randrange(1000)),
                ("punch", written, offset, length),
                ("truncate", written, choose.choice([0, MIB + 5, SOURCE])),
            ]
        )

    def learn(self, words: tuple[object, ...], answered: bool) -> None:
        """What is known of promises after an operation that was done; or that was under way when the tool was killed."""
        path = self.root / str(words[4]) if words[0] == "clone" else words[1]
        if words[0] in {"reserve", "unreserve", "clone", "remove"}:
            assert isinstance(path, Path)
            wanted = words[0] == "reserve"
            self.promised[path] = wanted if answered or self.promised.get(path, False) is wanted else None

    def round(self, tool: FileTool, seconds: float) -> int:
        """Operations until the kill; how many were done."""
        operations = [self.operation() for _ in range(40)]
        for words in operations:
            tool.send(*words)
        time.sleep(seconds)  # the moment is what is tried
        answers = tool.killed()
        for words, answer in zip(operations, answers, strict=False):
            if answer.startswith("ok"):
                self.learn(words, True)
        if len(answers) < len(operations):
            self.learn(operations[len(answers)], False)
        return len(answers)

    def check(self, tool: FileTool, pool: ShortPool) -> None:
        """The books beside the files and the pool."""
        status = tool.call("status")
        assert status["problem"] == "no", status
        assert int(status["needed_bytes"]) <= int(status["held_bytes"]), status
        assert pool.number("datastore", "refreservation") >= int(status["needed_bytes"])
        assert int(status["shared_bytes"]) >= pool_property(pool.name, "bclonesaved"), "too much, if anything"
        assert not list((self.root / ".zvaai" / "clones").iterdir())
        thick_bytes = 0
        for path in (*self.by_name, *self.into, *self.written):
            size = path.stat().st_size if path.exists() else 0
            reserved = int(tool.call("stat", path)["reserved"]) if path.exists() else 0
            wanted = self.promised.get(path, False) and path.exists()
            thick_bytes += reserved
            assert not wanted or reserved >= size, f"{path}: {reserved} of {size} promised"
            assert wanted is not False or reserved == 0, f"{path}: {reserved} promised that nobody asked for"
            if size or not path.exists():  # else nothing can be told
                self.promised[path] = reserved > 0
        assert int(status["thick_bytes"]) == thick_bytes, "none for a file that is gone"
        for path in (*self.by_name, *self.into):
            if path.exists() and (path in self.by_name or path.stat().st_size):
                assert any(filecmp.cmp(path, source, shallow=False) for source in self.sources), f"{path} is half"

    def end(self, tool: FileTool) -> None:
        """Removes all there is."""
        for path in (*self.by_name, *self.into, *self.written, *self.sources):
            if path.exists():
                tool.call("remove", path)
        tool.call("maintain")


@pytest.fixture
def dataset(short_pool: ShortPool, tmp_path: Path) -> Path:
    """One of the short pool."""
    root = tmp_path / "datastore"
    run("zfs", "create", "-o", f"mountpoint={root}", "-o", "compression=off", f"{short_pool.name}/datastore")
    return root


@pytest.mark.parametrize("kills", [25, pytest.param(100, marks=pytest.mark.long)])
def test_kills_leave_right_books_and_no_lost_space(
    short_pool: ShortPool, dataset: Path, seed: int, kills: int, tell: Callable[[str], None]
) -> None:
    """At any moment; what was promised stays so, no clone is half, clients go on, and in the end all space is back."""
    with FileTool(dataset, zfs=True):
        pass
    before = short_pool.number("datastore", "used")
    crowd = Crowd(dataset, seed)
    crowd.begin()
    done = []
    opened = 0.0
    for _ in range(kills):
        begun = time.monotonic()
        tool = FileTool(dataset, zfs=True)
        opened += time.monotonic() - begun
        crowd.check(tool, short_pool)
        done.append(crowd.round(tool, crowd.choose.uniform(0, 1.5)))
    with FileTool(dataset, zfs=True) as tool:
        crowd.check(tool, short_pool)
        crowd.end(tool)
        status = tool.call("status")
        assert (status["thick_files"], status["shared_bytes"], status["held_bytes"]) == ("0", "0", "0"), status
    assert pool_property(short_pool.name, "bcloneused") == 0
    assert short_pool.number("datastore", "refreservation") == 0
    assert short_pool.number("datastore", "used") - before < MIB, "of the ledger"
    short_pool.scrub()
    assert len(set(done)) > 3, "kills came at one moment only"
    tell(f"{kills} kills after {min(done)} to {max(done)} operations, books open again in {opened / kills:.2f} s")
