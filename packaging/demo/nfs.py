# SPDX-License-Identifier: Apache-2.0
"""The demo's NFS export: a dataset, served by ganesha.nfsd with FSAL_ZVAAI and VAAI-NAS, until SIGTERM.

Runs in the mount namespace of serve.py, so that rpcbind's sockets in /run and the dataset's mount are private, and end with it.
On a host it also has a separate network namespace, because port 111 and the registrations of rpcbind belong to the host. Ports of
the host's loopback address are forwarded to it. The appliance adds more exports over the message bus.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "uml"))

from guest import Forward, Forwarder  # noqa: E402
from programs import END_WITH_US, DemoError, Ending, Stopped, StopSignal, end, report, run, wait_until  # noqa: E402
from service import BUS, DEMO_MOUNTS, HERE, NFS_STATISTICS, USER  # noqa: E402

EXPORT = "/demo"
NFS_PORT, MOUNT_PORT, RPCBIND_PORT = 2049, 20048, 111
PORTS = (NFS_PORT, MOUNT_PORT)
"""Ports for clients; in this order in JSON and on the command line."""
PACKAGED_FSALS = Path("/usr/lib/x86_64-linux-gnu/ganesha")
STORE = DEMO_MOUNTS / "nfs"
NOBODY = 65534
PROPERTIES = {"mountpoint": "legacy", "acltype": "posix", "xattr": "sa", "recordsize": "128K"}
SHOWN = {
    "cloned_bytes": "cloned by sharing blocks",
    "copied_bytes": "copied by reading and writing",
    "reserved_bytes": "reserved",
}
CHECK_SECONDS = 1.0
READY_SECONDS = 400.0


def mount_store(dataset: str) -> None:
    """Mounts the dataset; creates it if it does not exist."""
    if subprocess.run(["zfs", "list", "-H", dataset], capture_output=True, check=False).returncode != 0:
        report(f"making the dataset {dataset}")
        run("zfs", "create", *(word for pair in PROPERTIES.items() for word in ("-o", "=".join(pair))), dataset)
    STORE.mkdir()
    run("mount", "-t", "zfs", dataset, STORE)
    # All clients' users become this one (All_Squash).
    os.chown(STORE, NOBODY, NOBODY)


def configuration(fsal: Path) -> str:
    """ganesha.conf. Its folder of modules has those of the packaged daemon, and ours."""
    plugins = HERE / "fsal"
    plugins.mkdir()
    for module in (*PACKAGED_FSALS.glob("libfsal*.so*"), fsal):
        (plugins / module.name).symlink_to(module)
    recovery = HERE / "recovery"
    recovery.mkdir()
    return f"""
NFS_CORE_PARAM {{
  NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
  Protocols = 3, 4; mount_path_pseudo = true; allow_set_io_flusher_fail = true;
  Plugins_Dir = "{plugins}";
}}
NFSv4 {{ Only_Numeric_Owners = true; Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{recovery}"; }}
VAAI_NAS {{ Control_Socket = "{NFS_STATISTICS}"; Control_User = {USER}; }}
EXPORT {{
  Export_Id = 1; Path = "{STORE}"; Pseudo = "{EXPORT}"; Protocols = 3, 4; Transports = TCP; SecType = sys;
  Access_Type = RW; Squash = All_Squash; Anonymous_Uid = {NOBODY}; Anonymous_Gid = {NOBODY};
  FSAL {{ Name = ZVAAI; }}
}}
"""


def listens(port: int) -> bool:
    """Whether a process listens here."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def started(ending: Ending, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a program in a separate session, so that it gets only our signals."""
    process = subprocess.Popen([*END_WITH_US, *command], start_new_session=True, **options)
    ending.add(lambda: end(process, command[0]))
    return process


def counters() -> dict[str, int]:
    """Bytes by what VAAI-NAS did with them, of the export. Raises OSError, ValueError while the daemon starts or ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(CHECK_SECONDS)
        connection.connect(str(NFS_STATISTICS))
        connection.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "statistics.get"}\n')
        with connection.makefile("rb") as answers:
            exports = json.loads(answers.readline())["result"]["exports"]
    return {name: sum(row["offload"][name] for row in exports) for name in SHOWN}


def show_offloads(known: dict[str, int]) -> None:
    """Prints the new offloads of hosts; `known` has the counters of the last check."""
    try:
        current = counters()
    except (OSError, ValueError):
        return
    for name, what in SHOWN.items():
        if (more := current[name] - known.get(name, 0)) > 0:
            report(f"NFS export {EXPORT}: {more / (1 << 20):.1f} MiB {what}")
    known.update(current)


def serve(options: argparse.Namespace, stop: StopSignal) -> None:
    """Serves until SIGTERM or SIGINT. Raises DemoError, Stopped."""
    if not Path("/etc/mtab").exists():  # ganesha ends without it; systemd makes it on a host
        Path("/etc/mtab").symlink_to("/proc/self/mounts")
    mount_store(options.dataset)
    with Ending() as ending:
        ending.add(lambda: run("umount", STORE))
        (HERE / "ganesha.conf").write_text(configuration(options.fsal))
        environment = {**os.environ, "LD_LIBRARY_PATH": str(options.library), "BLKID_FILE": str(HERE / "blkid.tab")}
        environment["DBUS_SYSTEM_BUS_ADDRESS"] = BUS
        daemon = ["ganesha.nfsd", "-F", "-x", "-f", str(HERE / "ganesha.conf"), "-L", str(options.log), "-N", "NIV_EVENT"]
        daemon += ["-p", str(HERE / "ganesha.pid")]
        rpcbind = started(ending, ["rpcbind", "-f", "-w"], stderr=subprocess.DEVNULL)
        wait_until(lambda: listens(RPCBIND_PORT), [rpcbind], "rpcbind", READY_SECONDS, stop)
        ganesha = started(ending, daemon, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: all(map(listens, PORTS)), [ganesha], f"ganesha.nfsd (log: {options.log})", READY_SECONDS, stop)
        options.ready.touch()
        known: dict[str, int] = {}
        while not stop.came and ganesha.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ganesha.wait(CHECK_SECONDS)
            show_offloads(known)
        if not stop.came:
            raise DemoError(f"ganesha.nfsd ended by itself (exit code {ganesha.returncode}; log: {options.log})")


def enter_network(forwards: Sequence[Forward]) -> None:
    """Creates a network namespace with a loopback interface, and forwards ports of the old namespace to it."""
    forwarder = Forwarder(forwards, "127.0.0.1")
    os.unshare(os.CLONE_NEWNET)
    run("ip", "link", "set", "lo", "up")
    forwarder.start()


def main(words: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="nfs", description=__doc__)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--fsal", required=True, type=Path, help="libfsalzvaai.so")
    parser.add_argument("--library", required=True, type=Path, help="folder of the patched libganesha_nfsd")
    parser.add_argument("--log", required=True, type=Path, help="the daemon's log")
    parser.add_argument("--ready", required=True, type=Path, help="file that is made once it serves")
    ports_help = "serve at these ports of 127.0.0.1 from a network of its own, instead of at the usual ones of all addresses"
    parser.add_argument("--private-network", type=int, nargs=len(PORTS), metavar=("NFS", "MOUNT"), help=ports_help)
    options = parser.parse_args(words)
    stop = StopSignal()
    try:
        if options.private_network:
            enter_network([Forward(port, at) for port, at in zip(PORTS, options.private_network, strict=True)])
        serve(options, stop)
    except Stopped:
        return 0
    except (DemoError, OSError) as error:
        report(f"NFS: {error}")
        return 1
    finally:
        stop.ignore()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
