# SPDX-License-Identifier: Apache-2.0
"""A PC that QEMU emulates, with UEFI: it boots a disk image as real hardware does, but slowly."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from support.programs import run

FIRMWARE = Path("/usr/share/OVMF")
PROMPT = "rig# "
CONTROLS = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()][0-9A-B]|[=>])|[\x0e\x0f\r]")
"""Sequences that move the cursor, change colours or switch character sets."""


class EmulatedPc:
    """Boots a copy of `image` when the block begins, and is switched off when it ends. Its serial line is a terminal.

    `forwards` names TCP ports of the machine, which 127.0.0.1 then has.
    """

    def __init__(self, image: Path, folder: Path, data_bytes: int, forwards: tuple[int, ...]) -> None:
        self._folder = folder
        self._forwards = forwards
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, folder / "system.qcow2", "12G")
        with (folder / "data").open("wb") as data:
            data.truncate(data_bytes)
        shutil.copy(FIRMWARE / "OVMF_VARS_4M.fd", folder / "variables")
        self.screen = ""
        """Output of the serial line after the last matched pattern, without control sequences."""
        self._shown, self._seen = b"", 0

    def __enter__(self) -> EmulatedPc:
        folder = self._folder
        network = "user,id=net" + "".join(f",hostfwd=tcp:127.0.0.1:{port}-:{port}" for port in self._forwards)
        drives = [
            f"if=pflash,format=raw,readonly=on,file={FIRMWARE / 'OVMF_CODE_4M.fd'}",
            f"if=pflash,format=raw,file={folder / 'variables'}",
            f"if=none,id=system,format=qcow2,file={folder / 'system.qcow2'},cache=unsafe",
            f"if=none,id=data,format=raw,file={folder / 'data'},cache=unsafe",
        ]
        options = {"-machine": "q35", "-accel": "tcg,thread=multi", "-cpu": "max", "-smp": "2", "-m": "3072", "-display": "none"}
        command = ["qemu-system-x86_64", "-nodefaults", *itertools.chain.from_iterable(options.items())]
        command += ["-netdev", network, "-device", "virtio-net-pci,netdev=net"]
        for drive in drives:
            command += ["-drive", drive]
        command += ["-device", "virtio-scsi-pci,id=scsi", "-device", "scsi-hd,bus=scsi.0,drive=system,serial=system,bootindex=0"]
        command += ["-device", "scsi-hd,bus=scsi.0,drive=data,serial=data"]
        command += ["-chardev", f"socket,id=line,path={folder / 'line'},server=on,wait=off", "-serial", "chardev:line"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            self._line = self._connected()
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._line.close()
        self._process.kill()
        self._process.wait()
        (self._folder / "screen.txt").write_bytes(self._shown)

    def _connected(self) -> socket.socket:
        until = time.monotonic() + 30
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(self._folder / "line"))
            except OSError:
                line.close()
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return line

    def wait_for_text(self, pattern: str, seconds: float = 300) -> re.Match[str]:
        """Reads the terminal until it shows the pattern, and drops the text up to its end. Raises TimeoutError."""
        until = time.monotonic() + seconds
        while (match := re.search(pattern, self.screen)) is None:
            self._line.settimeout(max(0.01, until - time.monotonic()))
            try:
                part = self._line.recv(65536)
            except TimeoutError:
                raise TimeoutError(f"{pattern!r} was not shown in {seconds} s; the end: {self.screen[-3000:]}") from None
            if not part:
                raise EOFError(f"the machine went off; the end: {self.screen[-3000:]}")
            self._shown += part
            self.screen = CONTROLS.sub("", self._shown.decode(errors="replace"))[self._seen :]
        self._seen += match.end()
        self.screen = self.screen[match.end() :]
        return match

    def wait_until_off(self, seconds: float = 300) -> None:
        """Reads on until the line ends: a machine stops where nobody takes its output. Raises TimeoutError."""
        with contextlib.suppress(EOFError):
            self.wait_for_text("(?!)", seconds)
        self._process.wait(30)

    def type(self, text: str) -> None:
        self._line.sendall(text.encode())

    def wait_for_menu(self) -> None:
        """Waits for the menu of a machine whose root has no password."""
        self.wait_for_text("Root has no password", 1800)
        self.wait_for_text("Shut down")

    def set_password(self, password: str) -> None:
        """Sets root's password by the menu, and logs in."""
        self.type("p\r")
        self.wait_for_text("New password: ")
        self.type(password + "\r")
        self.wait_for_text("Retype new password: ")
        self.type(password + "\r")
        self.log_in(password)

    def log_in(self, password: str) -> None:
        """Logs in as root. `login` drops input while it disables the echo, so there are several attempts."""
        for _ in range(5):
            self.wait_for_text("login: ")
            self.type("root\r")
            self.wait_for_text("Password: ")
            self.type(password + "\r")
            if self.wait_for_text(r"root@\w+:~# |Login incorrect")[0] != "Login incorrect":
                break
        self.type(f"export SYSTEMD_PAGER=; stty -echo cols 500; bind 'set enable-bracketed-paste off'; PS1='{PROMPT}'\r")
        self.wait_for_text(PROMPT)
        self.wait_for_text(PROMPT)  # the first one is the echo of what was typed

    def run(self, command: str, seconds: float = 300) -> str:
        """Output of a command of root. Raises AssertionError if it fails."""
        self.type(f'{command}\recho "<$?>"\r')
        shown = self.wait_for_text(r"(?s)(.*)<(\d+)>\s*" + PROMPT, seconds)
        output = shown[1].replace(PROMPT, "")
        assert shown[2] == "0", f"{command}: {shown[2]}\n{output}"
        return output.strip()
