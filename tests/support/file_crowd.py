"""Files that are changed all the time through the library of file operations, and what must be so of them after a crash."""

from __future__ import annotations

import filecmp
import os
import random
from pathlib import Path

from support.file_tool import FileTool
from support.programs import run

MIB = 1 << 20
SOURCE = 6 * MIB
RECORD = 128 << 10

Words = tuple[object, ...]


def number(kind: str, name: str, of: str) -> int:
    """A property of a pool ("zpool") or a dataset ("zfs")."""
    return int(run(kind, "get", "-Hpo", "value", name, of))


class Crowd:
    """What is known of each file, True or False; None: it may be either. `removals_last`: no power cut takes them back."""

    def __init__(self, root: Path, dataset: str, seed: int, *, removals_last: bool = True) -> None:
        self.root, self.dataset = root, dataset
        self.choose = random.Random(seed)
        self.removals_last = removals_last
        self.sources = [root / f"source{index}" for index in range(2)]
        self.by_name = [root / f"clone{index}" for index in range(4)]
        self.into = [root / f"into{index}" for index in range(2)]
        self.written = [root / f"written{index}" for index in range(3)]
        self.promised: dict[Path, bool | None] = dict.fromkeys((*self.by_name, *self.into, *self.written), False)
        self.whole: dict[Path, bool | None] = dict.fromkeys((*self.by_name, *self.into), False)

    def begin(self) -> None:
        """Makes the files. The sources never change."""
        for path in (*self.sources, *self.written):
            path.write_bytes(os.urandom(SOURCE))
        for path in self.into:
            path.touch()

    def operation(self) -> Words:
        """A random one, as words for the tool."""
        choose, thick = self.choose, [*self.by_name, *self.into, *self.written]
        source, written = choose.choice(self.sources), choose.choice(self.written)
        offset = choose.randrange(SOURCE // RECORD) * RECORD
        length = choose.randrange(1, (SOURCE - offset) // RECORD + 1) * RECORD
        operations: list[Words] = [
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
        return choose.choice(operations)

    def learn(self, words: Words, answer: str | None) -> None:
        """An operation and its answer; None: it was under way when all ended."""
        kind = words[0]
        if kind not in {"clone", "into", "reserve", "unreserve", "remove"}:
            return
        path = self.root / str(words[4]) if kind == "clone" else words[3 if kind == "into" else 1]
        assert isinstance(path, Path)
        done = answer is not None and answer.startswith("ok")
        if kind == "into" and not done:  # it is empty on the way
            self.whole[path] = None
            return
        if answer is not None and not done:
            return
        if kind in {"reserve", "unreserve", "clone", "remove"}:
            self.promised[path] = self._after(self.promised[path], kind == "reserve", done, kind)
        if kind in {"clone", "into", "remove"}:
            self.whole[path] = self._after(self.whole[path], kind != "remove", done, kind)

    def _after(self, before: bool | None, wanted: bool, done: bool, kind: object) -> bool | None:
        certain = done and (kind != "remove" or self.removals_last)
        return wanted if certain or before is wanted else None

    def check(self, tool: FileTool) -> None:
        """The books, just opened, beside the files and the pool."""
        pool = self.dataset.partition("/")[0]
        run("zpool", "sync", pool)
        status = tool.call("status")
        assert status["problem"] == "no", status
        assert int(status["needed_bytes"]) <= int(status["held_bytes"]), status
        assert number("zfs", "refreservation", self.dataset) >= int(status["needed_bytes"])
        assert int(status["shared_bytes"]) >= number("zpool", "bclonesaved", pool), "too much, if anything"
        assert not list((self.root / ".zvaai" / "clones").iterdir())
        thick_bytes = sum(self._check_promise(tool, path) for path in self.promised)
        assert int(status["thick_bytes"]) == thick_bytes, "none for a file that is gone"
        for path in self.whole:
            self._check_whole(path)

    def _check_promise(self, tool: FileTool, path: Path) -> int:
        there = path.exists()
        size = path.stat().st_size if there else 0
        reserved = int(tool.call("stat", path)["reserved"]) if there else 0
        wanted = self.promised[path]
        assert not (wanted and there) or reserved >= size, f"{path}: {reserved} of {size} promised"
        assert wanted is not False or reserved == 0, f"{path}: {reserved} promised that nobody asked for"
        if size or not there:  # of an empty file nothing can be told
            self.promised[path] = reserved > 0
        return reserved

    def _check_whole(self, path: Path) -> None:
        is_there = path.exists() and (path in self.by_name or path.stat().st_size > 0)
        assert self.whole[path] in {is_there, None}, f"{path} is {'' if is_there else 'not '}there"
        if is_there:
            assert any(filecmp.cmp(path, source, shallow=False) for source in self.sources), f"{path} is half"
        self.whole[path] = is_there

    def end(self, tool: FileTool) -> None:
        """Removes all there is: nothing is held or shared then."""
        for path in (*self.promised, *self.sources):
            if path.exists():
                tool.call("remove", path)
        tool.call("maintain")
        status = tool.call("status")
        assert (status["thick_files"], status["shared_bytes"], status["held_bytes"]) == ("0", "0", "0"), status
        pool = self.dataset.partition("/")[0]
        run("zpool", "sync", pool)
        assert number("zpool", "bcloneused", pool) == number("zfs", "refreservation", self.dataset) == 0
