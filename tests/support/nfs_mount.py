# SPDX-License-Identifier: Apache-2.0
"""The kernel's NFS client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from support.programs import run, wait_for


@contextlib.contextmanager
def kernel_mount(export: str, directory: Path, version: str = "4.2", *options: str, server: str = "127.0.0.1") -> Iterator[Path]:
    """Mounts an export of the local ganesha at `directory`, by version "3", "4.0", "4.1" or "4.2".

    If `server` is another address of this machine, the client uses that address too.
    """
    directory.mkdir(parents=True, exist_ok=True)
    words = [f"vers={version}", "proto=tcp", "nosharecache", *options]
    if version == "3":
        words += ["nolock", "mountport=20048", "port=2049"]
    run("mount", "-t", "nfs", "-o", ",".join(words), f"{server}:{export}", directory)
    try:
        yield directory
    finally:
        wait_for(lambda: _unmounted(directory), f"{directory} is unmounted")


def _unmounted(directory: Path) -> bool:
    with contextlib.suppress(AssertionError):
        run("umount", directory)
    return not directory.is_mount()
