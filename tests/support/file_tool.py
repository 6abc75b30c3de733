# SPDX-License-Identifier: Apache-2.0
"""The operations of ganesha_fsal/fileops on real files, by fileops_tool: one operation per line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from support.programs import CACHE

TOOL = Path(os.environ.get("ZVAAI_GANESHA_FSAL", CACHE / "ganesha_fsal")) / "fileops" / "fileops_tool"


class Refused(Exception):
    """An operation failed; `name` is the name of the errno, for instance "ENOSPC"."""

    def __init__(self, name: str, line: str) -> None:
        super().__init__(f"{name}: {line}")
        self.name = name


@dataclass(frozen=True)
class Cloned:
    """How the bytes of a clone were made."""

    seconds: float
    done: int
    cloned: int
    copied: int
    holes: int
    fallback: Counter[str]


class FileTool:
    """The program with one or two thin datasets open. As a context manager it closes them at the end."""

    def __init__(self, root: Path, *more: Path) -> None:
        assert TOOL.exists(), f"{TOOL} is not built: packaging/build-ganesha-fsal"
        self._process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for word, path in zip(("open", "open2"), (root, *more), strict=False):
            self.call(word, path)

    def __enter__(self) -> FileTool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None and not kind:
            self.call("close")
        self.kill()

    def send(self, *words: object) -> None:
        """Starts an operation; `answer` waits for its end."""
        assert self._process.stdin
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def answer(self, request: str = "") -> dict[str, str]:
        """Answer to the oldest operation, as names and values. Raises Refused."""
        line = self.line(request).split()
        if line[0] != "ok":
            raise Refused(line[1], request)
        return dict(zip(line[1::2], line[2::2], strict=True))

    def line(self, request: str = "") -> str:
        """Answer to the oldest operation, unparsed."""
        assert self._process.stdout
        line = self._process.stdout.readline().rstrip("\n")
        assert line, f"fileops_tool ended: {self._process.poll()} {request}"
        return line

    def call(self, *words: object) -> dict[str, str]:
        """Runs an operation to its end."""
        self.send(*words)
        return self.answer(" ".join(map(str, words)))

    def clone(self, *words: object) -> Cloned:
        result = self.call(*words)
        done, cloned, copied, holes = (int(result.pop(name)) for name in ("done", "cloned", "copied", "holes"))
        seconds = float(result.pop("seconds"))
        return Cloned(seconds, done, cloned, copied, holes, Counter({name: int(bytes_) for name, bytes_ in result.items()}))

    def unique(self, path: Path) -> tuple[int, bool]:
        """Unique bytes of a file, and whether they are exact."""
        result = self.call("stat", path)
        return int(result["unique"]), result["exact"] == "1"

    def kill(self) -> None:
        """kill -9, if the program runs."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
