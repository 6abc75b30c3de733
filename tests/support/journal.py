# SPDX-License-Identifier: Apache-2.0
"""A journal with the entries of a test, written by systemd-journal-remote(8)."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

_REMOTE = "/usr/lib/systemd/systemd-journal-remote"
_BOOT = "0123456789abcdef0123456789abcdef"


def entry(at: float, message: str | bytes, **fields: object) -> bytes:
    """Of the journal's export format (systemd.io/JOURNAL_EXPORT_FORMATS). `at` in seconds since 1970."""
    data = message.encode() if isinstance(message, str) else message
    times = {"__REALTIME_TIMESTAMP": int(at * 1e6), "__MONOTONIC_TIMESTAMP": int(at * 1e6) % 10**12, "_BOOT_ID": _BOOT}
    head = "".join(f"{name}={value}\n" for name, value in {**times, **fields}.items()).encode()
    return head + b"MESSAGE\n" + len(data).to_bytes(8, "little") + data + b"\n\n"


def program(folder: Path) -> None:
    """A journalctl(1) in this folder that reads the journal there, for processes that find it by PATH."""
    (folder / "journalctl").write_text(f'#!/bin/sh\nexec /usr/bin/journalctl --directory={folder} "$@"\n')
    (folder / "journalctl").chmod(0o755)


def write(folder: Path, entries: Iterable[bytes]) -> None:
    """Into a new file of this folder."""
    words = [_REMOTE, f"--output={folder / f'{len(list(folder.iterdir()))}.journal'}", "--split-mode=none", "-"]
    subprocess.run(words, input=b"".join(entries), check=True, capture_output=True)
