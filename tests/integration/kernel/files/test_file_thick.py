"""Promises to files of a dataset, on a pool that others fill to the last byte."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.file_tool import FileTool, Refused
from support.programs import run, wait_for
from support.short_pool import MIB, Filler, ShortPool

SIZE = 96 * MIB


@pytest.fixture
def dataset(short_pool: ShortPool, tmp_path: Path) -> Path:
    """A dataset of the short pool where files are promised space."""
    root = tmp_path / "datastore"
    run("zfs", "create", "-o", f"mountpoint={root}", "-o", "compression=off", f"{short_pool.name}/datastore")
    return root


@pytest.fixture
def tool(dataset: Path) -> Iterator[FileTool]:
    """Its books, open."""
    with FileTool(dataset, zfs=True) as tool:
        yield tool


def write(tool: FileTool, path: Path, length: int = SIZE, *, seed: int = 1, offset: int = 0, sync: bool = False) -> int:
    """Writes what nobody can compress, anew while it is told to ask again (EAGAIN); how often the pool refused for a while."""
    until = time.monotonic() + 180
    while True:
        try:
            return int(tool.call("write", path, offset, length, seed, *(["sync"] if sync else []))["retries"])
        except Refused as refused:
            if refused.name != "EAGAIN" or time.monotonic() > until:
                raise


def test_what_an_admin_reserved_stays(short_pool: ShortPool, dataset: Path) -> None:
    """Books without promises hold nothing, and give nothing back that is not theirs."""
    run("zfs", "set", f"refreservation={64 * MIB}", f"{short_pool.name}/datastore")
    for _ in range(2):
        with FileTool(dataset, zfs=True) as tool:
            write(tool, dataset / "source", MIB)
            tool.clone("clone", "fast", dataset / "source", dataset, "clone")
            write(tool, dataset / "clone", MIB, seed=2)
            for _ in range(2):
                tool.call("maintain")
            assert tool.number("foreign_changes") == 0
        assert short_pool.number("datastore", "refreservation") == 64 * MIB


@pytest.mark.long("15 s; the unit tests of the ledger count it in each run")
def test_a_clone_into_a_thick_file_makes_its_promise_larger(short_pool: ShortPool, dataset: Path, tool: FileTool) -> None:
    source, thick, huge = dataset / "source", dataset / "thick", dataset / "huge"
    write(tool, source)
    write(tool, thick, MIB)
    tool.call("reserve", thick)
    tool.clone("into", "fast", source, thick)
    tool.call("maintain")
    assert tool.number("thick_bytes") == SIZE
    assert short_pool.number("datastore", "refreservation") >= 2 * SIZE, "its size, and what the source holds"
    tool.call("truncate", huge, 1 << 40)
    before = thick.read_bytes()
    with pytest.raises(Refused, match="ENOSPC"):
        tool.clone("into", "full", huge, thick)
    assert thick.read_bytes() == before
    tool.call("maintain")
    assert tool.number("thick_bytes") == SIZE
    with Filler(short_pool.files) as filler:
        filler.wait_until_refused()
        write(tool, thick, seed=20)
        filler.remove()
    for path in (source, thick, huge):
        tool.call("remove", path)
    wait_for(lambda: _is_given_back(tool, short_pool), "nothing is held any more", 120)


def test_promises_hold_on_a_full_pool(short_pool: ShortPool, dataset: Path, tool: FileTool, tell: Callable[[str], None]) -> None:
    """Each reserved file and reserved clone is overwritten whole, in a burst and in sync; the next reservation is refused."""
    one, empty, thin = dataset / "one", dataset / "empty", dataset / "thin"
    write(tool, one)
    tool.call("truncate", empty, SIZE)
    write(tool, thin, 16 * MIB)
    tool.call("reserve", one)
    tool.call("reserve", empty)
    tool.clone("clone", "fast", one, dataset, "clone")
    tool.call("reserve", dataset / "clone")
    tool.clone("clone", "fast", one, dataset, "thin_clone")
    with Filler(short_pool.files) as filler:
        filler.wait_until_refused()
        wait_for(lambda: short_pool.available < MIB, "nothing is left", 60)
        with pytest.raises(Refused, match="ENOSPC"):  # it may not take what is promised to others
            write(tool, thin, 512 * MIB)
        began = time.monotonic()
        refused = 0
        for round_, sync in enumerate((False, True)):
            for path in (one, dataset / "clone", empty):
                refused += write(tool, path, seed=10 + round_, sync=sync)
        tell(
            f"6 x {SIZE // MIB} MiB overwritten on a full pool in {time.monotonic() - began:.0f} s, {refused} waits for the pool"
        )
        tool.call("truncate", dataset / "more", 512 * MIB)
        with pytest.raises(Refused, match="ENOSPC"):
            tool.call("reserve", dataset / "more")
        filler.remove()
    wait_for(tool.is_maintained, "the books have no problem", 120)
    for path in (one, dataset / "clone", empty, dataset / "thin_clone"):
        tool.call("remove", path)
    wait_for(lambda: _is_given_back(tool, short_pool), "nothing is held any more", 120)
    assert tool.number("thick_files") == tool.number("shared_bytes") == 0


@pytest.mark.long("20 s; test_promises_hold_on_a_full_pool fills a pool in each run")
def test_thin_clones_beside_a_promise(short_pool: ShortPool, dataset: Path, tool: FileTool, tell: Callable[[str], None]) -> None:
    """Many need no space held for them; overwritten, they take what is left, then nothing, and never what is promised."""
    thick, template = dataset / "thick", dataset / "template"
    clones = [dataset / f"clone{number}" for number in range(24)]
    write(tool, template, seed=3)
    write(tool, thick)
    tool.call("reserve", thick)
    for clone in clones:
        assert tool.clone("clone", "fast", template, dataset, clone.name).cloned == SIZE
    tool.call("maintain")
    # What the pool counts for them, and no more.
    assert tool.number("needed_bytes") < (len(clones) + 3) * SIZE + 192 * MIB
    overwritten = 0
    with Filler(short_pool.files) as filler:
        filler.wait_until_refused()
        with pytest.raises(Refused, match="ENOSPC"):
            for number, clone in enumerate(clones):
                for offset in range(0, SIZE, 4 * MIB):
                    write(tool, clone, 4 * MIB, offset=offset, seed=100 + number)
                    run("zpool", "sync", short_pool.name)  # a burst is refused sooner
                    overwritten += 4
        for turn, sync in enumerate((False, True)):
            write(tool, thick, seed=10 + turn, sync=sync)
        filler.remove()
    # Not before: where nothing is left a look can't hold even the few KiB more that indirect blocks need.
    wait_for(tool.is_maintained, "the books have no problem", 120)
    tell(f"{overwritten} MiB of thin clones were overwritten on a full pool, then refused; then {2 * SIZE // MIB} of a thick one")
    wait_for(lambda: _is_written(tool, clones[-1]), "thin files may take space again", 120)
    # All at once: the pool has less by what they saved before less is held for them.
    for path in (template, *clones, thick):
        tool.call("remove", path)
    wait_for(lambda: _is_given_back(tool, short_pool), "nothing is held any more", 120)
    assert tool.number("thick_files") == tool.number("shared_bytes") == 0


def _is_given_back(tool: FileTool, pool: ShortPool) -> bool:
    with contextlib.suppress(Refused):  # in a look, when the pool has promised more than it has
        tool.call("maintain")
    return pool.number("datastore", "refreservation") == 0


def _is_written(tool: FileTool, path: Path) -> bool:
    try:
        write(tool, path, MIB, seed=7)
    except Refused:
        return False
    return True


def test_space_comes_back(short_pool: ShortPool, dataset: Path, tool: FileTool) -> None:
    """Shrinking and thin conversion lower what is held; growing raises it, or is refused before anything is written."""
    path = dataset / "file"
    tool.call("truncate", path, 256 * MIB)
    tool.call("reserve", path)
    large = tool.number("needed_bytes")
    tool.call("truncate", path, 64 * MIB)
    tool.call("maintain")
    small = tool.number("needed_bytes")
    assert large - small >= 192 * MIB
    write(tool, path, 64 * MIB, offset=128 * MIB)
    assert tool.number("needed_bytes") - small >= 128 * MIB
    with pytest.raises(Refused, match="ENOSPC"):
        tool.call("truncate", path, 16 << 30)
    assert path.stat().st_size == 192 * MIB
    tool.call("unreserve", path)
    assert short_pool.number("datastore", "refreservation") == tool.number("held_bytes") == 0


def test_a_change_behind_our_back_is_set_right(short_pool: ShortPool, dataset: Path, tool: FileTool) -> None:
    tool.call("truncate", dataset / "file", 64 * MIB)
    tool.call("reserve", dataset / "file")
    before = tool.number("foreign_changes")
    run("zfs", "set", "refreservation=none", f"{short_pool.name}/datastore")
    tool.call("maintain")
    assert tool.number("foreign_changes") == before + 1
    assert short_pool.number("datastore", "refreservation") == tool.number("held_bytes") > 64 * MIB
    assert tool.call("status")["problem"] == "no"


def test_the_books_follow_how_the_dataset_is_set(short_pool: ShortPool, dataset: Path, tool: FileTool) -> None:
    """Each look reads it: copies cost, deduplication is in no ledger, what a snapshot pins is held for nobody."""
    name = f"{short_pool.name}/datastore"
    for path, size in (("file", 64 * MIB), ("more", MIB)):
        tool.call("truncate", dataset / path, size)
    tool.call("reserve", dataset / "file")
    before = tool.number("needed_bytes")
    run("zfs", "set", "copies=2", name)
    tool.call("maintain")
    assert tool.number("needed_bytes") >= before + 64 * MIB
    assert short_pool.number("datastore", "refreservation") >= tool.number("needed_bytes")
    run("zfs", "set", "dedup=on", name)
    with pytest.raises(Refused, match="EOPNOTSUPP"):
        tool.call("reserve", dataset / "more")
    tool.call("maintain")
    assert tool.call("status")["problem"] == "yes"
    run("zfs", "set", "dedup=off", name)
    tool.call("reserve", dataset / "more")
    write(tool, dataset / "thin", 64 * MIB)
    run("zfs", "snapshot", f"{name}@pinned")
    tool.call("maintain")
    assert tool.call("status")["problem"] == "no"
    assert tool.number("held_bytes") - tool.number("needed_bytes") <= short_pool.available // 4 + 64 * MIB
    run("zfs", "destroy", f"{name}@pinned")


def test_promises_outlive_export_and_import(short_pool: ShortPool, dataset: Path) -> None:
    path = dataset / "file"
    with FileTool(dataset, zfs=True) as tool:
        write(tool, path)
        tool.call("reserve", path)
        tool.clone("clone", "fast", path, dataset, "clone")
        shared = tool.number("shared_bytes")
        assert shared == SIZE
    run("zpool", "export", short_pool.name)
    run("zpool", "import", short_pool.name)
    with FileTool(dataset, zfs=True) as tool:
        assert tool.number("thick_files") == 1
        assert tool.number("shared_bytes") == shared
        assert tool.number("foreign_changes") == 0
        assert tool.number("held_bytes") >= 2 * SIZE + shared


@pytest.mark.long("16 s; test_promises_hold_on_a_full_pool fills a pool in each run")
def test_books_open_on_a_full_pool(short_pool: ShortPool, dataset: Path, tell: Callable[[str], None]) -> None:
    """Served, and said: what was shared and promised counts, nothing more is promised until there is room."""
    source, more = dataset / "source", dataset / "more"
    with FileTool(dataset, zfs=True) as tool:
        write(tool, source, 16 * MIB)
        tool.clone("clone", "fast", source, dataset, "clone")
        tool.call("truncate", more, 256 * MIB)
    with Filler(short_pool.files) as filler:
        filler.wait_until_refused()
        run("zpool", "sync", short_pool.name)
        with FileTool(dataset, zfs=True) as tool:
            assert tool.number("shared_bytes") == 16 * MIB
            with pytest.raises(Refused, match="ENOSPC"):
                tool.call("reserve", more)
            tell(f"the ledger could not be written: {tool.call('status')['problem']}")
        with FileTool(dataset, zfs=True) as tool:
            assert tool.number("shared_bytes") == 16 * MIB
            filler.remove()
            wait_for(lambda: short_pool.available > 512 * MIB, "the filler's space is free")
            wait_for(tool.is_maintained, "the books have no problem", 120)
            tool.call("reserve", more)
            assert tool.call("status")["problem"] == "no"
            assert short_pool.number("datastore", "refreservation") >= 256 * MIB


@pytest.mark.long("15 s; test_ganesha_kills.py kills the daemon in each run")
def test_a_kill_at_any_moment_loses_no_promise(
    short_pool: ShortPool, dataset: Path, seed: int, tell: Callable[[str], None]
) -> None:
    """kill -9 within clones, reservations, overwrites, deletes: the ledger never has less than the pool shares."""
    choose = random.Random(seed)
    rounds = 5
    for round_ in range(rounds):
        tool = FileTool(dataset, zfs=True)
        assert not list((dataset / ".zvaai" / "clones").iterdir()), "what was not whole is removed"
        run("zpool", "sync", short_pool.name)
        shared = int(run("zpool", "get", "-Hpo", "value", "bclonesaved", short_pool.name))
        assert tool.number("shared_bytes") >= shared, "blocks are shared that the ledger does not know of"
        assert short_pool.number("datastore", "refreservation") == tool.number("held_bytes") >= tool.number("needed_bytes")
        for name in range(3):
            if not (dataset / f"f{name}").exists():
                write(tool, dataset / f"f{name}", 16 * MIB, seed=round_)
        for _ in range(6):
            one, other = choose.sample(range(6), 2)
            path = dataset / f"f{one}"
            step = choose.choice(["clone", "clone", "reserve", "write", "remove", "maintain"])
            if step == "maintain":
                tool.send("maintain")
            elif not path.exists() and step != "write":
                tool.send("status")
            elif step == "clone":
                tool.send("clone", "full", path, dataset, f"f{other}")
            elif step == "write":
                tool.send("write", path, choose.randrange(8) * MIB, 4 * MIB, round_)
            else:
                tool.send(step, path)
        time.sleep(choose.uniform(0, 0.6))  # the moment is what is tried
        tool.killed()
    for path in dataset.glob("f*"):
        path.unlink()
    with FileTool(dataset, zfs=True) as tool:
        tool.call("maintain")
        assert tool.number("thick_files") == tool.number("shared_bytes") == tool.number("held_bytes") == 0
    tell(f"{rounds} kills, seed {seed}")


@pytest.mark.long("10 s; test_promises_hold_on_a_full_pool fills a pool in each run")
def test_clones_do_not_fill_the_pool_for_a_moment(short_pool: ShortPool, dataset: Path, tool: FileTool) -> None:
    """OpenZFS counts what clones take before what they save: within one transaction group, no more than there is room for."""
    template, other = dataset / "template", short_pool.files / "other"
    write(tool, template, 256 * MIB)
    run("zpool", "sync", short_pool.name)
    refused: list[OSError] = []
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            try:
                other.write_bytes(bytes(4096))
            except OSError as error:
                refused.append(error)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        for number in range(24):
            assert tool.clone("clone", "fast", template, dataset, f"clone{number}").cloned == 256 * MIB
    finally:
        stop.set()
        writer.join()
    assert not refused
