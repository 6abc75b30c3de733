# SPDX-License-Identifier: Apache-2.0
"""Disk images with a real file system in them."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from support.programs import run


def file_system_image(directory: Path, seed: int, size_mib: int) -> Path:
    """A raw image of an ext4 file system with files, links, holes and incompressible data, made from `seed`.

    Files take about three quarters. mkfs.ext4 -d copies them, so that no mount is needed.
    """
    tree = directory / "tree"
    random_bytes = random.Random(seed)
    budget = size_mib << 19
    for number in range(40):
        folder = tree / f"folder{number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        length = random_bytes.randrange(1, budget // 20)
        (folder / f"file{number}").write_bytes(random_bytes.randbytes(length))
    with (tree / "holes").open("wb") as sparse:
        for _ in range(20):
            sparse.seek(random_bytes.randrange(budget // 4))
            sparse.write(random_bytes.randbytes(5000))
    (tree / "link").symlink_to("folder0/file0")
    image = directory / "image.raw"
    with image.open("wb") as file:
        file.truncate(size_mib << 20)
    run("mkfs.ext4", "-q", "-F", "-d", tree, image)
    return image


def digest(path: Path, length: int | None = None) -> str:
    """SHA-256 of the first `length` bytes, or of all."""
    sha256 = hashlib.sha256()
    left = length if length is not None else path.stat().st_size
    with path.open("rb") as file:
        while left and (data := file.read(min(left, 1 << 20))):
            sha256.update(data)
            left -= len(data)
    assert not left, f"{path} is {left} bytes shorter than expected"
    return sha256.hexdigest()
