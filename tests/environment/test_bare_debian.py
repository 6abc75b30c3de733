# SPDX-License-Identifier: Apache-2.0
"""README's statement about a fresh Debian 13: `apt install git make` is the only step before `make`.

Each test has a bare machine (support/bare-debian). Its packages come from the archive, so the tests need the network.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.programs import REPOSITORY, run

BARE = REPOSITORY / "tests/support/bare-debian"
ROOTFS = REPOSITORY / "packaging/rootfs"
LAYERS = ("base", "test", "lint", "deb")


def version(file: str, name: str) -> str:
    """Version of `name` in a file of versions, which shells source."""
    match = re.search(rf"^{name}=(\S+)$", (REPOSITORY / file).read_text(), re.MULTILINE)
    assert match
    return match[1]


def test_every_package_is_to_be_had() -> None:
    """The machine itself gets mmdebstrap; in the root folder apt finds all packages of `prepare`."""
    script = """packaging/rootfs/prepare --print-uris "$@" && dpkg-query -W -f '== ${Package}\\n' && ls /etc/apt/sources.list.d"""
    shown, _, machine = run(BARE, "sh", "-c", script, "sh", *LAYERS, timeout=600).partition("== ")
    on_machine = set(machine.replace("== ", "").split())
    assert "mmdebstrap" in on_machine
    assert not on_machine & {"gcc", "nfs-ganesha", "nginx", "rpcbind", "zfs-dkms", "zfsutils-linux", "zvaai-contrib.list"}
    files = [file.split("_") for file in re.findall(r"^'\S+' (\S+)\.deb ", shown, re.MULTILINE)]
    fetched = {name: unquote(version) for name, version, _ in files}
    present = set(re.findall(r"^(\S+) is already the newest version", shown, re.MULTILINE))
    lines = [line for layer in LAYERS for line in (ROOTFS / f"packages.{layer}").read_text().splitlines()]
    assert {line for line in lines if not line.startswith("#")} <= fetched.keys() | present
    zfs = version("packaging/uml/versions", "ZFS_VERSION")
    assert {fetched[name] for name in ("zfsutils-linux", "zfs-zed", "libzfs6linux", "libzpool6linux")} == {zfs}
    assert fetched["nfs-ganesha"] == version("packaging/ganesha/versions", "NFS_GANESHA_VERSION")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`make demo JSON=1` on a bare machine, with its output in the file `said`."""
    command = [str(BARE), "--disk", "make", "demo", "JSON=1"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.long("10 min: it installs and builds everything")
def test_demo_serves(demo: subprocess.Popen[str], tmp_path: Path) -> None:
    started = time.monotonic()
    assert demo.stdout is not None
    line = demo.stdout.readline()
    assert line, (tmp_path / "said").read_text()
    print(f"demo: ready on a bare machine after {time.monotonic() - started:.0f} s")
    answer = json.loads(line)
    listing = run("iscsi-ls", f"iscsi://{answer['iscsi_portal']}")
    assert f"Target:{answer['iqn']} Portal:{answer['iscsi_portal']}" in listing
    os.killpg(demo.pid, signal.SIGINT)
    rest, _ = demo.communicate(timeout=1800)  # includes removal of the machine: some 100,000 files
    said = (tmp_path / "said").read_text()
    assert rest == "" and "demo: stopped; the data is kept" in said, said
