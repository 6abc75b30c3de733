# SPDX-License-Identifier: Apache-2.0
"""Running other programs."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"
IN_GUEST = os.environ.get("ZVAAI_GUEST") == "1"
"""Whether this runs inside the guest."""


class ProgramFailed(AssertionError):
    """A program ended with an exit code other than 0; the text has its command line and output."""


def run(*command: str | Path, timeout: float = 300, **options: Any) -> str:
    """Standard output of a program. Raises ProgramFailed, subprocess.TimeoutExpired."""
    words = [str(word) for word in command]
    text: dict[str, Any] = {"capture_output": True, "text": True, "errors": "backslashreplace"}
    result = subprocess.run(words, timeout=timeout, check=False, **text, **options)
    if result.returncode != 0:
        raise ProgramFailed(f"{shlex.join(words)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return str(result.stdout)


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 180) -> None:
    """Returns when `condition` holds. Raises TimeoutError with `what`; the limit allows for slow, loaded machines."""
    until = time.monotonic() + timeout
    began = time.monotonic()
    while not condition():
        ended = time.monotonic()
        if ended > until:
            raise TimeoutError(f"{what}: not within {timeout} s")
        # Checks take at most half of the processor from what they wait for, and one slow check delays the next little.
        time.sleep(min(max(0.02, ended - began), 0.5))
        began = time.monotonic()
