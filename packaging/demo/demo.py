"""`make demo`: the appliance on a real zvol of the OpenZFS kernel module, until Ctrl-C.

On a host with /dev/zfs it serves from there, on a pool in a file of its own; elsewhere inside a User-Mode Linux guest
whose disk is that file. Progress goes to standard error; with JSON=1 one line of JSON goes to standard output once it serves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "uml"))

from guest import CACHE, REPOSITORY, Disk, Forward, GuestError, GuestOptions, GuestProcess  # noqa: E402

STATE = Path(os.environ.get("ZVAAI_DEMO_STATE") or REPOSITORY / ".demo").absolute()
POOL_FILE = STATE / "pool.img"
POOL_BYTES = 8 << 30
TARGET = CACHE / "target/release/zvaai-target"
ZVOL_CLONE = CACHE / "zvol_clone/zvol_clone.ko"
SERVE = REPOSITORY / "packaging/demo/serve.py"
IQN = "iqn.2026-11.example.zvaai:demo"
ISCSI_PORT = 3260
READY_SECONDS = 60.0
STOP_SECONDS = 30.0


def report(message: str) -> None:
    """Says on standard error what goes on."""
    print(f"demo: {message}", file=sys.stderr, flush=True)


class DemoFailed(Exception):
    """The demo did not come up; what went wrong was said already, or is the text."""


@dataclass(frozen=True)
class Running:
    """A demo that was started: where its portal is, whether it has ended, how to stop it and wait for its end."""

    where: str
    portal: tuple[str, int]
    ended: Callable[[], bool]
    stop: Callable[[], None]


def free_port() -> int:
    """The iSCSI port if nobody has it, else any free one of the loopback address."""
    for port in (ISCSI_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as probe:
            return int(probe.getsockname()[1])
    raise DemoFailed("no free port on 127.0.0.1")


def serve_command(device: str, listen: str, advertise: str) -> list[str]:
    """The command that serves, wherever the module is. Two places for the data have two pool names."""
    pool = "zvaai-demo-" + hashlib.sha256(str(STATE).encode()).hexdigest()[:8]
    return [
        *("python3", str(SERVE), "--pool", pool, "--device", device, "--state", str(STATE), "--target", str(TARGET)),
        *("--listen", listen, "--advertise", advertise, "--iqn", IQN),
    ]


@contextlib.contextmanager
def in_guest(port: int) -> Iterator[Running]:
    """Serves inside a guest; the portal is forwarded."""
    portal = ("127.0.0.1", port)
    options = GuestOptions(
        command=[
            *serve_command("/dev/ubda", f"0.0.0.0:{ISCSI_PORT}", f"127.0.0.1:{port}"),
            *("--zvol-clone", str(ZVOL_CLONE)),
        ],
        disks=[Disk(POOL_BYTES, POOL_FILE)],
        forwards=[Forward(ISCSI_PORT, port)],
        console=sys.stderr.fileno(),
    )
    with GuestProcess(options) as guest:

        def stop() -> None:
            guest.stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guest.wait(STOP_SECONDS)

        yield Running("a User-Mode Linux guest of this machine", portal, guest.poll, stop)


@contextlib.contextmanager
def on_host(port: int) -> Iterator[Running]:
    """Serves with this host's own OpenZFS module."""
    with POOL_FILE.open("ab") as file:
        file.truncate(max(POOL_BYTES, file.tell()))
    address = f"127.0.0.1:{port}"
    # A session of its own, so that Ctrl-C reaches it through here, once; when this process is killed, it ends too.
    command = ["setpriv", "--pdeathsig", "TERM", *serve_command(str(POOL_FILE), address, address)]
    process = subprocess.Popen(command, start_new_session=True)

    def stop() -> None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)

    try:
        yield Running("this host's own OpenZFS", ("127.0.0.1", port), lambda: process.poll() is not None, stop)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until_ready(running: Running, interrupted: Callable[[], bool]) -> Mapping[str, Any]:
    """Returns what is served, once the portal takes a connection. Raises DemoFailed."""
    until = time.monotonic() + READY_SECONDS
    while not interrupted():
        # An empty file is being written.
        with contextlib.suppress(OSError, json.JSONDecodeError):
            served: Mapping[str, Any] = json.loads((STATE / "ready").read_text())
            with socket.create_connection(running.portal, timeout=1):
                return served
        if running.ended():
            raise DemoFailed("the demo ended before it was ready")
        if time.monotonic() > until:
            raise DemoFailed(f"not ready after {READY_SECONDS:.0f} s")
        time.sleep(0.05)
    return {}


def screen(running: Running, address: str, served: Mapping[str, Any]) -> str:
    """What runs where, and what to try."""
    url = f"iscsi://{address}"
    copies = "share blocks (zvol_clone is loaded)" if served["zvol_clone"] else "are read and written (zvol_clone is not loaded)"
    return f"""
  zvaai serves.

    iSCSI portal   {address}   (this machine's loopback address only, no CHAP)
    target         {IQN}
    LUN 0, LUN 1   4 GiB each, thin, on zvols of the OpenZFS kernel module in {running.where}
    offloads       ATS, XCOPY, WRITE SAME, UNMAP; copies {copies}
    data           kept in {STATE} until `make demo-reset`

  Try, in another terminal, as any user (apt install libiscsi-bin qemu-utils qemu-block-extra):

    iscsi-ls -s {url}
    iscsi-inq {url}/{IQN}/0
    qemu-img info {url}/{IQN}/0
    qemu-img convert -n -O raw DISK.qcow2 {url}/{IQN}/0

  Have it copy by itself (EXTENDED COPY, as an ESXi host asks for it); what was shared appears here:

    qemu-img -T iscsi_xcopy convert -C -n -f raw -O raw {url}/{IQN}/0 {url}/{IQN}/1

  Or as root, with the kernel's initiator (apt install open-iscsi):

    iscsiadm -m discovery -t sendtargets -p {address}
    iscsiadm -m node -T {IQN} -p {address} --login

  Ctrl-C stops everything.
"""


def main() -> int:
    """Runs the demo until it is interrupted; returns the exit code."""
    interrupted = False

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    STATE.mkdir(exist_ok=True)
    (STATE / "ready").unlink(missing_ok=True)
    started = time.monotonic()
    try:
        port = free_port()
        host = Path("/dev/zfs").exists()
        report("starting on this host's OpenZFS" if host else "booting the guest; usually 10 s")
        with on_host(port) if host else in_guest(port) as running:
            served = wait_until_ready(running, lambda: interrupted)
            if not interrupted:
                address = f"127.0.0.1:{port}"
                report(f"ready after {time.monotonic() - started:.1f} s")
                print(screen(running, address, served), file=sys.stderr, flush=True)
                if os.environ.get("JSON") == "1":
                    print(json.dumps({"iscsi_portal": address, "iqn": IQN, **served}), flush=True)
            while not interrupted and not running.ended():
                time.sleep(0.1)
            if not interrupted:
                raise DemoFailed("the demo ended by itself")
            report("stopping")
            running.stop()
    except (DemoFailed, GuestError) as error:
        report(str(error))
        return 1
    report("stopped; the data is kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
