# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration on pools: files in the small unencrypted dataset POOL/zvaai-configuration.

The helper handles only names and sizes of the files. The worker seals their content (domain/sealed_copy.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.zfs import stable
from appliance.zfs.errors import DatasetExists, NoSuchDataset, OutOfSpace, Refused, UnexpectedFailure
from appliance.zfs.mountinfo import mounted_at, topmost

if TYPE_CHECKING:
    from appliance.zfs.kernel.pools import KernelEngine

DATASET = "zvaai-configuration"
ROOM, QUOTA = 8 << 20, 64 << 20
"""Reservation and quota of the dataset in bytes, so that a full pool still accepts a copy."""
RETAINED = 5
LARGEST = 3 << 20
"""Maximum bytes of a copy: a message to the helper, in base64, has 4 MiB (protocol.MAX_REQUEST_BYTES)."""
_INSTALLATIONS = 16
_NAME = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([0-9]{1,19})\.json")


class ConfigurationCopies(ABC):
    """Copies of the configuration on pools. Any method may raise ZfsError."""

    @abstractmethod
    def read_copies(self, pool: str) -> list[str]:
        """The newest copy of each installation, as text; empty if the pool has no such dataset. Changes nothing."""

    @abstractmethod
    def write_copy(self, pool: str, installation: str, generation: int, content: str) -> None:
        """Writes a copy to stable storage, and removes all but the newest RETAINED."""


def read_folder(folder: Path) -> list[str]:
    newest: dict[str, int] = {}
    for name in os.listdir(folder):  # noqa: PTH208  # names only
        if match := _NAME.fullmatch(name):
            newest[match[1]] = max(newest.get(match[1], -1), int(match[2]))
    texts = []
    for installation, generation in sorted(newest.items())[:_INSTALLATIONS]:
        # No link, which could lead to any file of root, and nothing that would block, such as a FIFO.
        descriptor = os.open(
            folder / f"{installation}-{generation}.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused(f"{file.name} is no regular file")
            texts.append(file.read(LARGEST))
    return texts


def write_folder(folder: Path, installation: str, generation: int, content: str) -> None:
    """See ConfigurationCopies.write_copy. Raises OSError."""
    stable.replace(folder / f"{installation}-{generation}.json", content.encode())
    matches = [match for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]  # noqa: PTH208
    generations = sorted(int(match[2]) for match in matches if match[1] == installation)
    for old in generations[:-RETAINED]:
        (folder / f"{installation}-{old}.json").unlink(missing_ok=True)


class PoolCopies(ConfigurationCopies):
    """Copies in a dataset of each pool, mounted below `directory`, which only root can read."""

    def __init__(self, engine: KernelEngine, directory: str) -> None:
        self._engine, self._directory = engine, directory
        self._locks: dict[str, threading.Lock] = {}
        self._changing = threading.Lock()

    def read_copies(self, pool: str) -> list[str]:
        with self._lock(pool), _as_zfs_error("read_copies"):
            try:
                return read_folder(self._seen(pool) or self._mounted(pool))
            except NoSuchDataset:
                return []

    def write_copy(self, pool: str, installation: str, generation: int, content: str) -> None:
        with self._lock(pool), _as_zfs_error("write_copy"):
            write_folder(self._seen(pool) or self._created(pool), installation, generation, content)

    def _lock(self, pool: str) -> threading.Lock:
        """Lock of a pool: a pool that hangs does not block others."""
        with self._changing:
            return self._locks.setdefault(pool, threading.Lock())

    def _seen(self, pool: str) -> Path | None:
        """The folder, if it is mounted already: then no program is run, and a copy takes as long as the pool needs to store it.

        Raises PoolUnavailable for a suspended pool, which would keep the caller until it is mended.
        """
        self._engine.need_pool(pool)
        name = f"{pool}/{DATASET}"
        places = (place for place in mounted_at(name) if place.startswith(f"{self._directory}.configuration-"))
        return next((Path(place) for place in places if topmost(place) == name), None)

    def _created(self, pool: str) -> Path:
        name = f"{pool}/{DATASET}"
        with contextlib.suppress(NoSuchDataset):
            self._engine.filesystem(name)
            return self._mounted(pool)
        properties = {"mountpoint": "none", "canmount": "noauto", "sync": "standard", "atime": "off", "quota": str(QUOTA)}
        properties["encryption"] = "off"  # `zvaai recover` needs no key of the pool
        properties |= {"setuid": "off", "devices": "off", "exec": "off", "sharenfs": "off", "sharesmb": "off", "readonly": "off"}
        with contextlib.suppress(DatasetExists):
            try:
                self._engine.create_filesystem(name, properties={**properties, "reservation": str(ROOM)})
            except OutOfSpace:
                self._engine.create_filesystem(name, properties=properties)
        return self._mounted(pool)

    def _mounted(self, pool: str) -> Path:
        """The folder, named by the pool's GUID. Raises Refused if another file system hides it."""
        name, place = f"{pool}/{DATASET}", f"{self._directory}.configuration-{self._engine.pool(pool).guid}"
        filesystem = self._engine.filesystem(name)
        if filesystem.mountpoint != place:
            self._engine.set_properties(name, {"mountpoint": place})
            filesystem = self._engine.filesystem(name)
        if not filesystem.mounted:
            self._engine.mount(name)
        if (visible := topmost(place)) != name:
            raise Refused(f"{visible or 'nothing'} is mounted at {place}, and not {name}")
        folder = Path(place)
        folder.chmod(0o700)
        return folder


@contextlib.contextmanager
def _as_zfs_error(operation: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise UnexpectedFailure(operation, str(problem)) from problem
