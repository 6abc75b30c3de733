# SPDX-License-Identifier: Apache-2.0
"""The command `vaai-nas`, and the control socket."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from support.ganesha import FSAL_LIBRARY

COMMAND = FSAL_LIBRARY.parent.parent / "client" / "vaai-nas"


def vaai_nas(*words: str | Path, user: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command; another user gets a folder that everybody can read."""
    with tempfile.TemporaryDirectory() as directory:
        as_user: list[str] = []
        command = COMMAND
        if user:
            as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            Path(directory).chmod(0o755)
            command = Path(shutil.copy(COMMAND, directory))
        return subprocess.run([*as_user, command, *words], check=False, capture_output=True, text=True, timeout=300)


def ask_control_socket(path: Path, *lines: bytes) -> list[Any]:
    """Answers of the control socket to arbitrary lines."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(path))
        connection.sendall(b"".join(line + b"\n" for line in lines))
        with connection.makefile("rb") as answers:
            return [json.loads(answers.readline()) for _ in lines]
