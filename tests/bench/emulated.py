# SPDX-License-Identifier: Apache-2.0
"""The benchmark `builds` on Debian's own kernel with two processors: in the disk image, on a PC that QEMU emulates.

In the guest a system call costs 18 us, which user space pays and LIO does not. QEMU translates user space and kernel alike.
Needs `make image`. Options are those of builds.py; --before is a program of this machine.
"""

from __future__ import annotations

import functools
import http.server
import re
import shlex
import sys
import tarfile
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.offload_jobs import LOAD, OFFLOAD, compile_clients
from support.emulated_pc import EmulatedPc
from support.programs import CACHE, REPOSITORY, run
from support.target import PROGRAM

HOST = "10.0.2.2"
"""The address of this machine in QEMU's user network."""
PASSWORD = "correct horse 7"
DISK = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_data"
FOLDER = "/root/bench"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    def log_message(self, *_: object) -> None: ...


def pack(archive: Path, before: Path | None) -> None:
    """The benchmark, its clients and the builds of the target, in the places that builds.py expects."""
    with tarfile.open(archive, "w") as tar:
        for folder in ("tests/bench", "tests/support"):
            tar.add(REPOSITORY / folder, folder)
        for program in (OFFLOAD, LOAD, PROGRAM):
            tar.add(program.resolve(), program.relative_to(REPOSITORY))
        for name, library in re.findall(r"(\S+) => (/\S+)", run("ldd", LOAD)):
            if name != "libc.so.6":
                tar.add(Path(library).resolve(), f"libraries/{name}")
        if before:
            tar.add(before, "before")


def main(words: Sequence[str]) -> int:
    """Prints the table of builds.py."""
    options = list(words)
    before = None
    if "--before" in options:
        at = options.index("--before") + 1
        before, options[at] = Path(options[at]), f"{FOLDER}/before"
    compile_clients()
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        pack(Path(name) / "bench.tar", before)
        handler = functools.partial(Quiet, directory=name)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with EmulatedPc(CACHE / "image" / "zvaai.qcow2", Path(name), 8 << 30, ()) as pc:
                pc.wait_for_menu()
                pc.set_password(PASSWORD)
                pc.run("systemctl stop 'zvaai-*' nfs-ganesha")
                url = f"http://{HOST}:{server.server_port}/bench.tar"
                fetch = f"import urllib.request as u; u.urlretrieve('{url}', '/root/bench.tar')"
                pc.run(f'python3 -c "{fetch}"')
                pc.run(f"mkdir {FOLDER}; tar -xf /root/bench.tar -C {FOLDER}")
                environment = f"ZVAAI_DISKS={DISK} LD_LIBRARY_PATH={FOLDER}/libraries"
                command = f"python3 {FOLDER}/tests/bench/builds.py {shlex.join(options)}"
                print(pc.run("uname -r; zfs version | head -1; nproc"))
                print(pc.run(f"{environment} {command} 2>&1", 7200))
            server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
