# SPDX-License-Identifier: Apache-2.0
"""What the processes take of a core while nobody is connected: by proc_pid_stat(5), over a minute.

Natively storage is simulated behind the real helper, and the target serves files. In the guest pools, zvols and helper are real.
With --demo it is all of the demo's guest, as the host sees it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.service import fill_database, fill_storage, processor_seconds
from support.appliance import Appliance, running_appliance, running_helper
from support.ganesha import Daemon, Export, mounted_xfs, running_ganesha
from support.message_bus import message_bus
from support.programs import CACHE, IN_GUEST, REPOSITORY, wait_for
from support.zfs import Pool

from appliance.config import Worker

DATASTORES, POOLS = 20, 3
QUIET_SECONDS = 30.0
"""After the last change: copies are written, and alerts are raised or cleared."""
HELPER = Path("/run/zvaai-helper-idle.sock")
SECONDS = Worker().reconcile_seconds


def children(process_id: int) -> list[int]:
    """A process and all that it has started."""
    tree = [process_id]
    for task in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(OSError):
            tree += [process_id for child in (task / "children").read_text().split() for process_id in children(int(child))]
    return tree


def tree_seconds(process_id: int) -> float:
    """Processor time of a process and its children, and of those that have ended and were waited for."""
    total = processor_seconds(children(process_id))
    waited = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[13:15]
    return total + sum(map(int, waited)) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU time of the whole machine without waiting: proc_stat(5)."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def native(directory: Path) -> Iterator[Mapping[str, int]]:
    """The processes by their names."""
    appliance = Appliance(directory / "a", SECONDS, inventory_seconds=10, simulating_helper=True)
    uuids = fill_storage(appliance.directory / "simulator.json", DATASTORES)
    (appliance.directory / "state").mkdir()
    fill_database(appliance.directory / "state" / "appliance.sqlite", uuids)
    processes = [process for process in (appliance.helper, appliance.worker, appliance.api) if process is not None]
    with (
        mounted_xfs(directory / "xfs") as mount,
        running_ganesha(directory / "ganesha", [Export(1, mount, "/idle")], Daemon.PATCHED) as ganesha,
    ):
        appliance.target.start()
        try:
            for process in processes:
                process.start()
            appliance.frontend.start()
            wait_for(lambda: len(appliance.luns()) == DATASTORES, "all LUNs are served")
            yield {**processes_of(appliance), "helper": processes[0].process_id, "ganesha": ganesha.pid}
        finally:
            appliance.frontend.stop()
            for process in reversed(processes):
                process.stop()
            appliance.target.stop()


@contextlib.contextmanager
def in_guest(directory: Path) -> Iterator[Mapping[str, int]]:
    """The same on real pools."""
    exports, block, sockets = directory / "exports", directory / "vaai-nas.conf", directory / "sockets"
    exports.mkdir()
    sockets.mkdir()
    packaged = (REPOSITORY / "packaging/ganesha/vaai-nas.conf").read_text()
    block.write_text(packaged.replace("/run/zvaai-nfs", str(sockets)).replace("Control_User = zvaai;", ""))
    blocks = f'FSAL_LIST {{ Name = VAAI_NAS, ZVAAI_EXPORTS; }}\n%include "{block}"\n%dir "{exports}/*.conf"\n'
    pools = []
    for number in range(POOLS):
        disk = directory / f"disk{number}"
        with disk.open("wb") as file:
            file.truncate(4 << 30)
        pools.append(Pool(f"idle{number}", str(disk)))
    with contextlib.ExitStack() as stack:
        bus = stack.enter_context(message_bus(directory / "bus"))
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
        ganesha = running_ganesha(directory / "ganesha", [], Daemon.PATCHED, environment=environment, blocks=blocks)
        ganesha_id = stack.enter_context(ganesha).pid
        of_nfs = ("--exports", str(exports), "--with-exports", str(block), "--bus", bus)
        helper = stack.enter_context(running_helper(HELPER, *of_nfs))
        nfs = f'exports = "{exports}"\nbus = "{bus}"\nstatistics = "{sockets / "vaai-nas.socket"}"'
        appliance = stack.enter_context(running_appliance(directory / "a", SECONDS, helper=HELPER, nfs=nfs, inventory_seconds=10))
        for number, pool in enumerate(pools):
            for kind in ("vmfs", "nfs"):
                words = ("--kind", kind, "--pool", pool.name, "--size", "1G", "--wait")
                appliance.cli("datastore", "create", f"{kind}{number}", *words)
        yield {**processes_of(appliance), "helper": helper, "ganesha": ganesha_id}
    for pool in pools:
        pool.destroy()


def processes_of(appliance: Appliance) -> dict[str, int]:
    """Processes that always run."""
    return {
        "worker": appliance.worker.process_id,
        "API": appliance.api.process_id,
        "nginx": appliance.frontend.process_id,
        "target": appliance.target.process_id,
    }


@contextlib.contextmanager
def demo(directory: Path) -> Iterator[Mapping[str, int]]:
    """`make demo`, with a datastore of each kind."""
    environment = {**os.environ, "ZVAAI_DEMO_STATE": str(directory / "demo"), "JSON": "1"}
    command = [str(REPOSITORY / "packaging/demo/run")]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())
        try:
            yield {"the demo": process.pid}
        finally:
            process.terminate()


def measure(
    directory: Path, start: Callable[[Path], contextlib.AbstractContextManager[Mapping[str, int]]], seconds: float
) -> None:
    """Prints the table, in percent of a core."""
    with start(directory) as processes:
        time.sleep(QUIET_SECONDS)
        before = {name: tree_seconds(process) for name, process in processes.items()}
        machine, began = busy_seconds(), time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        shares = {name: (tree_seconds(process) - before[name]) / lasted for name, process in processes.items()}
        rows = {**shares, "together": sum(shares.values())} if len(shares) > 1 else shares
        if IN_GUEST:
            rows["all of the guest"] = (busy_seconds() - machine) / lasted
    print(f"\nidle for {lasted:.0f} s, a round each {SECONDS:.0f} s; percent of a core")
    for name, share in rows.items():
        print(f"{name:20}{100 * share:8.2f}")


def main(words: Sequence[str]) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--demo", action="store_true", help="the demo's guest")
    options = parser.parse_args(words)
    start = demo if options.demo else in_guest if IN_GUEST else native
    with tempfile.TemporaryDirectory(dir=CACHE if options.demo else None) as directory:
        measure(Path(directory), start, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
