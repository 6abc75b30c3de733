# SPDX-License-Identifier: Apache-2.0
"""Targets to compare with: tgt, and the kernel's target (LIO) in the guest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.programs import run, wait_for

IQN = "iqn.2026-11.example.zvaai:peer"
TGT_PORTAL, LIO_PORTAL = "127.0.0.1:3261", "127.0.0.1:3262"
TARGET_CORE = Path("/sys/kernel/config/target")


@dataclass(frozen=True)
class Peer:
    """A running peer: its process for CPU time and memory, if any, and the URL of each LUN."""

    process_id: int | None
    urls: list[str]


@contextmanager
def tgt(directory: Path, files: Sequence[Path], stable: bool) -> Iterator[Peer]:
    """tgt on files, with fast settings; with `stable` it writes by O_SYNC."""
    environment = {**os.environ, "TGT_IPC_SOCKET": str(directory / "tgt.sock")}
    process = subprocess.Popen(
        ["tgtd", "--foreground", "--iscsi", f"portal={TGT_PORTAL}", "--nr_iothreads", "8"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def administer(*words: str) -> None:
        run("tgtadm", "--lld", "iscsi", *words, env=environment)

    try:
        wait_for(lambda: TGT_PORTAL in run("ss", "-ltn"), "tgtd listens")
        administer("--op", "new", "--mode", "target", "--tid", "1", "-T", IQN)
        for name, value in (("MaxRecvDataSegmentLength", 262144), ("MaxXmitDataSegmentLength", 262144),
                            ("MaxBurstLength", 1048576), ("FirstBurstLength", 262144)):  # fmt: skip
            administer("--op", "update", "--mode", "target", "--tid", "1", "--name", name, "--value", str(value))
        flags = ["--bsoflags", "sync"] if stable else []
        for number, file in enumerate(files, 1):
            unit = ["--mode", "logicalunit", "--tid", "1", "--lun", str(number)]
            administer("--op", "new", *unit, "-b", str(file), *flags)
            administer("--op", "update", *unit, "--params", "thin_provisioning=1")
        administer("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
        yield Peer(process.pid, [f"iscsi://{TGT_PORTAL}/{IQN}/{number}" for number in range(1, len(files) + 1)])
    finally:
        process.kill()
        process.wait()


@contextmanager
def lio(devices: Sequence[Path]) -> Iterator[Peer]:
    """LIO on block devices, by configfs as targetcli does; with UNMAP and WRITE SAME with UNMAP, which are off by default."""
    Path("/var/target/pr").mkdir(parents=True, exist_ok=True)  # without it every PERSISTENT RESERVE OUT and EXTENDED COPY fails
    if not TARGET_CORE.exists():
        run("modprobe", "configfs")
        if not os.path.ismount("/sys/kernel/config"):
            run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
        for module in ("target_core_mod", "target_core_iblock", "iscsi_target_mod"):
            run("modprobe", module)
    group = TARGET_CORE / "iscsi" / IQN / "tpgt_1"
    made: list[Path] = []

    def make(folder: Path) -> Path:
        for missing in reversed([folder, *folder.parents]):
            if not missing.exists():
                missing.mkdir()
                made.append(missing)
        return folder

    try:
        for number, device in enumerate(devices):
            store = make(TARGET_CORE / "core/iblock_0" / f"disk{number}")
            (store / "control").write_text(f"udev_path={device}")
            (store / "enable").write_text("1")
            (store / "wwn/vpd_unit_serial").write_text(f"peer-{number}")
            for attribute in ("emulate_tpu", "emulate_tpws"):
                (store / "attrib" / attribute).write_text("1")
            unit = make(group / "lun" / f"lun_{number}")
            (unit / "disk").symlink_to(store)
            made.append(unit / "disk")
        make(group / "np" / LIO_PORTAL)
        for attribute, value in (("authentication", 0), ("generate_node_acls", 1), ("demo_mode_write_protect", 0)):
            (group / "attrib" / attribute).write_text(str(value))
        (group / "enable").write_text("1")
        yield Peer(None, [f"iscsi://{LIO_PORTAL}/{IQN}/{number}" for number in range(len(devices))])
    finally:
        if (group / "enable").exists():
            (group / "enable").write_text("0")
        for path in reversed(made):
            # Removing a folder also removes what configfs made inside.
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                path.rmdir()
