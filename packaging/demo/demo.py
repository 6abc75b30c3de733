# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the appliance on real zvols and a dataset of the OpenZFS kernel module, until Ctrl-C.

On a host with /dev/zfs it serves from there, on a pool in a separate file. Elsewhere it runs inside a User-Mode Linux guest whose
disk is that file. All ports are on this machine's loopback address. Progress goes to standard error; with JSON=1 one line of JSON
goes to standard output once it serves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
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

import nfs  # noqa: E402
import service  # noqa: E402
from guest import CACHE, HOST_ADDRESS, REPOSITORY, ZVOL_CLONE, Disk, Forward, GuestError, GuestOptions, GuestProcess  # noqa: E402

STATE = Path(os.environ.get("ZVAAI_DEMO_STATE") or REPOSITORY / ".demo").absolute()
POOL_FILE = STATE / "pool.img"
POOL = "zvaai-demo-" + hashlib.sha256(str(STATE).encode()).hexdigest()[:8]
"""Different disks have different pool names."""
POOL_BYTES = 8 << 30
TARGET = CACHE / "target/zvaai-target"
FSAL = CACHE / "ganesha_fsal/fsal/libfsalzvaai.so"
VAAI_NAS = CACHE / "ganesha_fsal/client/vaai-nas"
GANESHA_LIBRARY = CACHE / "ganesha/lib"
SERVE = REPOSITORY / "packaging/demo/serve.py"
APPLIANCE = CACHE / "demo"
IQN = "iqn.2026-11.example.zvaai:demo"
ISCSI_PORT = 3260
READY_SECONDS = 1200.0
STOP_SECONDS = 240.0
"""More than all that serve.py ends takes at most: each process is killed when its time is up."""
ASK_AGAIN_SECONDS = 2.0


def report(message: str) -> None:
    """Prints a progress message on standard error."""
    print(f"demo: {message}", file=sys.stderr, flush=True)


class DemoFailed(Exception):
    """The demo did not start. The text is the reason, or empty if it was printed already."""


@dataclass(frozen=True)
class Running:
    """A demo that was started: its portal, whether it has ended, and how to request its end.

    `wait` returns the exit code once it has ended; raises subprocess.TimeoutExpired, GuestError.
    """

    where: str
    portal: tuple[str, int]
    clients: str
    """The address that the NFS server sees clients of this machine at."""
    ended: Callable[[], bool]
    ask: Callable[[], None]
    wait: Callable[[float], int]


@dataclass(frozen=True)
class Ports:
    """Its ports on 127.0.0.1."""

    iscsi: int
    nfs: int
    mount: int
    console: int

    @property
    def of_nfs(self) -> tuple[int, int]:
        """In the order of nfs.PORTS."""
        return (self.nfs, self.mount)


def free_ports() -> Ports:
    """The usual ports if they are free, else any free ports of the loopback address."""
    with contextlib.ExitStack() as stack:

        def free(needed: int) -> int:
            for port in (needed, 0):
                with contextlib.suppress(OSError):
                    probe = stack.enter_context(socket.create_server(("127.0.0.1", port)))
                    return int(probe.getsockname()[1])
            raise DemoFailed("no free port on 127.0.0.1")

        nfs_port, mount = map(free, nfs.PORTS)
        return Ports(free(ISCSI_PORT), nfs_port, mount, free(service.PORT))


def serve_command(device: str, listen: str, advertise: str, console: str) -> list[str]:
    """The command that serves, on the host or in the guest, in a separate mount namespace."""
    return [
        *("unshare", "--mount", "--propagation", "private"),
        *("python3", str(SERVE), "--pool", POOL, "--device", device, "--state", str(STATE), "--target", str(TARGET)),
        *("--listen", listen, "--advertise", advertise, "--iqn", IQN),
        *("--fsal", str(FSAL), "--ganesha-library", str(GANESHA_LIBRARY)),
        *("--appliance", str(APPLIANCE), "--console", console),
    ]


@contextlib.contextmanager
def in_guest(ports: Ports) -> Iterator[Running]:
    """Serves inside a guest; all ports are forwarded."""
    portal = ("127.0.0.1", ports.iscsi)
    options = GuestOptions(
        command=[
            *serve_command("/dev/ubda", f"0.0.0.0:{ISCSI_PORT}", f"127.0.0.1:{ports.iscsi}", f"0.0.0.0:{service.PORT}"),
            *("--zvol-clone", str(ZVOL_CLONE)),
        ],
        disks=[Disk(POOL_BYTES, POOL_FILE)],
        forwards=[
            Forward(ISCSI_PORT, ports.iscsi),
            *map(Forward, nfs.PORTS, ports.of_nfs),
            Forward(service.PORT, ports.console),
        ],
        console=sys.stderr.fileno(),
    )
    with GuestProcess(options) as guest:

        def ask() -> None:
            if guest.booted:  # before, it would reboot
                guest.stop()

        yield Running("a User-Mode Linux guest of this machine", portal, HOST_ADDRESS, guest.poll, ask, guest.wait)


@contextlib.contextmanager
def on_host(ports: Ports) -> Iterator[Running]:
    """Serves with this host's own OpenZFS module."""
    with POOL_FILE.open("ab") as file:
        file.truncate(max(POOL_BYTES, file.tell()))
    (STATE / "pool").write_text(POOL)  # for `make demo-reset`
    address = f"127.0.0.1:{ports.iscsi}"
    private_network = ("--nfs-private-network", *map(str, ports.of_nfs))
    # In a separate session, so that Ctrl-C reaches it once, through this process. It also ends when this process is killed.
    command = ["setpriv", "--pdeathsig", "TERM", *serve_command(str(POOL_FILE), address, address, f"127.0.0.1:{ports.console}")]
    command += private_network
    process = subprocess.Popen(command, start_new_session=True)

    where, portal = "this host's own OpenZFS", ("127.0.0.1", ports.iscsi)
    try:
        yield Running(where, portal, "127.0.0.1", lambda: process.poll() is not None, process.terminate, process.wait)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def end(running: Running, seconds: float = STOP_SECONDS) -> None:
    """Returns after its regular end. Raises DemoFailed, GuestError: leaving the context then kills it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        running.ask()  # again: a guest that boots may miss it
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = running.wait(min(ASK_AGAIN_SECONDS, seconds))
            if code != 0:
                raise DemoFailed(f"ended, but not in order (exit code {code}); the data is kept")
            return
    raise DemoFailed(f"did not end within {seconds:.0f} s and is killed: the data is as a power cut leaves it")


def wait_until_ready(running: Running, interrupted: Callable[[], bool]) -> Mapping[str, Any]:
    """Returns the served objects once the portal accepts a connection. Raises DemoFailed."""
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


def in_environment(*words: str) -> str:
    """A command to type on this machine: it runs inside the root folder."""
    return shlex.join([str(REPOSITORY / "packaging/rootfs/enter"), *words])


def screen(running: Running, ports: Ports, served: Mapping[str, Any]) -> str:
    """Text with the addresses, and commands to try."""
    address = f"127.0.0.1:{ports.iscsi}"
    url = f"iscsi://{address}"
    copies = "share blocks (zvol_clone is loaded)" if served["zvol_clone"] else "are read and written (zvol_clone is not loaded)"
    disk = STATE / "disk.raw"
    nfs_ports = f"nfsport={ports.nfs}&mountport={ports.mount}"
    given = ("--nfs-port", str(ports.nfs), "--mount-port", str(ports.mount))
    vaai_nas = in_environment(str(VAAI_NAS), *given)
    export = f"127.0.0.1:{nfs.EXPORT}"
    return f"""
  zvaai serves, at this machine's loopback address only:

    iSCSI portal   {address}, no CHAP
    target         {IQN}
    LUN 0, LUN 1   4 GiB each, thin, on zvols of the OpenZFS kernel module in {running.where}
    offloads       ATS, XCOPY, WRITE SAME, UNMAP; copies {copies}
    NFS export     {export}, a dataset there: NFSv3 to 4.2 at port {ports.nfs}, MOUNT at {ports.mount}; every user is nobody
    VAAI-NAS       full and fast clones, reservations, statistics: procedure 22 of NFSv3
    console        https://127.0.0.1:{ports.console}, {how_to_enter(served["console"])}
                   certificate's SHA-256 {served["console"]["fingerprint"]}
    its datastores LUNs of {service.IQN} at the same portal, for hosts that you name there; exports next to {nfs.EXPORT},
                   for {running.clients}, as which clients of this machine are seen
    data           kept in {STATE} until `make demo-reset`
    differs        from an installed server: no systemd, so no unit confines or restarts the processes

  Try iSCSI, in another terminal, as any user (apt install libiscsi-bin qemu-utils qemu-block-extra):

    iscsi-ls -s {url}
    iscsi-inq {url}/{IQN}/0
    qemu-img info {url}/{IQN}/0
    qemu-img convert -n -O raw DISK.qcow2 {url}/{IQN}/0

  Let the target copy (EXTENDED COPY, as an ESXi host requests it). The demo then prints how much is shared:

    qemu-img -T iscsi_xcopy convert -C -n -f raw -O raw {url}/{IQN}/0 {url}/{IQN}/1

  Or as root, with the kernel's initiator (apt install open-iscsi):

    iscsiadm -m discovery -t sendtargets -p {address}
    iscsiadm -m node -T {IQN} -p {address} --login

  Try NFS, as root. Put a file there, let the server clone it, and show the clone's space:

    head -c 64M /dev/urandom >{shlex.quote(str(disk))}
    {in_environment("nfs-cp", str(disk), f"nfs://127.0.0.1{nfs.EXPORT}/disk.raw?{nfs_ports}")}
    {vaai_nas} fast-clone {export} disk.raw clone.raw
    {vaai_nas} stat {export} clone.raw
    {in_environment("nfs-ls", f"nfs://127.0.0.1{nfs.EXPORT}?{nfs_ports}")}

  Or mount it, where the kernel has an NFS client (apt install nfs-common):

    mount -t nfs -o vers=4.2,proto=tcp,port={ports.nfs} {export} /mnt

  Open the console in a browser. It warns once, because the certificate is self-signed.

  Ctrl-C stops everything.
"""


def how_to_enter(console: Mapping[str, Any]) -> str:
    """Text about the console's first page and its inputs."""
    code = console["setup_code"]
    return f"one-time code {code}" if code else "with the administrator that you made"


def facts(running: Running, ports: Ports, served: Mapping[str, Any]) -> Mapping[str, Any]:
    """Content of the line of JSON."""
    nfs_facts = {
        "address": "127.0.0.1",
        "export": nfs.EXPORT,
        **{"port": ports.nfs, "mount_port": ports.mount},
        "vaai_nas": in_environment(str(VAAI_NAS)),
    }
    console = {
        "url": f"https://127.0.0.1:{ports.console}",
        "iqn": service.IQN,
        "nfs_client": running.clients,
        **served["console"],
    }
    return {"iscsi_portal": f"127.0.0.1:{ports.iscsi}", "iqn": IQN, **served, "nfs": nfs_facts, "console": console}


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
        ports = free_ports()
        host = Path("/dev/zfs").exists()
        report("starting on this host's OpenZFS" if host else "booting the guest; usually 10 s")
        with on_host(ports) if host else in_guest(ports) as running:
            served = wait_until_ready(running, lambda: interrupted)
            if not interrupted:
                report(f"ready after {time.monotonic() - started:.1f} s")
                print(screen(running, ports, served), file=sys.stderr, flush=True)
                if os.environ.get("JSON") == "1":
                    print(json.dumps(facts(running, ports, served)), flush=True)
            while not interrupted and not running.ended():
                time.sleep(0.1)
            if not interrupted:
                raise DemoFailed("the demo ended by itself")
            report(f"stopping; usually some seconds, at most {STOP_SECONDS:.0f}")
            end(running)
    except (DemoFailed, GuestError) as error:
        report(str(error))
        return 1
    report("stopped; the data is kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
