# SPDX-License-Identifier: Apache-2.0
"""Files that are cloned and changed through the file operations library, and the state that must hold after a crash."""

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
MAKING = ".zvaai-clones"

Words = tuple[object, ...]


class Crowd:
    """Whether each clone exists: True, False, or None for either, because a power cut can undo a removal."""

    def __init__(self, root: Path, dataset: str, seed: int) -> None:
        self.root, self.dataset = root, dataset
        self.choose = random.Random(seed)
        self.sources = [root / f"source{index}" for index in range(2)]
        self.clones: dict[Path, bool | None] = {root / f"clone{index}": False for index in range(6)}
        self.written = [root / f"written{index}" for index in range(3)]

    def begin(self) -> None:
        """Creates the files. The sources never change."""
        for path in (*self.sources, *self.written):
            path.write_bytes(os.urandom(SOURCE))

    def operation(self) -> Words:
        """A random operation, as words for the tool."""
        choose = self.choose
        source, written = choose.choice(self.sources), choose.choice(self.written)
        offset = choose.randrange(SOURCE // RECORD) * RECORD
        length = choose.randrange(1, (SOURCE - offset) // RECORD + 1) * RECORD
        operations: list[Words] = [
            ("clone", choose.choice(["fast", "full"]), source, self.root, choose.choice(list(self.clones)).name),
            ("clone", choose.choice(["fast", "full"]), source, self.root, choose.choice(list(self.clones)).name),
            ("remove", choose.choice(list(self.clones))),
            ("remove", choose.choice(self.written)),
            ("clone", "full", source, self.root, written.name),
            ("write", written, offset, length, choose.randrange(1000)),
            ("punch", written, offset, length),
            ("truncate", written, choose.choice([0, MIB + 5, SOURCE])),
        ]
        return choose.choice(operations)

    def learn(self, words: Words, answer: str | None) -> None:
        """Records an operation and its answer. None: the operation was running when everything ended."""
        kind = words[0]
        path = self.root / str(words[4]) if kind == "clone" else words[1]
        assert isinstance(path, Path)
        if kind not in {"clone", "remove"} or path not in self.clones:
            return
        done = answer is not None and answer.startswith("ok")
        if answer is not None and not done:
            return
        is_clone = kind == "clone"
        self.clones[path] = is_clone if (done and is_clone) or self.clones[path] is is_clone else None

    def check(self) -> None:
        """Checks the files after the dataset was opened again."""
        assert not (self.root / MAKING).exists()
        for path, is_present in self.clones.items():
            assert is_present in {path.exists(), None}, f"{path} is {'' if path.exists() else 'not '}there"
            self.clones[path] = path.exists()
            if path.exists():
                assert any(filecmp.cmp(path, source, shallow=False) for source in self.sources), f"{path} is half"

    def end(self, tool: FileTool) -> None:
        """Removes all files, so that the pool shares no blocks."""
        for path in (*self.clones, *self.written, *self.sources):
            if path.exists():
                tool.call("remove", path)
        assert not list(self.root.iterdir())
        pool = self.dataset.partition("/")[0]
        run("zpool", "sync", pool)
        assert run("zpool", "get", "-Hpo", "value", "bcloneused", pool).strip() == "0"
