# SPDX-License-Identifier: Apache-2.0
"""A guest: User-Mode Linux with the OpenZFS module, booted from the Debian 13 root folder.

The guest is an ordinary process tree in separate namespaces (network, mounts, processes), so that guests of one checkout or of
several never conflict. It sees the same root (read-only, with an overlay in memory) and the repository (writable) at the same
path. README.md in this folder lists its limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"
OPENZFS = os.environ.get("ZVAAI_ZFS", "2.3")
"""The OpenZFS series of the guest: 2.3, that of the environment, or 2.4, of trixie-backports."""
_SUFFIX = "" if OPENZFS == "2.3" else f"-{OPENZFS}"
KERNEL = CACHE / f"uml{_SUFFIX}"
"""Output of `build`: kernel and modules; for 2.4 its user land too."""
ZVOL_CLONE = CACHE / f"zvol_clone{_SUFFIX}" / "zvol_clone.ko"

HOST_ADDRESS = "192.0.2.1"
"""Host side of the tap device; TEST-NET-1 (RFC 5737), inside the guest's own network namespace only."""
GUEST_ADDRESS = "192.0.2.2"

MAX_MAP_COUNT = 1048576
"""Every page a guest process maps is a mapping of the host; at the default 65530 a busy guest panics."""

SHOW_SECONDS = 2.0
"""Time for a guest to print its state before it is killed."""

MCONSOLE_MAGIC = 0xCAFEBABE
MCONSOLE_VERSION = 2
MCONSOLE_MAX_DATA = 512


class GuestError(Exception):
    """The guest could not be started or stopped. The text has the reason and the remedy."""


@dataclass(frozen=True)
class Forward:
    """A TCP port of the guest, reachable at `host_address`:`host_port` of the caller's network namespace. `host_port` 0 takes a
    free port, which is in `GuestProcess.ports`.
    """

    guest_port: int
    host_port: int = 0
    host_address: str = "127.0.0.1"


@dataclass(frozen=True)
class Disk:
    """A disk of the guest: /dev/ubda, /dev/ubdb, ... in order. `path` None is a sparse scratch file that is removed with the
    guest. Any other file is created if missing, and not removed.
    """

    size_bytes: int
    path: Path | None = None


@dataclass(frozen=True)
class GuestOptions:
    """Command, memory, disks and ports of a guest."""

    command: Sequence[str]
    disks: Sequence[Disk] = ()
    forwards: Sequence[Forward] = ()
    memory_mib: int = 2560
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: Path = REPOSITORY
    console: int | None = None
    """File descriptor the console is written to; None: standard output."""


@contextlib.contextmanager
def raised_sysctl(name: str, value: int) -> Iterator[None]:
    """Raises a sysctl to at least `value`; the last user on this machine restores its original value. Raises GuestError if it is
    too low and cannot be raised.
    """
    setting = Path("/proc/sys") / name.replace(".", "/")
    record = Path("/run/lock") / f"zvaai-{name}"
    with record.open("a+") as changing, record.with_name(record.name + ".users").open("a") as using:
        fcntl.flock(changing, fcntl.LOCK_EX)
        original = int(setting.read_text())
        if original < value:
            try:
                setting.write_text(f"{value}\n")
            except OSError as error:
                raise GuestError(f"{name} is {original} and can't be raised ({error}): sysctl -w {name}={value}") from error
            changing.seek(0)
            changing.truncate()
            changing.write(str(original))
            changing.flush()
        fcntl.flock(using, fcntl.LOCK_SH)
        fcntl.flock(changing, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(changing, fcntl.LOCK_EX)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no other user
                changing.seek(0)
                if before := changing.read():
                    setting.write_text(f"{before}\n")
                    changing.seek(0)
                    changing.truncate()


@contextlib.contextmanager
def state_folder() -> Iterator[Path]:
    """A folder of one guest, locked during its use and removed afterwards, together with those of killed guests."""
    guests = Path(os.environ.get("ZVAAI_GUESTS", CACHE / "guests"))
    guests.mkdir(parents=True, exist_ok=True)
    with guests.with_name(guests.name + ".lock").open("w") as making:
        fcntl.flock(making, fcntl.LOCK_EX)  # so that the folder is not removed between its creation and its lock
        for left in guests.iterdir():
            with contextlib.suppress(OSError), (left / "lock").open("r+") as old:
                fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        state = Path(tempfile.mkdtemp(prefix="", dir=guests))
        lock = (state / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield state
        finally:
            shutil.rmtree(state, ignore_errors=True)


@contextlib.contextmanager
def processor() -> Iterator[int]:
    """Number of a processor that no other guest on this machine has, as long as one is free.

    A guest's kernel and its processes run in turns, one system call after the other. On one processor that is up to twice as fast
    as waking another one for each turn.
    """
    numbers = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        for number in numbers:
            lock = stack.enter_context(Path(f"/run/lock/zvaai-processor-{number}").open("a"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield number
            return
        yield numbers[os.getpid() % len(numbers)]


class Forwarder:
    """Carries TCP connections from sockets that listen in the caller's network namespace to the guest, or to another address."""

    def __init__(self, forwards: Sequence[Forward], address: str = GUEST_ADDRESS) -> None:
        self._address = address
        self._carrying: set[asyncio.Task[None]] = set()
        """References: the event loop alone does not keep a task whose client has sent everything."""
        self._listening: list[tuple[socket.socket, int]] = []
        for forward in forwards:
            listener = socket.create_server((forward.host_address, forward.host_port), backlog=64)
            self._listening.append((listener, forward.guest_port))
        self.ports = {guest_port: listener.getsockname()[1] for listener, guest_port in self._listening}

    def start(self) -> None:
        """Serves in a thread; to be called inside the network namespace where the connections go."""
        if self._listening:
            threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    async def _serve(self) -> None:
        for listener, guest_port in self._listening:
            await asyncio.start_server(functools.partial(self._begin, port=guest_port), sock=listener)
        await asyncio.Event().wait()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        task = asyncio.create_task(self._carry(reader, writer, port))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 18):
                    sink.write(data)
                    await sink.drain()
                sink.write_eof()

        try:
            guest_reader, guest_writer = await asyncio.open_connection(self._address, port)
        except OSError:
            writer.close()
            return
        for end in (writer, guest_writer):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(pump(reader, guest_writer), pump(guest_reader, writer))
        writer.close()
        guest_writer.close()


class GuestProcess:
    """A booting or running guest. Use it as a context manager: leaving it ends the guest and removes its scratch files.

    The calling thread gets a separate mount namespace, for the guest's memory.
    """

    def __init__(self, options: GuestOptions, kernel: Path = KERNEL) -> None:
        self._options = options
        self._kernel = kernel
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.ports: dict[int, int] = {}
        """Host port by guest port of each forward."""

    def __enter__(self) -> GuestProcess:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        self._cleanup.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        options = self._options
        self._state = stack.enter_context(state_folder())
        stack.enter_context(raised_sysctl("vm.max_map_count", MAX_MAP_COUNT))
        forwarder = Forwarder(options.forwards)
        self.ports = forwarder.ports

        # Namespaces belong to a thread: this one enters the guest's, starts the forwarder and the guest there, and returns.
        caller_network = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, caller_network)
        os.unshare(os.CLONE_NEWNET | os.CLONE_NEWNS)
        _run("mount", "--make-rprivate", "/")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "tuntap", "add", "tap0", "mode", "tap")
        _run("ip", "address", "add", f"{HOST_ADDRESS}/30", "dev", "tap0")
        # The guest loses segments longer than its MTU, which the tap device passes on with offload: bulk data to it then stalls.
        _run("ip", "link", "set", "tap0", "gso_max_segs", "1", "gso_max_size", "1514", "up")
        memory = self._state / "memory"
        memory.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={options.memory_mib + 64}m", "memory", str(memory))
        stack.callback(subprocess.run, ["umount", "--lazy", str(memory)], check=False)
        forwarder.start()

        self._write_command()
        # In a PID namespace: when its first process or this one dies, no helper of the guest survives. The guest itself is
        # In a PID namespace: when its first process or this one dies, no helper of the guest survives. The guest itself is not
        # the first process, which could not end itself by a signal; the kernel ends so after a panic.
        here = ["taskset", "--cpu-list", str(stack.enter_context(processor()))]
        holder = [*here, "setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen(
            [*holder, "bash", "-c", '"$@"; exit', "guest", *self._arguments(memory)],
            stdin=subprocess.DEVNULL,
            stdout=options.console,
            stderr=(self._state / "start.log").open("wb"),
            env={"TMPDIR": str(memory), "HOME": str(self._state), "PATH": os.environ["PATH"]},
            start_new_session=True,
        )
        os.setns(caller_network, os.CLONE_NEWNET)

    def _write_command(self) -> None:
        options = self._options
        disks = " ".join(f"/dev/ubd{chr(ord('a') + index)}" for index in range(len(options.disks)))
        environment = {"ZVAAI_GUEST": "1", "ZVAAI_ZFS": OPENZFS, "ZVAAI_DISKS": disks, **options.environment}
        lines = ["#!/bin/bash"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        lines += [f"cd {shlex.quote(str(options.working_directory))} || exit 127"]
        lines += ["exec setsid --wait " + shlex.join(options.command)]
        script = self._state / "command"
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)

    def _arguments(self, memory: Path) -> list[str]:
        arguments = [
            str(self._kernel / "linux.uml"),
            f"mem={self._options.memory_mib}M",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            f"init={REPOSITORY}/packaging/uml/init",
            "con0=fd:0,fd:1",
            "con=null",
            "ssl=null",
            "loglevel=3",
            "panic=-1",
            "noreboot",
            "seccomp=auto",
            "umid=guest",
            f"uml_dir={self._state}/",
            "vec0:transport=tap,ifname=tap0",
            f"guest.repository={REPOSITORY}",
            f"guest.modules={self._kernel}/modules",
            f"guest.state={self._state}",
        ]
        if (self._kernel / "userland").is_dir():
            arguments.append(f"guest.userland={self._kernel}/userland")
        for index, disk in enumerate(self._options.disks):
            path = disk.path or self._state / f"disk{index}"
            with path.open("ab") as file:
                if file.tell() < disk.size_bytes:
                    file.truncate(disk.size_bytes)
            arguments.append(f"ubd{index}={path}")
        return arguments

    @property
    def booted(self) -> bool:
        """Whether the module is loaded and the command runs."""
        return (self._state / "booted").exists()

    def stop(self) -> bool:
        """Requests the end of the command (SIGTERM) with Ctrl-Alt-Del of the guest's management console. Returns whether the
        console accepted it.
        """
        return self._send(b"cad")

    def show(self) -> None:
        """Makes the guest print its state on its console, as far as possible, within SHOW_SECONDS."""
        # The log level first, or the console does not get it. No answer is waited for: a guest that is stuck gives none.
        self._send(b"sysrq 9")
        self._send(b"sysrq p")
        with contextlib.suppress(subprocess.TimeoutExpired, GuestError):
            self.wait(SHOW_SECONDS)

    def _send(self, data: bytes) -> bool:
        """To the management console, if it takes it now: its queue is short, and a stuck guest reads nothing of it."""
        if self._process is None or self._process.poll() is not None:
            return False
        request = struct.pack(f"=III{MCONSOLE_MAX_DATA}s", MCONSOLE_MAGIC, MCONSOLE_VERSION, len(data), data)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as console:
            try:
                console.sendto(request, socket.MSG_DONTWAIT, str(self._state / "guest" / "mconsole"))
            except OSError:
                return False
        return True

    def kill(self) -> None:
        """Ends the guest at once, as a power cut would: nothing the guest held in memory reaches its disks."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def poll(self) -> bool:
        """Whether the guest has ended."""
        return self._process is None or self._process.poll() is not None

    def wait(self, timeout: float | None = None) -> int:
        """The command's exit code after the end of the guest. Raises GuestError if the guest ended without one,
        subprocess.TimeoutExpired after `timeout` seconds.
        """
        if self._process is None:
            raise GuestError("the guest was not started")
        self._process.wait(timeout)
        code = self._state / "exit_code"
        if not code.exists():
            start = (self._state / "start.log").read_text(errors="replace")
            raise GuestError(
                "the guest ended before the command did (panic, out of memory, or killed): see its console above\n" + start
            )
        return int(code.read_text())


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise GuestError(f"{shlex.join(command)}: {result.stderr.strip()}")


def parse_size(text: str) -> int:
    """Bytes of "64M", "4G" or a plain number. Raises ValueError."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    if text and text[-1].upper() in units:
        return int(text[:-1]) * units[text[-1].upper()]
    return int(text)


def report(message: str) -> None:
    """Prints a progress message on standard error."""
    print(f"guest: {message}", file=sys.stderr, flush=True)
