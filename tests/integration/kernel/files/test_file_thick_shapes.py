"""The thick promise with copies, parity, encryption and snapshots, in a pool that others fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.file_tool import FileTool, Refused
from support.programs import run, wait_for
from support.short_pool import MIB, Filler, ShortPool

SIZE = 24 * MIB
PASSPHRASE = "only a test has this"


class FilePool(ShortPool):
    """A small pool on files in memory."""

    def __init__(self, directory: Path, kind: list[str], disks: int) -> None:
        self.disks = [directory / f"disk{number}" for number in range(disks)]
        for disk in self.disks:
            with disk.open("wb") as file:
                file.truncate(800 * MIB // disks)
        self.name, self.files = "shape", directory / "files"
        run("zpool", "create", "-f", "-O", "mountpoint=none", self.name, *kind, *self.disks)
        self._added = list(self.disks)
        run("zfs", "create", "-o", f"mountpoint={self.files}", "-o", "compression=off", f"{self.name}/files")


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[Callable[..., FilePool]]:
    made = []

    def make(kind: list[str], disks: int) -> FilePool:
        made.append(FilePool(tmp_path, kind, disks))
        return made[-1]

    yield make
    for pool in made:
        pool.destroy()


@pytest.mark.long("10 to 25 s each; test_file_thick.py has one shape in each run")
@pytest.mark.parametrize(
    "shape",
    ["copies", "raidz", "snapshot", "encrypted"],
)
def test_reserved_clones_are_overwritten_in_a_full_pool(
    make_pool: Callable[..., FilePool], tmp_path: Path, shape: str, tell: Callable[[str], None]
) -> None:
    """A file and a clone of it, both promised; then the next promise is refused."""
    pool = make_pool(["raidz"], 3) if shape == "raidz" else make_pool([], 1)
    root, name = tmp_path / "datastore", f"{pool.name}/datastore"
    properties = {"mountpoint": str(root), "compression": "off"}
    if shape == "copies":
        properties["copies"] = "2"
    if shape == "encrypted":
        (tmp_path / "key").write_text(PASSPHRASE)
        properties |= {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{tmp_path / 'key'}"}
    run("zfs", "create", *(word for key, value in properties.items() for word in ("-o", f"{key}={value}")), name)
    one, clone = root / "one", root / "clone"
    with FileTool(root, zfs=True) as tool:
        tool.call("write", one, 0, SIZE, 1)
        tool.call("reserve", one)
        assert tool.clone("clone", "fast", one, root, "clone").cloned == SIZE
        tool.call("reserve", clone)
        if shape == "snapshot":  # it keeps what is overwritten, and ZFS itself sees to the space for that
            run("zfs", "snapshot", f"{name}@before")
        tool.call("truncate", root / "more", 400 * MIB)  # now: nothing promises that a full pool takes a new file
        tool.call("maintain")
        refused = 0
        with Filler(pool.files) as filler:
            filler.wait_until_refused()
            for turn, words in enumerate(((), ("sync",))):
                for path in (one, clone):
                    refused += int(tool.call("write", path, 0, SIZE, 10 + turn, *words)["retries"])
            with pytest.raises(Refused, match="ENOSPC"):
                tool.call("reserve", root / "more")
            filler.remove()
        wait_for(tool.is_maintained, "the books have no problem", 120)
        tell(f"{shape}: 4 x {SIZE // MIB} MiB overwritten in a full pool, {refused} waits for the pool")
        if shape == "snapshot":
            run("zfs", "destroy", f"{name}@before")
        for path in (one, clone):
            tool.call("remove", path)
        wait_for(lambda: tool.is_maintained() and tool.number("held_bytes") == 0, "nothing is held any more", 120)
    pool.scrub()
