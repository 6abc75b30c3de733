"""Clones of files by their contract, on XFS with reflink: names, guards, ranges, cancelled and killed ones."""

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
def tool(root: Path) -> Iterator[FileTool]:
    """Its books; what a test left is removed."""
    with FileTool(root) as tool:
        yield tool
    for path in root.iterdir():
        if path.name not in {"source", ".zvaai"}:
            path.unlink()


def test_by_name(root: Path, tool: FileTool) -> None:
    """All shared, with the source's bits; the same name is replaced in one step, unless guarded."""
    (root / "source").chmod(0o640)
    (root / "clone").write_bytes(b"old")
    with pytest.raises(Refused, match="EEXIST"):
        tool.clone("clone", "full", root / "source", root, "clone", "guarded")
    assert (root / "clone").read_bytes() == b"old"
    found = tool.clone("clone", "fast", root / "source", root, "clone")
    assert found.cloned == found.done == (root / "source").stat().st_size
    assert filecmp.cmp(root / "source", root / "clone", shallow=False)
    assert (root / "clone").stat().st_mode & 0o7777 == 0o640
    assert tool.unique(root / "clone") == (0, True)
    assert not list((root / ".zvaai" / "clones").iterdir())


def test_dry_runs_change_nothing(root: Path, tool: FileTool, tmp_path: Path) -> None:
    before = sorted(root.iterdir())
    tool.clone("clone", "fast", root / "source", root, "clone", "dry")
    (tmp_path / "elsewhere").write_bytes(bytes(MIB))
    with pytest.raises(Refused, match="EXDEV"):
        tool.clone("clone", "fast", tmp_path / "elsewhere", root, "clone", "dry")
    tool.clone("clone", "full", tmp_path / "elsewhere", root, "clone", "dry")
    with pytest.raises(Refused, match="EEXIST"):
        tool.clone("clone", "full", root / "source", root, "source", "guarded", "dry")
    assert sorted(root.iterdir()) == before
    tool.call("maintain")
    assert tool.number("shared_bytes") == 0


def test_from_another_file_system(root: Path, tool: FileTool, tmp_path: Path) -> None:
    """Copied with its holes, and said so; a fast clone is refused and leaves nothing."""
    source = tmp_path / "elsewhere"
    with source.open("wb") as file:
        file.seek(8 * MIB)
        file.write(os.urandom(MIB))
        file.truncate(16 * MIB + 5)
    with pytest.raises(Refused, match="EXDEV"):
        tool.clone("clone", "fast", source, root, "clone")
    (root / "present").write_bytes(b"what was there")
    with pytest.raises(Refused, match="EXDEV"):
        tool.clone("into", "fast", source, root / "present")
    assert (root / "present").read_bytes() == b"what was there"
    assert not (root / "clone").exists()
    found = tool.clone("clone", "full", source, root, "clone")
    assert (found.cloned, found.copied, found.holes) == (0, MIB, 15 * MIB + 5)
    assert dict(found.fallback) == {"other_file_system": MIB}
    assert filecmp.cmp(source, root / "clone", shallow=False)
    assert (root / "clone").stat().st_blocks * 512 <= MIB + BLOCK


def test_ranges(root: Path, tool: FileTool, seed: int) -> None:
    """Any range: its bytes are the source's, all others stay; the aligned middle is shared when there is one."""
    choose = random.Random(seed)
    source = (root / "source").read_bytes()
    expected = bytearray(os.urandom(4 * MIB))
    (root / "target").write_bytes(expected)
    for number in range(40):
        length = choose.choice([1, 511, BLOCK, BLOCK + 1, 100_000, MIB])
        unit = BLOCK if number % 2 else 1
        start = choose.randrange((len(source) - length) // unit) * unit
        to = choose.randrange((len(expected) - length) // unit) * unit
        found = tool.clone("range", "full", root / "source", start, root / "target", to, length)
        assert found.done == found.cloned + found.copied + found.holes == length
        assert found.cloned == (length // BLOCK * BLOCK if unit == BLOCK else found.cloned)
        expected[to : to + length] = source[start : start + length]
    assert (root / "target").read_bytes() == expected
    for words in (("source", len(source) - 5, "target", 0, 6), ("source", 0, "source", 100, 200)):
        with pytest.raises(Refused, match="EINVAL"):
            tool.clone("range", "full", root / words[0], words[1], root / words[2], *words[3:])
    with pytest.raises(Refused, match="EOPNOTSUPP"):
        tool.clone("range", "fast", root / "source", 1, root / "target", 1, 100)


def test_into_a_file_that_is_open_elsewhere(root: Path, tool: FileTool) -> None:
    """The file stays the same file, and becomes the source in data and size."""
    (root / "target").write_bytes(os.urandom(32 * MIB))
    inode = (root / "target").stat().st_ino
    tool.clone("into", "full", root / "source", root / "target")
    assert filecmp.cmp(root / "source", root / "target", shallow=False)
    assert (root / "target").stat().st_ino == inode


def test_a_kill_leaves_nothing_half(root: Path, tmp_path: Path, seed: int) -> None:
    """By name: the old file or the new one. Into a file: empty or whole. Nothing is left of what was under way."""
    choose = random.Random(seed)
    source = tmp_path / "elsewhere"
    source.write_bytes(os.urandom(48 * MIB))
    outcomes: set[tuple[str, str]] = set()
    kills = 0
    with FileTool(root) as tool:  # how long it takes here and now
        began = time.monotonic()
        tool.clone("clone", "full", source, root, "by_name")
        tool.call("write", root / "into", 0, 3, 1)
        tool.clone("into", "full", source, root / "into")
        whole_time = time.monotonic() - began
    while kills < 12 or (len(outcomes) == 1 and kills < 60):
        kills += 1
        (root / "by_name").write_bytes(b"old")
        (root / "into").write_bytes(b"old")
        tool = FileTool(root)
        for words in (("clone", "full", source, root, "by_name"), ("into", "full", source, root / "into")):
            tool.send(*words)
        # The moment is what is tried; where all came too soon the machine has become slower meanwhile.
        time.sleep(choose.uniform(0, 1.2 * whole_time * (1 + kills // 12)))
        tool.kill()
        with FileTool(root):
            assert not list((root / ".zvaai" / "clones").iterdir())
            by_name = "old" if (root / "by_name").read_bytes() == b"old" else "whole"
            assert by_name == "old" or filecmp.cmp(source, root / "by_name", shallow=False)
            size = (root / "into").stat().st_size
            into = {0: "empty", 3: "old"}.get(size, "whole")
            assert into != "whole" or filecmp.cmp(source, root / "into", shallow=False)
            outcomes.add((by_name, into))
    assert len(outcomes) > 1, "kills came at one moment only"
    for name in ("by_name", "into"):
        (root / name).unlink()
