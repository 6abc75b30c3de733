# SPDX-License-Identifier: Apache-2.0
"""A machine: Debian 13 with a separate disk, booted by systemd on the kernel of the kernel tier.

Unlike a guest (guest.py) it shares no file with the host. Its root is a copy-on-write disk of an image that `machine-image`
creates. Disks survive a reboot and a power cut. The host reaches it by its address, inside a separate network.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from guest import CACHE, GUEST_ADDRESS, HOST_ADDRESS, KERNEL, Disk, Forward, GuestError, GuestOptions, GuestProcess

IMAGE = CACHE / "machine" / "debian.img"
DOWNLOADS = Path(os.environ.get("ZVAAI_CACHE", CACHE)) / "archive"
"""Packages of Debian's archive that some machine fetched: they never change."""

SHELL_PORT = 99
PROXY_PORT = 3142
BOOT_SECONDS = 300.0
OFF_SECONDS = 180.0


class CommandError(Exception):
    """A command on the machine failed; the text has its output."""


class Machine(GuestProcess):
    """A running machine. `state` contains its root disk: the next machine with this folder continues from it."""

    def __init__(
        self,
        state: Path,
        disks: Sequence[Disk] = (),
        sites: Mapping[str, Path] | None = None,
        forwards: Sequence[Forward] = (),
        memory_mib: int = 2048,
    ) -> None:
        state.mkdir(parents=True, exist_ok=True)
        console = os.open(state / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        options = GuestOptions(command=[], disks=disks, forwards=forwards, memory_mib=memory_mib, console=console)
        super().__init__(options, KERNEL)
        self.folder = state
        self._sites = dict(sites or {})

    def __enter__(self) -> Machine:
        super().__enter__()
        # Its threads are in the caller's network, its socket is in the machine's.
        server = self._proxy
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._cleanup.callback(server.server_close)
        self._cleanup.callback(server.shutdown)
        return self

    def _write_command(self) -> None:
        """Called in the machine's network before it boots: there is no command, but a web proxy."""
        sites = self._sites
        self._proxy = _Server((HOST_ADDRESS, PROXY_PORT), type("Handler", (_Proxy,), {"sites": sites}))

    def _arguments(self, memory: Path) -> list[str]:
        options = self._options
        arguments = [
            str(self._kernel / "linux.uml"),
            f"mem={options.memory_mib}M",
            "root=/dev/ubda",
            "rw",
            f"ubd0={self.folder / 'root.cow'},{IMAGE.resolve()}",
            "con0=fd:0,fd:1",
            "con=null",
            "ssl=null",
            "panic=-1",
            "noreboot",
            "lsm=apparmor",
            "loglevel=4",
            "systemd.show_status=0",
            "umid=guest",
            f"uml_dir={self._state}/",
            "vec0:transport=tap,ifname=tap0",
        ]
        for index, disk in enumerate(options.disks, 1):
            if disk.path is None:
                raise GuestError("a machine's disk has a file")
            with disk.path.open("ab") as file:
                if file.tell() < disk.size_bytes:
                    file.truncate(disk.size_bytes)
            arguments.append(f"ubd{index}={disk.path}")
        return arguments

    def in_network(self, *words: object) -> list[str]:
        """The command line that runs these words where the machine is 192.0.2.2."""
        if self._process is None:
            raise GuestError("the machine is off")
        return ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", *map(str, words)]

    def client(self, *words: object, seconds: float = 60, check: bool = True) -> str:
        """Runs a program of the host's against the machine; its output. Raises CommandError."""
        done = subprocess.run(
            self.in_network(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False
        )
        if check and done.returncode != 0:
            raise CommandError(f"{words}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def run(self, script: str, seconds: float = 120, check: bool = True) -> str:
        """Runs a shell script as root on the machine. Returns its output on both streams. Raises CommandError if it fails or the
        machine does not answer, TimeoutError.
        """
        # bash reads its script while it runs: programs in the script would consume the rest.
        whole = f"eval \"$(cat <<'END-OF-SCRIPT'\n{script}\nEND-OF-SCRIPT\n)\" </dev/null 2>&1\nprintf '\\n%s' $?\n"
        try:
            with self._connect(SHELL_PORT, seconds) as shell:
                shell.sendall(whole.encode())
                shell.shutdown(socket.SHUT_WR)
                answer = b""
                until = time.monotonic() + seconds
                while data := shell.recv(1 << 16):
                    answer += data
                    shell.settimeout(max(until - time.monotonic(), 0.001))
        except TimeoutError:
            raise TimeoutError(f"{script!r} takes longer than {seconds:.0f} s") from None
        except OSError as error:
            raise CommandError(f"{script!r}: {error}") from error
        text, _, code = answer.decode(errors="replace").rpartition("\n")
        if not code.isdecimal():
            raise CommandError(f"{script!r}: the machine did not answer\n{text}{code}")
        if check and code != "0":
            raise CommandError(f"{script!r}: {code}\n{text}")
        return text

    def _connect(self, port: int, seconds: float) -> socket.socket:
        """From inside of the machine's network: a socket belongs to the network where it was made."""
        if self._process is None or self._process.poll() is not None:
            raise OSError("the machine is off")
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        namespace = os.open(f"/proc/{self._process.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.setns(namespace, os.CLONE_NEWNET)
            return socket.create_connection((GUEST_ADDRESS, port), timeout=seconds)
        finally:
            os.setns(here, os.CLONE_NEWNET)
            os.close(here)
            os.close(namespace)

    def wait_for_boot(self, seconds: float = BOOT_SECONDS) -> str:
        """Until systemd has started all it starts at boot; its word for that (`running` or `degraded`)."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.poll():
                break
            with contextlib.suppress(CommandError, TimeoutError):
                return self.run("systemctl is-system-running --wait", until - time.monotonic(), check=False).strip()
            time.sleep(0.3)
        raise GuestError("the machine does not boot:\n" + self.console()[-3000:])

    def console(self) -> str:
        """Output of the machine on its console after its disk was created."""
        return (self.folder / "console.log").read_text(errors="replace")

    def power_off(self, how: str = "poweroff", seconds: float = OFF_SECONDS) -> None:
        """Shuts it down in order; a `reboot` too ends here, and a new Machine of the folder boots it again."""
        with contextlib.suppress(CommandError):  # it may be off before its shell has answered
            self.run(f"systemctl --no-block {how}")
        self.wait_until_off(seconds)

    def wait_until_off(self, seconds: float = OFF_SECONDS) -> None:
        """Raises subprocess.TimeoutExpired."""
        if self._process is not None:
            self._process.wait(seconds)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


class _Proxy(http.server.BaseHTTPRequestHandler):
    """Fetches packages for the machine; keeps those of Debian's pool. A name of `sites` is a folder of the host."""

    sites: Mapping[str, Path] = {}

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """Serves a URL like a proxy."""
        url = urllib.parse.urlsplit(self.path)
        try:
            if site := self.sites.get(url.hostname or ""):
                content = (site / urllib.parse.unquote(url.path).lstrip("/")).read_bytes()
            elif "/pool/" in url.path:
                download = DOWNLOADS / urllib.parse.quote(url.path.rpartition("/")[2], safe="")
                if not download.exists():
                    DOWNLOADS.mkdir(parents=True, exist_ok=True)
                    new = download.with_name(f"{download.name}.{threading.get_native_id()}")
                    new.write_bytes(_fetch(self.path))
                    new.rename(download)
                content = download.read_bytes()
            else:
                content = _fetch(self.path)
        except (OSError, http.client.HTTPException) as error:
            self.send_error(404, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        content: bytes = answer.read()
    return content
