"""The demo's storage: a pool on one device; two zvols, zvol_clone and the target that serves them; an NFS export (nfs.py); the
appliance (service.py), whose datastores are served beside these.

Runs where the OpenZFS module is: inside the guest, or on a host that has it, in a mount namespace of its own. Safe to repeat:
what is there is used again. Ends, with the pool exported, on SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import service
from service import Appliance, ApplianceError

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
LOOK_SECONDS = 1.0
DEVICE_SECONDS = 20.0
READY_SECONDS = 20.0
NFS_READY_SECONDS = 40.0  # it ends by itself when it does not serve within 30
UUID, OLD_UUID = "zvaai-demo:uuid", "zvaai:uuid"
END_WITH_US = ("setpriv", "--pdeathsig", "TERM")


class DemoError(Exception):
    """The demo can't be served; the text says why and what to do."""


def run(*command: str) -> str:
    """Standard output of a command. Raises DemoError with its standard error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DemoError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def report(message: str) -> None:
    """Says on standard error what goes on."""
    print(f"demo: {message}", file=sys.stderr, flush=True)


def open_pool(pool: str, device: str) -> None:
    """Imports the pool from `device`, or makes it there if the device was never used.

    Raises DemoError when a pool of that name from elsewhere is imported: it is somebody's.
    """
    imported = run("zpool", "list", "-H", "-o", "name").split()
    if pool in imported:
        if device not in run("zpool", "list", "-v", "-H", "-P", pool):
            raise DemoError(f"a pool named {pool} exists and is not the demo's (it does not lie on {device}); nothing was done")
        return
    if has_label(device):
        report(f"importing the pool {pool}: its data is kept from last time")
        # -f: the pool was last used by another boot of the guest, perhaps one that was killed. What the appliance had mounted is
        # mounted again, as at any boot: its LUNs' persistent reservations are in a dataset.
        run("zpool", "import", "-f", "-d", device, "-o", "cachefile=none", pool)
        return
    report(f"making the pool {pool}")
    run("zpool", "create", "-O", "mountpoint=none", "-O", "compression=lz4", "-o", "cachefile=none", pool, device)  # fmt: skip


def has_label(device: str) -> bool:
    """Whether a ZFS label is on the device."""
    return subprocess.run(["zdb", "-l", device], capture_output=True, check=False).returncode == 0


def open_volume(volume: str) -> Path:
    """The zvol's device node; the zvol is made (thin) when it is not there."""
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
    """Loads zvol_clone from a file, or as it is installed; False, and why on standard error, when that can't be."""
    result = subprocess.run([LOAD_MODULE, *([module] if module else [])], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        report(f"without zvol_clone: copies will be read and written, not shared ({result.stderr.strip()})")
    return result.returncode == 0


def identity(volume: str) -> str:
    """The UUID of the zvol's LUN, kept with the data; made when the zvol has none of its own.

    The property is none of the appliance's, to which the zvol would be a datastore's copy; an older demo's was.
    """
    told = run("zfs", "get", "-H", "-o", "property,value,source", f"{UUID},{OLD_UUID}", volume)
    found = {name: value for name, value, source in map(str.split, told.splitlines()) if source == "local"}
    kept = found.get(UUID) or found.get(OLD_UUID) or str(uuid.uuid4())
    if UUID not in found:
        run("zfs", "set", f"{UUID}={kept}", volume)
    if OLD_UUID in found:
        run("zfs", "inherit", OLD_UUID, volume)
    return kept


def own_folders() -> None:
    """/run and /srv of our own, that sockets and mounts are nobody else's and gone with us. Only udev's is the machine's."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "zvaai-demo", "/srv")
    new = Path("/srv/run")
    new.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "zvaai-demo", str(new))
    if Path("/run/udev").exists():
        (new / "udev").mkdir()
        run("mount", "--bind", "/run/udev", str(new / "udev"))
    (new / "mount").mkdir()  # libmount's own table
    run("mount", "--move", str(new), "/run")
    for folder in (service.HERE, service.OWN_MOUNTS, Path("/srv/zvaai")):
        folder.mkdir()


def bind_library(library: Path) -> Path:
    """The package `appliance` and the console where any user finds them, as a checkout need not be."""
    place = service.HERE / "lib"
    place.mkdir()
    run("mount", "--bind", str(library), str(place))
    return place


def serve(options: argparse.Namespace) -> None:
    """Serves until SIGTERM or SIGINT."""
    stopping = False
    target: subprocess.Popen[bytes] | None = None
    nfs: subprocess.Popen[bytes] | None = None
    bus: subprocess.Popen[bytes] | None = None
    appliance: Appliance | None = None

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        if target is not None:
            target.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    own_folders()
    open_pool(options.pool, options.device)
    try:
        volumes = [f"{options.pool}/lun{number}" for number in LUNS]
        devices = [open_volume(volume) for volume in volumes]
        clones = load_zvol_clone(options.zvol_clone)
        options.state.mkdir(parents=True, exist_ok=True)
        control = service.HERE / "target.sock"
        report("starting the NFS server, the target and the appliance")
        bus = service.start_bus()
        nfs = start_nfs(options)
        target = subprocess.Popen(
            [*END_WITH_US, options.target, "serve", "--config", options.state / "target.json", "--control", control]
            + ["--listen", f"{options.listen}={options.advertise}", "--log", "warn", "--allow-user", service.USER],
            stdout=sys.stderr,  # standard output is the demo's own
        )
        appliance = Appliance(service_options(options, control))
        appliance.start()

        def call(method: str, parameters: dict[str, Any]) -> str:
            return run(options.target, "call", "--control", str(control), method, json.dumps(parameters))

        wait_until_it_answers(call, target)
        call("targets.create", {"name": options.iqn, "initiators": "any"})
        for number, volume, device in zip(LUNS, volumes, devices, strict=True):
            lun = {"number": number, "uuid": identity(volume), "path": str(device), "product": "ZVAAI DEMO"}
            call("luns.create", {"target": options.iqn, "lun": lun})
        wait_for_nfs(options, nfs)
        appliance.wait_until_ready()
        tell_ready(options.state / "ready", {"luns": LUNS, "zvol_clone": clones, "console": appliance.facts})
        if stopping:
            target.terminate()
        look(partial(call, "statistics.get", {"target": options.iqn}), target, nfs, appliance)
        if not stopping and nfs.poll() is not None:
            raise DemoError(f"the NFS server ended by itself (exit code {nfs.returncode})")
        code = target.wait()
        if not stopping:
            raise DemoError(f"the target ended by itself (exit code {code})")
    finally:
        if appliance is not None:
            appliance.stop()
        end_all([target, nfs])
        end_all([bus])  # who is on a bus that ends, ends at once
        close_pool(options.pool)


def end_all(processes: Sequence[subprocess.Popen[bytes] | None]) -> None:
    """Ends those that were started."""
    started = [process for process in processes if process is not None]
    for process in started:
        process.terminate()
    for process in started:
        process.wait()


def close_pool(pool: str) -> None:
    """Exports it, when nobody uses its volumes any more."""
    run("udevadm", "settle")  # it looks at the zvol after the target has closed it, and keeps the pool busy
    run("zpool", "export", pool)


def service_options(options: argparse.Namespace, control: Path) -> service.Options:
    """Of the appliance."""
    address, _, port = options.console.rpartition(":")
    return service.Options(
        library=bind_library(options.appliance),
        pool=options.pool,
        control=control,
        listen=(address, int(port)),
        state=options.state,
        device_directory=str(Path(options.device).parent),
    )


def tell_ready(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes what is served, for root alone: who has the one-time code makes the first administrator."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(facts))


def wait_until_it_answers(call: Callable[[str, dict[str, Any]], str], target: subprocess.Popen[bytes]) -> None:
    """Returns once the control socket answers. Raises DemoError."""
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            call("status", {})
            return
        except DemoError as error:
            if target.poll() is not None or time.monotonic() > until:
                raise DemoError(f"the target does not answer: {error}") from error
            time.sleep(0.05)


def start_nfs(options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """The process that serves the NFS export."""
    nfs_ready(options).unlink(missing_ok=True)
    words = ["--dataset", f"{options.pool}/nfs", "--fsal", options.fsal, "--library", options.ganesha_library]
    words += ["--log", options.state / "ganesha.log", "--ready", nfs_ready(options)]
    if options.nfs_own_network:
        words += ["--own-network", *map(str, options.nfs_own_network)]
    return subprocess.Popen([*END_WITH_US, "python3", NFS, *words], stdout=sys.stderr)


def nfs_ready(options: argparse.Namespace) -> Path:
    """The file that says that the NFS export is served."""
    path: Path = options.state / "nfs-ready"
    return path


def wait_for_nfs(options: argparse.Namespace, nfs: subprocess.Popen[bytes]) -> None:
    """Returns once the NFS export is served. Raises DemoError."""
    until = time.monotonic() + NFS_READY_SECONDS
    while not nfs_ready(options).exists():
        if nfs.poll() is not None:
            raise DemoError("the NFS server ended before it served")
        if time.monotonic() > until:
            raise DemoError(f"the NFS server does not serve within {NFS_READY_SECONDS:.0f} s")
        time.sleep(0.05)


def look(
    statistics: Callable[[], str], target: subprocess.Popen[bytes], nfs: subprocess.Popen[bytes], appliance: Appliance
) -> None:
    """Until the target or the NFS server ends: says what the target did for hosts with the demo's own LUNs, whenever it did more,
    and sees to it that the appliance runs.
    """
    known: dict[tuple[int, str], int] = {}
    while nfs.poll() is None:
        try:
            target.wait(LOOK_SECONDS)
            return
        except subprocess.TimeoutExpired:
            pass
        appliance.look()
        try:
            luns = json.loads(statistics())["luns"]
        except DemoError:
            continue  # it is about to end
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
    parser.add_argument("--nfs-own-network", type=int, nargs=3, help="--own-network of nfs.py")
    parser.add_argument("--appliance", required=True, type=Path, help="folder with the package `appliance` and the console")
    parser.add_argument("--console", required=True, help="ADDRESS:PORT of the API and the console")
    try:
        serve(parser.parse_args(words))
    except (DemoError, ApplianceError) as error:
        report(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
