# SPDX-License-Identifier: Apache-2.0
"""Guarantees of the guest: exit codes, live output, disks, ports, isolation, cleanup."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.programs import CACHE, REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
GUESTS = CACHE / "guests-here"
"""Folder of these tests' guests: other guests of this checkout may run concurrently."""


@pytest.fixture(scope="module", autouse=True)
def separate_guests() -> Iterator[None]:
    """Sets the folder in the environment of the programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZVAAI_GUESTS", str(GUESTS))
        yield


def guest(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new guest."""
    return subprocess.run([RUN, *words], capture_output=True, text=True, timeout=600, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_a_shell_with_the_module(report_line: Callable[[str], None]) -> None:
    started = time.monotonic()
    result = guest("cat", "/sys/module/zfs/version")
    report_line(f"booted, terminated and ended in {time.monotonic() - started:.1f} s")
    assert result.returncode == 0, result.stdout + result.stderr
    pinned = re.search(r"^ZFS_VERSION=(.*)$", (REPOSITORY / "packaging/uml/versions").read_text(), re.MULTILINE)
    assert pinned is not None
    assert result.stdout.splitlines()[0] == pinned[1]


def test_user_land_and_module_are_one_version() -> None:
    versions = guest("zfs", "version").stdout.splitlines()[:2]
    assert versions[0].removeprefix("zfs-") == versions[1].removeprefix("zfs-kmod-"), versions


def test_exit_code_and_arguments_arrive_unchanged() -> None:
    result = guest("sh", "-c", 'printf "%s|" "$@"; exit 42', "sh", "a b", "$HOME", "'\"")
    assert result.returncode == 42
    assert "a b|$HOME|'\"|" in result.stdout


def test_repository_is_writable_and_the_root_is_not_changed(tmp_path: Path) -> None:
    mark = CACHE / f"mark-{os.getpid()}"
    try:
        assert guest("sh", "-c", f"echo written >{mark}; echo x >/etc/{mark.name}").returncode == 0
        assert mark.read_text() == "written\n"
        assert not Path("/etc", mark.name).exists()
    finally:
        mark.unlink(missing_ok=True)


def test_disks_are_in_order_and_a_named_one_is_not_removed(tmp_path: Path) -> None:
    stored = tmp_path / "kept"
    script = "blockdev --getsize64 $ZVAAI_DISKS; echo hello | dd of=/dev/ubdb conv=fsync status=none"
    result = guest("--disk", "64M", "--disk", f"32M:{stored}", "sh", "-c", script)
    assert re.search(r"67108864\s+33554432", result.stdout), result.stdout
    assert stored.read_bytes()[:5] == b"hello"


def test_a_forwarded_port_reaches_the_guest() -> None:
    process = subprocess.Popen(
        [RUN, "--forward", ":8000", "python3", "-m", "http.server", "8000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        port = re.search(r"127\.0\.0\.1:(\d+) leads to port 8000", first)
        assert port, first

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/", timeout=2) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_for(answers, "the guest answers by the forwarded port", 300)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)


def test_concurrent_guests_are_isolated() -> None:
    """Each uses the other's pool name and address, and continues only when the other is up too."""
    with tempfile.TemporaryDirectory(dir=CACHE) as shared:
        script = (
            "zpool create -f same /dev/ubda && zfs create same/$1 && ip -br address show vec0 && touch $2/$1 &&"
            "until [ -e $2/$3 ]; do sleep 0.1; done; zfs list -H -o name"
        )
        both = [
            subprocess.Popen(
                [RUN, "--disk", "256M", "--timeout", "600", "sh", "-c", script, "sh", mine, shared, other],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for mine, other in (("a", "b"), ("b", "a"))
        ]
        for process, mine, other in zip(both, "ab", "ba", strict=True):
            output, _ = process.communicate(timeout=900)
            assert process.returncode == 0, output
            assert "192.0.2.2" in output
            assert f"same/{mine}" in output and f"same/{other}" not in output


def test_sigterm_reaches_the_command() -> None:
    process = subprocess.Popen(
        [RUN, "bash", "-c", 'trap "echo terminated; exit 9" TERM; echo up; while :; do sleep 0.1; done'],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any(line == "up\n" for line in process.stdout)  # the guest's kernel can print, too
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 9
    assert "terminated" in output


def test_sigterm_reaches_the_command_of_a_guest_that_takes_nothing_just_then() -> None:
    """The management console's queue is full while the kernel is stopped."""
    wait_for(lambda: not guest_processes(), "the guests before it are gone")
    command = ["bash", "-c", 'trap "exit 9" TERM; echo up; while :; do sleep 0.1; done']
    process = subprocess.Popen([RUN, *command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any(line == "up\n" for line in process.stdout)
        (console,) = GUESTS.glob("*/guest/mconsole")
        kernel = guest_kernel()
        os.kill(kernel, signal.SIGSTOP)
        try:
            # Magic number, version, length, text (arch/um/drivers/mconsole.h).
            request = struct.pack("=III512s", 0xCAFEBABE, 2, 7, b"version")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, contextlib.suppress(BlockingIOError):
                while True:
                    sender.sendto(request, socket.MSG_DONTWAIT, str(console))
            process.send_signal(signal.SIGTERM)
            status = Path(f"/proc/{process.pid}/status")
            wait_for(lambda: re.search(r"^ShdPnd:\t0+$", status.read_text(), re.MULTILINE) is not None, "the signal is taken")
        finally:
            os.kill(kernel, signal.SIGCONT)
        process.communicate(timeout=600)
        assert process.returncode == 9
    finally:
        process.kill()  # the guest ends with it
        process.wait()


def guest_processes() -> set[str]:
    """Identifiers of the User-Mode Linux processes of these tests."""
    pattern = f"^{CACHE}/uml/linux.uml .* uml_dir={GUESTS}/"
    return set(subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False).stdout.split())


def guest_kernel() -> int:
    """Identifier of the only guest's kernel, the parent of its other processes."""
    identifiers = guest_processes()
    listed = subprocess.run(["ps", "-o", "pid=,ppid=", "-p", ",".join(identifiers)], capture_output=True, text=True, check=False)
    (kernel,) = (
        int(process_id) for process_id, parent in map(str.split, listed.stdout.splitlines()) if parent not in identifiers
    )
    return kernel


def sysctl_is_put_back() -> bool:
    """Whether no restore of the sysctl is pending; also true while a guest of another checkout needs the raised value."""
    record = Path("/run/lock/zvaai-vm.max_map_count")
    with record.open("r+") as changing, record.with_name(record.name + ".users").open("r+") as users:
        fcntl.flock(changing, fcntl.LOCK_EX)  # a guest that ends now must not find `users` locked
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return changing.read() == ""


def test_nothing_is_left_behind() -> None:
    """The sysctl is restored. A killed run leaves no process; the next guest removes its folder."""
    processes, folders = guest_processes(), set(GUESTS.iterdir())
    assert guest("true").returncode == 0
    assert sysctl_is_put_back()
    process = subprocess.Popen([RUN, "sleep", "1000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: bool(guest_processes() - processes), "the guest runs", 180)
    assert int(Path("/proc/sys/vm/max_map_count").read_text()) >= 1048576
    process.kill()
    process.wait()
    wait_for(lambda: guest_processes() <= processes, "the guest's processes are gone", 180)
    assert guest("true").returncode == 0
    assert set(GUESTS.iterdir()) <= folders
    assert sysctl_is_put_back()


def test_a_timeout_reports_the_state_of_the_guest() -> None:
    for seconds in (6, 60):  # on a loaded machine the boot may take longer than the first time
        result = guest("--timeout", str(seconds), "sh", "-c", "while :; do :; done")
        assert result.returncode == 124
        assert f"the time limit of {seconds} s passed" in result.stderr
        if "comm: sh " in result.stdout:
            return
    raise AssertionError(result.stdout)


def test_a_guest_that_panics_is_reported() -> None:
    result = guest("sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60")
    assert result.returncode == 125
    assert "ended before the command did" in result.stderr
