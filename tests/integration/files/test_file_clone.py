# SPDX-License-Identifier: Apache-2.0
"""The contract of file clones, on XFS with reflink: names, non-empty files, other file systems, kills."""

from __future__ import annotations

import filecmp
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.file_tool import FileTool, Refused
from support.ganesha import mounted_xfs
from support.programs import run

MIB = 1 << 20
BLOCK = 4096
MAKING = ".zvaai-clones"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount with a source of 24 MiB: data, a hole, and an odd end."""
    with mounted_xfs(tmp_path_factory.mktemp("xfs")) as mount:
        with (mount / "source").open("wb") as file:
            file.write(os.urandom(8 * MIB))
            file.seek(16 * MIB)
            file.write(os.urandom(8 * MIB - 100))
        run("sync", "-f", str(mount))
        yield mount


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder on another file system."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


@pytest.fixture
def tool(root: Path, elsewhere: Path) -> Iterator[FileTool]:
    """A tool on both file systems; removes what a test left."""
    with FileTool(root, elsewhere) as tool:
        yield tool
    assert not (root / MAKING).exists()
    for path in root.iterdir():
        if path.name != "source":
            path.unlink()


def test_by_name(root: Path, tool: FileTool) -> None:
    """All blocks are shared. An existing name is refused and keeps its content."""
    (root / "present").write_bytes(b"old")
    with pytest.raises(Refused, match="EEXIST"):
        tool.clone("clone", "full", root / "source", root, "present")
    assert (root / "present").read_bytes() == b"old"
    result = tool.clone("clone", "fast", root / "source", root, "clone")
    assert result.cloned == result.done == (root / "source").stat().st_size
    assert filecmp.cmp(root / "source", root / "clone", shallow=False)
    assert (root / "clone").stat().st_mode & 0o7777 == 0o644
    assert not tool.unique(root / "clone")[1], "the kernel module does not know XFS: an upper bound"


def test_from_another_file_system(root: Path, tool: FileTool, elsewhere: Path) -> None:
    """The clone is a copy with holes, and is reported as one. A fast clone is refused and leaves nothing."""
    source = elsewhere / "source"
    with source.open("wb") as file:
        file.seek(8 * MIB)
        file.write(os.urandom(MIB))
        file.truncate(16 * MIB + 5)
    with pytest.raises(Refused, match="EXDEV"):
        tool.clone("clone", "fast", source, root, "clone")
    assert not (root / "clone").exists()
    (root / "empty").touch()
    with pytest.raises(Refused, match="EXDEV"):
        tool.clone("into", "fast", source, root / "empty")
    assert (root / "empty").stat().st_size == 0
    result = tool.clone("clone", "full", source, root, "clone")
    assert (result.cloned, result.copied, result.holes) == (0, MIB, 15 * MIB + 5)
    assert dict(result.fallback) == {"other_file_system": MIB}
    assert filecmp.cmp(source, root / "clone", shallow=False)
    assert (root / "clone").stat().st_blocks * 512 <= MIB + BLOCK


def test_into_a_file(root: Path, tool: FileTool) -> None:
    """The file keeps its identity and gets data and size of the source. A set size is not data; a file with data is refused."""
    target = root / "target"
    with target.open("wb") as file:
        file.truncate(32 * MIB)
    inode = target.stat().st_ino
    assert tool.clone("into", "full", root / "source", target).cloned == (root / "source").stat().st_size
    assert filecmp.cmp(root / "source", target, shallow=False)
    assert target.stat().st_ino == inode
    with pytest.raises(Refused, match="EEXIST"):
        tool.clone("into", "full", root / "source", target)
    with pytest.raises(Refused, match="EINVAL"):
        tool.clone("into", "full", target, target)
    assert filecmp.cmp(root / "source", target, shallow=False)


def test_a_kill_leaves_no_partial_clone(root: Path, elsewhere: Path, seed: int) -> None:
    """By name: no file or a complete one. Reopening the file system removes what was running."""
    choose = random.Random(seed)
    source, clone = elsewhere / "source", root / "clone"
    source.write_bytes(os.urandom(48 * MIB))
    outcomes: set[str] = set()
    left = kills = 0
    with FileTool(root, elsewhere) as tool:
        began = time.monotonic()
        tool.clone("clone", "full", source, root, "clone")
        latest = time.monotonic() - began
    while kills < 12 or ((len(outcomes) == 1 or not left) and kills < 60):
        kills += 1
        clone.unlink(missing_ok=True)
        tool = FileTool(root, elsewhere)
        tool.send("clone", "full", source, root, "clone")
        # The random moment is the test. Its range follows the duration on this machine, which changes.
        time.sleep(choose.uniform(0, latest))
        tool.kill()
        left += (root / MAKING).exists()
        with FileTool(root):
            assert not (root / MAKING).exists()
        outcomes.add("whole" if clone.exists() else "absent")
        latest *= 0.5 if clone.exists() else 1.5
        assert not clone.exists() or filecmp.cmp(source, clone, shallow=False)
    assert len(outcomes) > 1, "kills came at one moment only"
    assert left, "no kill came while a clone was made"
    clone.unlink(missing_ok=True)
