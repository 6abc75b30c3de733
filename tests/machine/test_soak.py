# SPDX-License-Identifier: Apache-2.0
"""Hours of work on a Debian 13 that systemd boots: hosts write while snapshots and clones come and go.

ZVAAI_SOAK_MINUTES sets the duration. In the first half, services are killed and the packages upgraded. In the second half, all
processes live on, and their memory and open files must not grow.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from machine import CommandError, Machine
from support import releases
from support.fio_hosts import FioHosts
from support.programs import wait_for
from support.steady_writer import BLOCK_BYTES, SLOTS
from support.storage_server import APPLIANCE, SERVING, MachineMaker, Writers, failed_units, log_in, versions

SECONDS = 60 * float(os.environ.get("ZVAAI_SOAK_MINUTES", "120"))
STORES = ("vmfs1", "nfs1")
KILLED = (*SERVING, *APPLIANCE, "zvaai-helper.service")
PASSES_BETWEEN_UPGRADES = 10
GROWTH_MAX = 1.1
GROWTH_KIB_MAX = 6 << 10
"""In addition to GROWTH_MAX: pages that the allocators of a small process come to hold."""
TEMPLATE = "template-flat.vmdk"
FILES_MAX = 8
"""How many files more a unit may have open: connections of the command line come and go."""

MEASURE = """
for unit in %s; do
    memory=0 files=0
    for process in $(cat /sys/fs/cgroup/system.slice/$unit/cgroup.procs); do
        memory=$((memory + $(awk '/^Anonymous:/ {print $2}' /proc/$process/smaps_rollup)))
        files=$((files + $(ls /proc/$process/fd | wc -l)))
    done
    echo $unit $memory $files
done
"""


@dataclass
class Usage:
    """Samples of a unit: anonymous memory of its processes in KiB, and open files."""

    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def ends(self, samples: list[int]) -> tuple[float, float]:
        """Medians of the first and of the last quarter."""
        quarter = max(len(samples) // 4, 1)
        return statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, copy_of_server: str, site: Path) -> Iterator[Machine]:
    with machine_of(copy_of_server, site) as machine:
        machine.wait_for_boot()
        log_in(machine)
        machine.run(f"head -c 16M /dev/urandom >{folder(machine)}/{TEMPLATE}; sync")
        yield machine


def zvaai(server: Machine, *words: str) -> Any:
    return json.loads(server.run(f"zvaai --output json {' '.join(words)} 2>/dev/null", 300) or "null")


def change(server: Machine, *words: str) -> None:
    server.run(f"zvaai {' '.join(words)} --wait", 300)


def datastores(server: Machine) -> dict[str, dict[str, Any]]:
    return {datastore["name"]: datastore for datastore in zvaai(server, "datastore", "list")}


def folder(server: Machine) -> str:
    """Mountpoint of nfs1 on the server."""
    return server.run(f"zfs get -Ho value mountpoint {datastores(server)['nfs1']['dataset']}").strip()


def check_clone(server: Machine, name: str, acknowledged: int) -> None:
    """The clone has the last block that was acknowledged before its snapshot, or a later one in the same place."""
    dataset = datastores(server)[name]
    kind = dataset["kind"]
    file = f"/dev/zvol/{dataset['dataset']}" if kind == "vmfs" else f"$(zfs get -Ho value mountpoint {dataset['dataset']})/steady"
    read = f"dd if={file} bs={BLOCK_BYTES} count=1 skip={acknowledged % SLOTS} status=none | od -An -tu8 --endian=big -N8"
    number = int(server.run(read).strip())
    assert number >= acknowledged and number % SLOTS == acknowledged % SLOTS, (name, number, acknowledged)


def work(server: Machine, writers: Writers, name: str) -> None:
    """One pass: a snapshot of both datastores, a clone of each, a clone of a file. Raises CommandError."""
    acknowledged = {kind: report["acknowledged"] for kind, report in writers.reports().items()}
    change(server, "snapshot create", name, *STORES)
    for store, kind in zip(STORES, ("iscsi", "nfs"), strict=True):
        clone = f"{store}-{name}"
        change(server, "datastore clone", store, clone, "--snapshot", name, "--group cluster")
        check_clone(server, clone, acknowledged[kind])
    change(server, "file clone nfs1", TEMPLATE, f"{name}-flat.vmdk", "--fast")
    server.run(f"cd {folder(server)} && cmp {TEMPLATE} {name}-flat.vmdk")


def clear(server: Machine) -> None:
    """Removes what `work` made, also after it was interrupted. Raises CommandError."""
    for name, datastore in datastores(server).items():
        if name not in STORES:
            if datastore["state"] == "active":
                change(server, "datastore delete", name, "--force --yes")
            change(server, "datastore purge", name, "--yes")
    for store in STORES:
        for snapshot in zvaai(server, "snapshot list", store):
            change(server, "snapshot delete", store, snapshot["name"], "--yes")
    server.run(f"rm -f {folder(server)}/*[0-9]-flat.vmdk")


def is_clear(server: Machine) -> bool:
    """Whether `clear` succeeds now: the appliance may be starting, or a job of an interrupted pass may not have ended."""
    try:
        clear(server)
    except CommandError:
        return False
    return True


def measure(server: Machine, usages: dict[str, Usage]) -> None:
    for line in server.run(MEASURE % " ".join(KILLED)).split("\n"):
        if line:
            unit, memory, files = line.split()
            usages[unit].memory.append(int(memory))
            usages[unit].files.append(int(files))


def test_nothing_is_lost_by_kills_and_upgrades(server: Machine, site: Path, report_line: Callable[[str], None]) -> None:
    """A service is killed in the middle of each pass. Every acknowledged block and each clone's content is checked."""
    chance = random.Random(int(os.environ.get("ZVAAI_SEED", "1")))
    built = releases.version_of(site)
    end = time.monotonic() + SECONDS / 2
    complete = upgrades = 0
    version = built
    with Writers(server) as writers:
        for number in itertools.count(1):
            if time.monotonic() > end:
                break
            if number % PASSES_BETWEEN_UPGRADES == 0:
                upgrades += 1
                releases.publish(site, version := f"{built}+{upgrades}")
                server.run("apt-get -q update && apt-get -q -y upgrade", 900)
            unit = KILLED[number % len(KILLED)]
            server.run(f"systemd-run --on-active={chance.uniform(1, 15):.1f} sh -c 'systemctl kill --signal=KILL {unit} || true'")
            try:
                work(server, writers, f"pass{number}")
                complete += 1
            except CommandError as error:  # the appliance was killed meanwhile
                print(number, unit, error)
            wait_for(lambda: is_clear(server), f"the appliance works after a kill of {unit}", 300)
            writers.wait_for_more()
        waited = {kind: report["longest"] for kind, report in writers.stop().items()}
        blocks = {kind: report["acknowledged"] for kind, report in writers.reports().items()}
        writers.verify(server)
    report_line(f"{number - 1} passes with a kill each, {complete} of them complete; {upgrades} upgrades")
    report_line(f"blocks written: {blocks}; hosts waited at most (s): {waited}")
    assert complete > 0
    assert set(versions(server).values()) == {f"{version} installed"}
    assert failed_units(server) == []
    check_is_as_before(server)


def check_is_as_before(server: Machine) -> None:
    """Nothing but the two datastores: no dataset, snapshot, LUN or unfinished job is left over."""
    stores = datastores(server)
    assert set(stores) == set(STORES)
    volumes = server.run("zfs list -H -o name -t volume").split()
    assert volumes == [stores["vmfs1"]["dataset"]]
    assert server.run(f"zfs list -H -o name -t snapshot {' '.join(store['dataset'] for store in stores.values())}").split() == []
    assert [job for job in zvaai(server, "job list") if job["state"] in ("queued", "running")] == []


def test_memory_stays_flat(server: Machine, report_line: Callable[[str], None]) -> None:
    """The same passes without kills, with fio in addition."""
    usages = {unit: Usage() for unit in KILLED}
    with FioHosts(server) as fio, Writers(server) as writers:
        end = time.monotonic() + SECONDS / 2
        for number in itertools.count(1):
            work(server, writers, f"flat{number}")
            clear(server)
            if time.monotonic() > end - SECONDS / 2 * 0.8:  # caches are full by then
                measure(server, usages)
            if time.monotonic() > end:
                break
        fio.goes_on("at the end")
        writers.stop()
        writers.verify(server)
    report_line(f"{number} passes")
    for unit, usage in usages.items():
        memory, files = usage.ends(usage.memory), usage.ends(usage.files)
        report_line(
            f"{unit}: {memory[0] / 1024:.1f}, then {memory[1] / 1024:.1f} MiB; {files[0]:.0f}, then {files[1]:.0f} open files"
        )
    for unit, usage in usages.items():
        before, after = usage.ends(usage.memory)
        assert after <= before * GROWTH_MAX + GROWTH_KIB_MAX, (unit, usage.memory)
        before, after = usage.ends(usage.files)
        assert after <= before + FILES_MAX, (unit, usage.files)
    check_is_as_before(server)
