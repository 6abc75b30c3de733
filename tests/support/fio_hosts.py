# SPDX-License-Identifier: Apache-2.0
"""Hosts that run fio on a machine's datastores: random writes by iSCSI and NFSv3, through qemu-nbd. Blocks are read back."""

from __future__ import annotations

import subprocess
import threading
from types import TracebackType

from machine import Machine

from support.programs import wait_for
from support.storage_server import ADDRESS, INITIATOR, target_name

MIB = 8
OFFSET_MIB = 64
"""The steady writers use the range before this."""


class FioHosts:
    """Passes of fio, one host each for iSCSI and NFSv3, until the block ends: it then raises AssertionError if a pass failed."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        target = target_name(machine)
        self._disks = {
            "iscsi": f"driver=iscsi,transport=tcp,portal={ADDRESS}:3260,target={target},lun=0,initiator-name={INITIATOR}",
            "nfs": f"driver=nfs,server.type=inet,server.host={ADDRESS},path=/nfs1/fio",
        }
        self._sockets = {kind: machine.folder / f"{kind}.nbd" for kind in self._disks}
        self._exports: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()
        self.passes = {"iscsi": 0, "nfs": 0}
        """Ended well."""
        self._failures: list[str] = []
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._threads = [threading.Thread(target=self._run, args=(kind,)) for kind in self.passes]

    def _run(self, kind: str) -> None:
        while not self._stop.is_set():
            words = [
                *("fio", "--name=verify", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={self._sockets[kind]}"),
                *(f"--offset={OFFSET_MIB}M", f"--size={MIB}M", "--rw=randwrite", "--bsrange=4k-64k"),
                *("--iodepth=8", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--thread", "--verify_state_save=0"),
                *("--output-format=terse", f"--randseed={self.passes[kind] + 1}"),
            ]
            self._running[kind] = subprocess.Popen(
                self._machine.in_network(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            output, _ = self._running[kind].communicate()
            if code := self._running[kind].returncode:
                self._failures.append(f"{kind}: exit code {code}: {output}")
                return
            self.passes[kind] += 1

    def __enter__(self) -> FioHosts:
        size = f"{OFFSET_MIB + MIB}M"
        self._machine.client("qemu-img", "create", "-q", "-f", "raw", f"nfs://{ADDRESS}/nfs1/fio", size)
        for kind, disk in self._disks.items():
            self._sockets[kind].unlink(missing_ok=True)
            words = ("qemu-nbd", f"--socket={self._sockets[kind]}", "--persistent", "--shared=2", "--cache=none", "--image-opts")
            log = (self._machine.folder / f"{kind}.qemu-nbd.log").open("wb")
            self._exports.append(subprocess.Popen(self._machine.in_network(*words, disk), stdout=log, stderr=log))
            wait_for(self._sockets[kind].exists, f"qemu-nbd serves {kind}", 30)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if kind:
            for process in self._running.values():
                process.kill()
        for thread in self._threads:
            thread.join()
        for export in self._exports:
            export.kill()
            export.wait()
        assert kind or not self._failures, self._failures

    def goes_on(self, when: str) -> None:
        """Returns once each host has ended a pass that began after this call."""
        before = dict(self.passes)
        wait_for(
            lambda: bool(self._failures) or all(self.passes[kind] >= before[kind] + 2 for kind in before),
            f"fio continues {when}: {self.passes}", 400,
        )  # fmt: skip
        assert not self._failures, self._failures
