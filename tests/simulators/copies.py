# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration on simulated pools, which mount nothing."""

from __future__ import annotations

from pathlib import Path

from appliance.zfs.configuration_copies import ConfigurationCopies, read_folder, write_folder


class FolderCopies(ConfigurationCopies):
    """In a folder for each pool."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read_copies(self, pool: str) -> list[str]:
        folder = self._directory / pool
        return read_folder(folder) if folder.is_dir() else []

    def write_copy(self, pool: str, installation: str, generation: int, content: str) -> None:
        folder = self._directory / pool
        folder.mkdir(parents=True, exist_ok=True)
        write_folder(folder, installation, generation, content)
