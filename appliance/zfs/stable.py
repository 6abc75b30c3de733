# SPDX-License-Identifier: Apache-2.0
"""Files that are as they were before a crash, or as they were to be."""

from __future__ import annotations

import os
from pathlib import Path


def replace(file: Path, content: bytes) -> None:
    """Whole, readable for its owner alone, and on stable storage (fsync(2), of the folder too). Raises OSError."""
    new = file.with_name(f"{file.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
