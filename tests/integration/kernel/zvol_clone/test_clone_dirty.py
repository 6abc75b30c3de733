# SPDX-License-Identifier: Apache-2.0
"""A source block that is not on disk stops the call immediately; the call waits for no transaction group."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import MIB, opened, random_blocks, read_direct, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import Stopped, ZvolClone
from support.programs import run
from support.zfs import Pool, transaction_groups

VolumeOf = Callable[..., Path]
SetParameter = Callable[[str, int], None]
BLOCK = 16384


@pytest.fixture(autouse=True)
def long_transaction_groups(zfs_parameter: SetParameter) -> None:
    """Written data stays dirty for 30 s."""
    zfs_parameter("zfs_txg_timeout", 30)


def open_group(pool: Pool) -> int:
    """The open transaction group: waiting for a sync would close it."""
    return max(transaction_groups(pool.name))


@pytest.mark.parametrize("wait_dirty", [1, 0])
def test_a_dirty_block_stops_it_exactly_there(
    device: ZvolClone, volume: VolumeOf, pool: Pool, zfs_parameter: SetParameter, wait_dirty: int
) -> None:
    zfs_parameter("zfs_bclone_wait_dirty", wait_dirty)
    source, destination = volume(32, filled=32), volume(32)
    dirty_at, dirty = 9 * MIB + 5 * BLOCK, 3 * BLOCK
    with opened(source, os.O_RDWR | os.O_DIRECT) as source_fd, opened(destination, os.O_RDWR) as other:
        run("zpool", "sync", pool.name)
        before = open_group(pool)
        write_direct(source_fd, random_blocks(dirty), dirty_at)
        outcome = device.clone(source_fd, other, 32 * MIB)
        assert (outcome.error, outcome.stopped) == (errno.EAGAIN, Stopped.DIRTY)
        assert (outcome.bytes_done, outcome.dirty_length) == (dirty_at, dirty)
        again = device.clone(source_fd, other, 4 * MIB, source_offset=dirty_at, destination_offset=dirty_at)
        assert (again.error, again.bytes_done, again.dirty_length) == (errno.EAGAIN, 0, dirty)
        assert open_group(pool) == before, "it waited for a transaction group"

        # As a target does: dirty blocks are read and written, the rest is cloned.
        assert os.pwrite(other, read_direct(source, dirty, dirty_at), dirty_at) == dirty
        rest = dirty_at + dirty
        final = device.clone(source_fd, other, 32 * MIB - rest, source_offset=rest, destination_offset=rest)
        assert final.stopped == Stopped.COMPLETE
    assert read_direct(destination, 32 * MIB) == read_direct(source, 32 * MIB)


def test_a_fresh_volume_is_all_dirty_until_the_txg_is_on_disk(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    source, destination = volume(8), volume(8)
    with opened(source, os.O_RDWR | os.O_DIRECT) as source_fd, opened(destination, os.O_RDWR) as other:
        run("zpool", "sync", pool.name)
        before = open_group(pool)
        write_direct(source_fd, random_blocks(8 * MIB))
        outcome = device.clone(source_fd, other, 8 * MIB)
        assert (outcome.error, outcome.bytes_done, outcome.dirty_length) == (errno.EAGAIN, 0, 4 * MIB)
        assert open_group(pool) == before, "it waited for a transaction group"
        run("zpool", "sync")
        assert device.clone(source_fd, other, 8 * MIB).stopped == Stopped.COMPLETE


@pytest.mark.parametrize(
    "excluded",
    [
        pytest.param(True, id="writers kept off by a lock", marks=pytest.mark.long("12 s: the harder of the two is in each run")),
        pytest.param(False, id="writers unaware of the clone"),
    ],
)
def test_while_the_source_is_written(
    device: ZvolClone, volume: VolumeOf, seed: int, report_line: Callable[[str], None], excluded: bool
) -> None:
    source, destination = volume(64, filled=64), volume(64)
    lock, stop = threading.Lock(), threading.Event()
    written = 0

    def write(worker: int) -> None:
        nonlocal written
        choice = random.Random(seed * 10 + worker)
        data = random_blocks(BLOCK)
        with opened(source, os.O_WRONLY | os.O_DIRECT) as fd:
            while not stop.is_set():
                at = choice.randrange(64 * MIB // BLOCK) * BLOCK
                if excluded:
                    with lock:
                        write_direct(fd, data, at)
                else:
                    write_direct(fd, data, at)
                written += 1

    def sync() -> None:
        while not stop.wait(0.5):
            run("zpool", "sync")

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(3)] + [threading.Thread(target=sync)]
    for thread in threads:
        thread.start()
    calls, cloned, stops, longest, at = 0, 0, 0, 0.0, 0
    try:
        until = time.monotonic() + 8
        with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
            while time.monotonic() < until:
                length = min(4 * MIB, 64 * MIB - at)
                if excluded:
                    lock.acquire()
                outcome = device.clone(source_fd, other, length, source_offset=at, destination_offset=at)
                if excluded:
                    lock.release()
                assert outcome.stopped in (Stopped.COMPLETE, Stopped.DIRTY), outcome
                calls, cloned, stops = calls + 1, cloned + outcome.bytes_done, stops + (outcome.stopped == Stopped.DIRTY)
                longest = max(longest, outcome.seconds)
                at = (at + outcome.bytes_done + outcome.dirty_length) % (64 * MIB)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    report_line(
        f"{calls} calls, {stops} stopped by a dirty block, {cloned / MIB:.0f} MiB cloned during {written} writes; "
        f"longest call {longest * 1000:.1f} ms"
    )
    assert stops > 0 and cloned > 0 and written > 0
    # A write between the query and the range lock waits for pushed txgs, not for 30 s.
    assert longest < 20


def test_a_signal_ends_it_between_steps(device: ZvolClone, volume: VolumeOf) -> None:
    length = 1024 * MIB
    source, destination = volume(1024, filled=8, volblocksize="4K"), volume(1024, filled=8, volblocksize="4K")
    libc = ctypes.CDLL(None)
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    libc.siginterrupt(signal.SIGALRM, 1)
    try:
        with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
            done = 0
            for attempt in range(200):  # the signal may come before the first step, or after the last one
                signal.setitimer(signal.ITIMER_REAL, 0.002 * 1.3 ** (attempt % 20))
                outcome = device.clone(source_fd, other, length)
                signal.setitimer(signal.ITIMER_REAL, 0)
                done = outcome.bytes_done
                if done == length:
                    continue
                assert (outcome.error, outcome.stopped) == (errno.EINTR, Stopped.SIGNAL), outcome
                if done:
                    break
            assert 0 < done < length and done % (4 * MIB) == 0
            rest = device.clone(source_fd, other, length - done, source_offset=done, destination_offset=done)
            assert rest.stopped == Stopped.COMPLETE
    finally:
        signal.signal(signal.SIGALRM, before)
    assert read_direct(destination, 16 * MIB) == read_direct(source, 16 * MIB)
