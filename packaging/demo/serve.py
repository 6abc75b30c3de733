# SPDX-License-Identifier: Apache-2.0
"""The demo's storage: a pool on one device; two zvols, zvol_clone and the target that serves them; an NFS export (nfs.py); the
appliance (service.py), whose datastores are served in addition to these.

Runs where the OpenZFS module is: inside the guest, or on a host that has it, in a separate mount namespace. Can be repeated:
existing objects are used again. Ends, with the pool exported, on SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import service
from programs import END_WITH_US, DemoError, Ending, Stopped, StopSignal, end, report, run, wait_until
from service import Appliance

VOLUME_BYTES = 4 << 30
VOLBLOCKSIZE = 16384
LUNS = (0, 1)
NFS = Path(__file__).with_name("nfs.py")
LOAD_MODULE = Path(__file__).resolve().parents[1] / "dkms/zvol_clone/zvol_clone-load"
SHOWN = {
    "cloned_bytes": "copied by sharing blocks",
    "copied_bytes": "copied by reading and writing",
    "zeroed_bytes": "made zero",
    "unmapped_bytes": "given back to the pool",
}
POLL_SECONDS = 1.0
DEVICE_SECONDS = 60.0
READY_SECONDS = 400.0
NFS_READY_SECONDS = 900.0  # it ends by itself when rpcbind, and then ganesha, do not serve within 400
TARGET_END_SECONDS = 30.0
NFS_END_SECONDS = 50.0  # it gives ganesha and rpcbind 20 each
UDEV_SECONDS = 60
UUID = "zvaai-demo:uuid"


def open_pool(pool: str, device: str) -> None:
    """Imports the pool from `device`, or creates it there if the device was never used. Raises DemoError if a pool of this name
    is imported from elsewhere: it belongs to another user.
    """
    imported = run("zpool", "list", "-H", "-o", "name").split()
    if pool in imported:
        if device not in run("zpool", "list", "-v", "-H", "-P", pool):
            raise DemoError(f"a pool named {pool} exists and is not the demo's (it does not lie on {device}); nothing was done")
        return
    if has_label(device):
        report(f"importing the pool {pool}: its data is kept from last time")
        # -f: the pool was last used by another boot of the guest, perhaps after a crash. What the appliance had mounted is
        # mounted again, as at any boot: its LUNs' persistent reservations are in a dataset.
        run("zpool", "import", "-f", "-d", device, "-o", "cachefile=none", pool)
        return
    report(f"making the pool {pool}")
    run("zpool", "create", "-O", "mountpoint=none", "-O", "compression=lz4", "-o", "cachefile=none", pool, device)  # fmt: skip


def has_label(device: str) -> bool:
    """Whether a ZFS label is on the device."""
    return subprocess.run(["zdb", "-l", device], capture_output=True, check=False).returncode == 0


def open_volume(volume: str) -> Path:
    """Device node of the zvol; creates a thin zvol if it does not exist."""
    if subprocess.run(["zfs", "list", "-H", volume], capture_output=True, check=False).returncode != 0:
        report(f"making the zvol {volume}: {VOLUME_BYTES >> 30} GiB, thin, volblocksize {VOLBLOCKSIZE >> 10}K")
        run("zfs", "create", "-s", "-V", str(VOLUME_BYTES), "-o", f"volblocksize={VOLBLOCKSIZE}", volume)
    device = Path("/dev/zvol") / volume
    until = time.monotonic() + DEVICE_SECONDS
    while not device.exists():
        if time.monotonic() > until:
            raise DemoError(f"{device} did not appear within {DEVICE_SECONDS:.0f} s: is udevd running?")
        time.sleep(0.02)
    return device


def load_zvol_clone(module: Path | None) -> bool:
    """Loads zvol_clone from a file, or the installed one. False after a failure; prints the reason on standard error."""
    result = subprocess.run([LOAD_MODULE, *([module] if module else [])], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        report(f"without zvol_clone: copies will be read and written, not shared ({result.stderr.strip()})")
    return result.returncode == 0


def identity(volume: str) -> str:
    """UUID of the zvol's LUN, stored with the data; created if the zvol has none. The property is not one of the appliance, which
    would take the zvol for a copy of a datastore.
    """
    stored = run("zfs", "get", "-H", "-o", "value", UUID, volume).strip()
    if stored == "-":
        stored = str(uuid.uuid4())
        run("zfs", "set", f"{UUID}={stored}", volume)
    return stored


def private_folders() -> None:
    """Private /run and /srv: sockets and mounts are invisible to others, and end with this process. Only udev's folder is the
    machine's.
    """
    run("mount", "-t", "tmpfs", "-o", "mode=755", "zvaai-demo", "/srv")
    new = Path("/srv/run")
    new.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "zvaai-demo", str(new))
    if Path("/run/udev").exists():
        (new / "udev").mkdir()
        run("mount", "--bind", "/run/udev", str(new / "udev"))
    (new / "mount").mkdir()  # libmount's own table
    run("mount", "--move", str(new), "/run")
    for folder in (service.HERE, service.DEMO_MOUNTS, Path("/srv/zvaai")):
        folder.mkdir()


def bind_library(library: Path) -> Path:
    """The package `appliance` and the console where any user finds them, as a checkout need not be."""
    place = service.HERE / "lib"
    place.mkdir()
    run("mount", "--bind", str(library), str(place))
    return place


def serve(options: argparse.Namespace, stop: StopSignal) -> None:
    """Serves until SIGTERM or SIGINT, then ends in order: the appliance, the target, the NFS server, the bus, the pool.

    Raises DemoError; Stopped when it is to end before it serves.
    """
    private_folders()
    open_pool(options.pool, options.device)
    with Ending() as ending:
        ending.add(lambda: close_pool(options.pool))
        volumes = [f"{options.pool}/lun{number}" for number in LUNS]
        devices = [open_volume(volume) for volume in volumes]
        clones = load_zvol_clone(options.zvol_clone)
        options.state.mkdir(parents=True, exist_ok=True)
        control = service.HERE / "target.sock"
        report("starting the NFS server, the target and the appliance")
        service.start_bus(ending, stop)  # clients of a bus end with the bus
        nfs = start_nfs(options)
        ending.add(lambda: end(nfs, "the NFS server", NFS_END_SECONDS))
        # In a separate session, like the others: a signal to this session would end it too early.
        target = subprocess.Popen(
            [*END_WITH_US, options.target, "serve", "--config", options.state / "target.json", "--control", control]
            + ["--listen", f"{options.listen}={options.advertise}", "--log", "warn", "--allow-user", service.USER],
            stdout=sys.stderr,  # standard output is the demo's own
            start_new_session=True,
        )
        ending.add(lambda: end(target, "the target", TARGET_END_SECONDS))
        appliance = Appliance(service_options(options, control))
        ending.add(appliance.stop)
        appliance.start()

        def call(method: str, parameters: dict[str, Any]) -> str:
            return run(options.target, "call", "--control", str(control), method, json.dumps(parameters))

        wait_until(lambda: answers(call), [target], "the target", READY_SECONDS, stop)
        call("targets.create", {"name": options.iqn, "initiators": "any"})
        for number, volume, device in zip(LUNS, volumes, devices, strict=True):
            lun = {"number": number, "uuid": identity(volume), "path": str(device), "product": "ZVAAI DEMO"}
            call("luns.create", {"target": options.iqn, "lun": lun})
        wait_until(nfs_ready(options).exists, [nfs], "the NFS server", NFS_READY_SECONDS, stop)
        appliance.wait_until_ready(stop)
        announce(options.state / "ready", {"luns": LUNS, "zvol_clone": clones, "console": appliance.facts})
        watch(partial(call, "statistics.get", {"target": options.iqn}), {"target": target, "NFS server": nfs}, appliance, stop)


def close_pool(pool: str) -> None:
    """Exports it. It is busy while udev reads a zvol, which it does after the target has closed it. Raises DemoError."""
    until = time.monotonic() + UDEV_SECONDS
    while True:
        try:
            run("zpool", "export", pool)
            return
        except DemoError as error:
            if "busy" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.2)


def service_options(options: argparse.Namespace, control: Path) -> service.Options:
    """Options of the appliance."""
    address, _, port = options.console.rpartition(":")
    return service.Options(
        library=bind_library(options.appliance),
        pool=options.pool,
        control=control,
        listen=(address, int(port)),
        state=options.state,
        device_directory=str(Path(options.device).parent),
    )


def announce(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes the served objects, readable only by root: the one-time code permits creating the first administrator."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(facts))


def answers(call: Callable[[str, dict[str, Any]], str]) -> bool:
    """Whether the target's control socket does."""
    try:
        call("status", {})
    except DemoError:
        return False
    return True


def start_nfs(options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """The process that serves the NFS export."""
    nfs_ready(options).unlink(missing_ok=True)
    words = ["--dataset", f"{options.pool}/nfs", "--fsal", options.fsal, "--library", options.ganesha_library]
    words += ["--log", options.state / "ganesha.log", "--ready", nfs_ready(options)]
    if options.nfs_private_network:
        words += ["--private-network", *map(str, options.nfs_private_network)]
    return subprocess.Popen([*END_WITH_US, "python3", NFS, *words], stdout=sys.stderr, start_new_session=True)


def nfs_ready(options: argparse.Namespace) -> Path:
    """The file that exists once the NFS export is served."""
    path: Path = options.state / "nfs-ready"
    return path


def watch(
    statistics: Callable[[], str], needed: Mapping[str, subprocess.Popen[bytes]], appliance: Appliance, stop: StopSignal
) -> None:
    """Runs until the end: prints the offloads of the demo's LUNs when they increase, and restarts the appliance's processes.
    Raises DemoError if a required process ends.
    """
    known: dict[tuple[int, str], int] = {}
    while not stop.came:
        time.sleep(POLL_SECONDS)
        for name, process in needed.items():
            if not stop.came and process.poll() is not None:
                raise DemoError(f"the {name} ended by itself (exit code {process.returncode})")
        appliance.check()
        try:
            luns = json.loads(statistics())["luns"]
        except DemoError:
            continue  # it has ended
        for lun in luns:
            for counter, what in SHOWN.items():
                key, count = (lun["number"], counter), lun["offload"][counter]
                more = count - known.get(key, 0)
                known[key] = count
                if more > 0:
                    report(f"LUN {lun['number']}: {more / (1 << 20):.1f} MiB {what}")


def main(words: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="serve", description=__doc__)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--device", required=True, help="the pool's only device, or file")
    parser.add_argument(
        "--state", required=True, type=Path, help="folder for the target's configuration and the mark that it is ready"
    )
    parser.add_argument("--zvol-clone", type=Path, help="zvol_clone.ko; the installed one when not given")
    parser.add_argument("--target", required=True, help="the zvaai-target program")
    parser.add_argument("--listen", required=True, help="ADDRESS:PORT of the portal")
    parser.add_argument("--advertise", required=True, help="ADDRESS:PORT that discovery tells initiators")
    parser.add_argument("--iqn", required=True)
    parser.add_argument("--fsal", required=True, help="libfsalzvaai.so")
    parser.add_argument("--ganesha-library", required=True, help="folder of the patched libganesha_nfsd")
    parser.add_argument("--nfs-private-network", type=int, nargs=2, help="--private-network of nfs.py")
    parser.add_argument("--appliance", required=True, type=Path, help="folder with the package `appliance` and the console")
    parser.add_argument("--console", required=True, help="ADDRESS:PORT of the API and the console")
    options = parser.parse_args(words)
    stop = StopSignal()
    try:
        serve(options, stop)
    except Stopped:
        return 0
    except (DemoError, OSError) as error:
        report(str(error))
        return 1
    finally:
        stop.ignore()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
