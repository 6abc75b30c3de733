# SPDX-License-Identifier: Apache-2.0
"""`make demo` from a user's view."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from integration.kernel.zvol_clone import kernel_module
from support.images import digest, file_system_image
from support.programs import CACHE, IN_GUEST, REPOSITORY, run, wait_for

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
INITIATOR = "iqn.2026-11.example.initiator:here"


class Demo:
    """A run of `make demo JSON=1`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.log = state.with_suffix(".log")
        self._environment = {**os.environ, "ZVAAI_DEMO_STATE": str(state)}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Mapping[str, Any]:
        """Starts the demo; returns its JSON line."""
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
        """Runs another make target concurrently."""
        return subprocess.run(
            ["make", goal], cwd=REPOSITORY, env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )

    def interrupt(self) -> str:
        """Ctrl-C: signals the whole foreground group. Returns the rest of standard output after the end of all processes."""
        assert self._process is not None
        started = time.monotonic()
        os.killpg(self._process.pid, signal.SIGINT)
        rest, _ = self._process.communicate(timeout=300)
        print(f"demo: stopped after {time.monotonic() - started:.1f} s")
        said = self.log.read_text()
        assert "demo: stopped; the data is kept" in said, said
        return rest

    def close(self) -> None:
        """Ends the demo if a test left it running."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def demo() -> Iterator[Demo]:
    """A demo with separate data. In a guest zvol_clone is loaded before, as on a host with zvaai-zvol-clone-dkms."""
    if IN_GUEST:
        assert kernel_module.load().returncode == 0
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        demo = Demo(Path(directory) / "state")
        yield demo
        demo.close()


class Console:
    """The appliance's API with a session, as the console uses it."""

    PASSWORD = "correct horse battery"

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self._client = httpx.Client(base_url=facts["url"], verify=False, timeout=180)

    def page(self, path: str) -> httpx.Response:
        return self._client.get(path, headers={"Accept": "text/html"})

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Response. Raises AssertionError for a problem."""
        answer = self._client.request(method, f"/api/v1{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def log_in(self) -> None:
        """Logs in as the administrator; creates the administrator with the one-time code first, if necessary."""
        user = {"name": "admin", "password": self.PASSWORD}
        if self.request("GET", "/setup")["needed"]:
            self.request("POST", "/setup", {"code": self.facts["setup_code"], **user})
        self._client.headers["X-CSRF-Token"] = self.request("POST", "/session", user)["csrf_token"]

    def make(self, **datastore: Any) -> Mapping[str, Any]:
        job = self.request("POST", "/datastores", datastore)
        until = time.monotonic() + 600
        while (job := self.request("GET", f"/jobs/{job['id']}"))["state"] in {"queued", "running"}:
            assert time.monotonic() < until, job
            time.sleep(0.2)  # each response takes time of the guest's only processor
        assert job["state"] == "succeeded", job
        (made,) = [row for row in self.request("GET", "/datastores")["items"] if row["name"] == datastore["name"]]
        return dict(made)


def alerts(console: Console) -> list[str]:
    """Kinds of alerts: the second part of their keys."""
    return [str(alert["key"]).split(":")[1] for alert in console.request("GET", "/alerts")["items"]]


def reaches(url: str) -> bool:
    """Whether this machine's initiator finds a LUN at the URL."""
    command = [*NOBODY, "iscsi-inq", "-i", INITIATOR, url]
    return subprocess.run(command, capture_output=True, timeout=180, check=False).returncode == 0


def ports_of(nfs: Mapping[str, Any]) -> str:
    return f"nfsport={nfs['port']}&mountport={nfs['mount_port']}"


def lead_to_first_start(answer: Mapping[str, Any]) -> str:
    """Creates the first administrator with the printed code, and a datastore of each kind. Returns the LUN's URL."""
    console = Console(answer["console"])
    page = console.page("/first-start")
    assert page.status_code == 200 and "<script" in page.text and "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert console.request("GET", "/setup")["needed"] and len(answer["console"]["setup_code"]) > 15
    console.log_in()
    (pool,) = console.request("GET", "/pools")["items"]
    group = console.request("POST", "/host-groups", {"name": "here"})
    console.request("POST", "/hosts", {"name": "here", "iqns": [INITIATOR], "group": group["id"]})
    lun = console.make(name="first", pool=pool["name"], size=str(1 << 30), host_groups=[group["id"]])
    url = f"iscsi://{answer['iscsi_portal']}/{answer['console']['iqn']}/{lun['lun']}"
    assert reaches(url)
    nfs, clients = answer["nfs"], [answer["console"]["nfs_client"]]
    share = console.make(name="second", kind="nfs", pool=pool["name"], size=str(1 << 30), clients=clients)["share"]
    ports = ports_of(nfs)
    run("nfs-cp", REPOSITORY / "README.md", f"nfs://{nfs['address']}{share}/README.md?{ports}")
    assert "README.md" in run("nfs-ls", f"nfs://{nfs['address']}{share}?{ports}")
    assert {datastore["state"] for datastore in console.request("GET", "/datastores")["items"]} == {"active"}
    return url


def lead_by_console(answer: Mapping[str, Any], directory: Path, seed: int) -> str:
    """Runs on_zfs.js, from the first start to a restored datastore. Returns the LUN's URL."""
    files = {name: directory / name for name in ("image", "other", "back")}
    for name in ("image", "other"):
        files[name].write_bytes(random.Random(f"{seed} {name}").randbytes(32 << 20))
    environment = {
        **os.environ,
        "ZVAAI_URL": answer["console"]["url"],
        "ZVAAI_SETUP_CODE": answer["console"]["setup_code"],
        "ZVAAI_CONSOLE_MODULES": str(CACHE / "console"),
        "ZVAAI_DEMO": json.dumps(answer),
        "ZVAAI_STORY": json.dumps({"initiator": INITIATOR, **{name: str(path) for name, path in files.items()}}),
        "ZVAAI_VAAI_NAS": str(CACHE / "ganesha_fsal/client/vaai-nas"),
    }
    command = ["node", "--test", "--test-reporter=spec", str(REPOSITORY / "tests/browser/on_zfs.js")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3600)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-4000:]
    console = Console(answer["console"])
    console.log_in()
    (store,) = [datastore for datastore in console.request("GET", "/datastores")["items"] if datastore["name"] == "first"]
    return f"iscsi://{answer['iscsi_portal']}/{answer['console']['iqn']}/{store['lun']}"


def printed(screen: str, begin: str) -> str:
    """The printed commands after a line that starts with `begin`."""
    lines = screen[screen.index(f"\n  {begin}") + 1 :].splitlines()[2:]
    return "\n".join(itertools.takewhile(str.strip, lines))


def share_blocks_of_luns(answer: Mapping[str, Any], image: Path) -> None:
    """Copies an image to LUN 0; the target then copies it to LUN 1."""
    luns = [f"iscsi://{answer['iscsi_portal']}/{answer['iqn']}/{number}" for number in answer["luns"]]
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, luns[0])
    run("qemu-img", "convert", "-C", "-n", "-f", "raw", "-O", "raw", *luns[:2])


def figures_of(shown: str) -> dict[str, int]:
    """Figures of `vaai-nas stat` in bytes, without upper bounds."""
    return {name: int(value) for name, value in re.findall(r"^(total|allocated|unique): (\d+)$", shown, re.MULTILINE)}


def counted(stat: str) -> dict[str, int]:
    """The figures once they are exact: on a slow machine the pool takes more than a second to sync."""
    figures: dict[str, int] = {}

    def exact() -> bool:
        figures.update(figures_of(run("bash", "-euc", stat)))
        return "unique" in figures

    wait_for(exact, "exact figures")
    return figures


def try_nfs(demo: Demo, whole: Mapping[str, Any], directory: Path) -> None:
    """The commands on the demo's screen; they leave clone.raw in the export, and disk.raw in the state folder."""
    wait_for(lambda: "Ctrl-C stops everything" in demo.log.read_text(), "the screen", 180)
    screen = demo.log.read_text()
    commands = printed(screen, "Try NFS")
    shown = run("bash", "-euc", commands)
    assert "done: 67108864 bytes\n" in shown
    (stat,) = [line for line in commands.splitlines() if " stat " in line]
    figures = counted(stat)
    assert figures["total"] == 64 << 20 <= figures["allocated"] and figures["unique"] == 0, figures
    assert "disk.raw" in shown and "clone.raw" in shown
    share_blocks_of_luns(whole, demo.state / "disk.raw")
    assert counted(stat)["unique"] == 0, "LUNs that share blocks change nothing for files"
    shared = "NFS export /demo: 64.0 MiB cloned by sharing blocks"
    wait_for(lambda: shared in demo.log.read_text(), "the demo says what was shared", 180)
    check_clone(whole["nfs"], demo.state / "disk.raw")
    if IN_GUEST:  # only there the kernel has a client
        mount = printed(screen, "Or mount it")
        place = directory / "mnt"
        place.mkdir()
        run("bash", "-euc", mount.replace(" /mnt", f" {place}"))
        try:
            assert digest(place / "clone.raw") == digest(demo.state / "disk.raw")
            (place / "note").write_text("kept")
        finally:
            run("umount", place)


def check_clone(nfs: Mapping[str, Any], original: Path) -> None:
    """Reads the clone of the printed commands by NFS."""
    back = original.with_name("back.raw")
    run("nfs-cp", f"nfs://{nfs['address']}{nfs['export']}/clone.raw?{ports_of(nfs)}", back)
    assert digest(back) == digest(original)
    back.unlink()


def try_iscsi(answer: Mapping[str, Any], image: Path) -> None:
    """Discovery and INQUIRY by a user without rights; then the image is written to LUN 0."""
    url = f"iscsi://{answer['iscsi_portal']}"
    # Discovery returns an address that is reachable from here, not the guest's address.
    listing = run(*NOBODY, "iscsi-ls", "-s", url)
    assert answer["iqn"] in listing and answer["iscsi_portal"] in listing and "Lun:0" in listing
    run(*NOBODY, "iscsi-inq", f"{url}/{answer['iqn']}/0")
    run("qemu-img", "convert", "-n", "-O", "raw", "-f", "raw", image, f"{url}/{answer['iqn']}/0")


def copy_by_offload(demo: Demo, answer: Mapping[str, Any], image: Path) -> None:
    """Copies LUN 0, which has the image, to LUN 1 by EXTENDED COPY. Both have its data then."""
    back = demo.state / "back.raw"
    luns = [f"iscsi://{answer['iscsi_portal']}/{answer['iqn']}/{number}" for number in answer["luns"]]
    run("qemu-img", "convert", "-C", "-n", "-f", "raw", "-O", "raw", *luns)
    assert answer["zvol_clone"]
    way = "copied by sharing blocks"
    wait_for(lambda: f"MiB {way}" in demo.log.read_text(), f"the demo says that LUN 1 was {way}", 180)
    for number, url in enumerate(luns):
        run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "count=32", f"if={url}", f"of={back}")
        assert digest(back) == digest(image), f"the data of LUN {number} was not kept"


def test_the_demo_does_as_it_says_and_keeps_its_data(demo: Demo, tmp_path: Path, seed: int) -> None:
    image = file_system_image(tmp_path, seed, 32)
    started = time.monotonic()
    answer = demo.start()
    print(f"demo: ready after {time.monotonic() - started:.1f} s, warm")
    assert answer["luns"] == [0, 1]
    nfs = answer["nfs"]
    try_nfs(demo, answer, tmp_path)
    try_iscsi(answer, image)

    # A browser inside the guest would compete for its only processor.
    store = lead_to_first_start(answer) if IN_GUEST else lead_by_console(answer, tmp_path, seed)

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
        kernel = ["pgrep", "-f", f"{CACHE}/uml/linux.uml.*{demo.state}"]
        wait_for(lambda: subprocess.run(kernel, capture_output=True, check=False).returncode == 1, "no guest is left", 120)

    # Another program uses the usual ports of NFS now.
    with contextlib.ExitStack() as stack:
        numbers = ("port", "mount_port")
        for number in numbers:
            stack.enter_context(socket.create_server((nfs["address"], nfs[number])))
        answer = demo.start()
        again = answer["nfs"]
        assert not {again[number] for number in numbers} & {nfs[number] for number in numbers}
        check_clone(again, demo.state / "disk.raw")
        if IN_GUEST:
            assert "note" in run("nfs-ls", f"nfs://{again['address']}{again['export']}?{ports_of(again)}")
    console = Console(answer["console"])
    assert answer["console"]["setup_code"] is None and not console.request("GET", "/setup")["needed"]
    wait_for(lambda: reaches(store), "the datastore is served again, whoever has logged in", timeout=300)
    console.log_in()
    wait_for(lambda: alerts(console) == ["redundancy"], "nothing is wrong but that the pool is one disk", timeout=300)
    copy_by_offload(demo, answer, image)
    demo.interrupt()
    if IN_GUEST:
        assert "zvaai-demo" not in run("zpool", "list", "-H", "-o", "name")
    log = (demo.state / "worker.log").read_text()
    assert log.count("ready at") == 2, log
    log = (demo.state / "ganesha.log").read_text()
    assert log.count("NFS EXIT: regular exit") == 2 and "FATAL" not in log, log
    assert demo.make("demo-reset").returncode == 0
    assert not demo.state.exists()
