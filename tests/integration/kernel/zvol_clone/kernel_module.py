# SPDX-License-Identifier: Apache-2.0
"""Loading and unloading zvol_clone in the guest, with the exact error and the kernel's message."""

from __future__ import annotations

import ctypes
import os
import subprocess
import uuid
from pathlib import Path

from support.programs import CACHE, REPOSITORY, run

PACKAGE = REPOSITORY / "packaging/dkms/zvol_clone"
OPENZFS = os.environ.get("ZVAAI_ZFS", "2.3")
MODULE = CACHE / ("zvol_clone" if OPENZFS == "2.3" else f"zvol_clone-{OPENZFS}") / "zvol_clone.ko"
"""Made by `packaging/build-kernel` outside the guest."""

_SYS_FINIT_MODULE = 313
_SYS_DELETE_MODULE = 176
_libc = ctypes.CDLL(None, use_errno=True)


def kernel_log() -> str:
    """The kernel's log so far."""
    return run("dmesg")


def address_of(function: str, module: str | None = "zfs") -> int:
    """Address of a function by /proc/kallsyms; `module` None: one of the kernel itself."""
    for line in Path("/proc/kallsyms").read_text().splitlines():
        words = line.split()
        if words[2] == function and (words[3].strip("[]") if len(words) > 3 else None) == module:
            return int(words[0], 16)
    raise LookupError(f"{function} of {module or 'the kernel'} is not in /proc/kallsyms")


def insert(path: Path, **parameters: int) -> tuple[int, str]:
    """Inserts a module file; returns the errno (0: loaded) and new kernel messages."""
    # The log is a ring: its start changes.
    mark = f"zvaai test {uuid.uuid4()}"
    Path("/dev/kmsg").write_text(mark)
    fd = os.open(path, os.O_RDONLY)
    words = " ".join(f"{name}={value:#x}" for name, value in parameters.items())
    result = _libc.syscall(_SYS_FINIT_MODULE, fd, words.encode(), 0)
    error = ctypes.get_errno() if result else 0
    os.close(fd)
    return error, kernel_log().partition(mark)[2]


def remove(name: str) -> int:
    """Removes a module without waiting; returns the errno."""
    return ctypes.get_errno() if _libc.syscall(_SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK) else 0


def loaded(name: str = "zvol_clone") -> bool:
    """Whether the module is loaded."""
    return Path("/sys/module", name).is_dir()


def load(path: Path = MODULE) -> subprocess.CompletedProcess[str]:
    """Loads zvol_clone as an administrator does."""
    return subprocess.run([PACKAGE / "zvol_clone-load", path], capture_output=True, text=True, timeout=120, check=False)
