"""`make demo` as a user meets it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.images import digest, file_system_image
from support.programs import CACHE, IN_GUEST, REPOSITORY, run, wait_for

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


class Demo:
    """One `make demo JSON=1`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.log = state.with_suffix(".log")
        self._environment = {**os.environ, "ZVAAI_DEMO_STATE": str(state)}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Mapping[str, Any]:
        """What the JSON line says."""
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                ["make", "demo", "JSON=1"],
                cwd=REPOSITORY,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the demo ended without a line of JSON:\n{self.log.read_text()}"
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def make(self, goal: str) -> subprocess.CompletedProcess[str]:
        """Another make target beside it."""
        return subprocess.run(
            ["make", goal], cwd=REPOSITORY, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )

    def interrupt(self) -> str:
        """Ctrl-C: the signal goes to the whole foreground group. Returns the rest of standard output."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGINT)
        rest, _ = self._process.communicate(timeout=60)
        return rest

    def close(self) -> None:
        """Ends it if a test left it running."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def demo() -> Iterator[Demo]:
    """A demo with data of its own."""
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        demo = Demo(Path(directory) / "state")
        yield demo
        demo.close()


def test_a_user_without_rights_has_a_disk_that_keeps_its_data(demo: Demo, tmp_path: Path, seed: int) -> None:
    image = file_system_image(tmp_path, seed, 32)
    started = time.monotonic()
    answer = demo.start()
    print(f"demo: ready after {time.monotonic() - started:.1f} s, warm")
    assert answer["luns"] == [0, 1]
    url = f"iscsi://{answer['iscsi_portal']}"
    # Discovery leads to an address that can be reached from here, not to the guest's own.
    listing = run(*NOBODY, "iscsi-ls", "-s", url)
    assert answer["iqn"] in listing and answer["iscsi_portal"] in listing and "Lun:0" in listing
    run(*NOBODY, "iscsi-inq", f"{url}/{answer['iqn']}/0")
    run("qemu-img", "convert", "-n", "-O", "raw", "-f", "raw", image, f"{url}/{answer['iqn']}/0")

    refused = demo.make("demo")
    assert refused.returncode != 0 and "runs already" in refused.stderr
    refused = demo.make("demo-reset")
    assert refused.returncode != 0 and "it runs" in refused.stderr

    assert demo.interrupt() == "", "standard output is for the one line of JSON"
    host, _, port = str(answer["iscsi_portal"]).rpartition(":")
    with pytest.raises(OSError), socket.create_connection((host, int(port)), timeout=2):
        pass
    if IN_GUEST:
        assert "zvaai-demo" not in run("zpool", "list", "-H", "-o", "name")
    else:
        survivors = subprocess.run(["pgrep", "-f", f"{CACHE}/uml/linux.uml.*{demo.state}"], capture_output=True, check=False)
        assert survivors.returncode == 1, survivors.stdout

    answer = demo.start()
    back = tmp_path / "back"
    luns = [f"iscsi://{answer['iscsi_portal']}/{answer['iqn']}/{number}" for number in answer["luns"]]
    run("qemu-img", "convert", "-C", "-n", "-f", "raw", "-O", "raw", *luns)
    assert answer["zvol_clone"] or IN_GUEST, "a host has it only where it was installed"
    way = "copied by sharing blocks" if answer["zvol_clone"] else "copied by reading and writing"
    wait_for(lambda: f"MiB {way}" in demo.log.read_text(), f"the demo says that LUN 1 was {way}")
    for number, url in enumerate(luns):
        run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "count=32", f"if={url}", f"of={back}")
        assert digest(back) == digest(image), f"the data of LUN {number} was not kept"
    demo.interrupt()
    assert demo.make("demo-reset").returncode == 0
    assert not demo.state.exists()


def printed(screen: str, begin: str) -> str:
    """The commands that the screen shows after a line that begins so."""
    lines = screen[screen.index(f"\n  {begin}") + 1 :].splitlines()[2:]
    return "\n".join(itertools.takewhile(str.strip, lines))


def test_nfs_commands_do_as_printed(demo: Demo, tmp_path: Path) -> None:
    answer = demo.start()["nfs"]
    wait_for(lambda: "Ctrl-C stops everything" in demo.log.read_text(), "the screen")
    screen = demo.log.read_text()
    commands = printed(screen, "Try NFS")
    shown = run("bash", "-euc", commands)
    assert "done: 67108864 bytes, 67108864 cloned, 0 copied" in shown
    figures = dict(re.findall(r"^(total|allocated|unique): (?:at most )?(\d+)$", shown, re.MULTILINE))
    assert int(figures["total"]) == 64 << 20 <= int(figures["allocated"]), shown
    assert int(figures["unique"]) < 1 << 20, shown
    assert "disk.raw" in shown and "clone.raw" in shown
    shared = "NFS export /demo: 64.0 MiB cloned by sharing blocks"
    wait_for(lambda: shared in demo.log.read_text(), "the demo says what was shared")
    ports = f"nfsport={answer['port']}&mountport={answer['mount_port']}"
    disk = demo.state / "disk.raw"
    back = demo.state / "back.raw"
    run("nfs-cp", f"nfs://{answer['address']}{answer['export']}/clone.raw?{ports}", back)
    assert digest(back) == digest(disk)
    back.unlink()
    if IN_GUEST:  # elsewhere the kernel has no client
        mount = printed(screen, "Or mount it")
        place = tmp_path / "mnt"
        place.mkdir()
        run("bash", "-euc", mount.replace(" /mnt", f" {place}"))
        try:
            assert digest(place / "clone.raw") == digest(disk)
            (place / "note").write_text("kept")
        finally:
            run("umount", place)
    demo.interrupt()

    # Somebody has the usual ports now.
    with contextlib.ExitStack() as stack:
        numbers = ("port", "mount_port", "vaai_nas_port")
        for number in numbers:
            stack.enter_context(socket.create_server((answer["address"], answer[number])))
        again = demo.start()["nfs"]
        assert not {again[number] for number in numbers} & {answer[number] for number in numbers}
        ports = f"nfsport={again['port']}&mountport={again['mount_port']}"
        run("nfs-cp", f"nfs://{again['address']}{again['export']}/clone.raw?{ports}", back)
        assert digest(back) == digest(disk), "the data was not kept"
        if IN_GUEST:
            assert "note" in run("nfs-ls", f"nfs://{again['address']}{again['export']}?{ports}")
        demo.interrupt()
    if IN_GUEST:
        assert "zvaai-demo" not in run("zpool", "list", "-H", "-o", "name")
    log = (demo.state / "ganesha.log").read_text()
    assert log.count("NFS EXIT: regular exit") == 2 and "FATAL" not in log, log
