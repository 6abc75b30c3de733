# SPDX-License-Identifier: Apache-2.0
"""The real ganesha.nfsd with exports on a mount, on fixed ports in its own network namespace.

The daemon is Debian's `ganesha.nfsd`. `Daemon.STOCK` runs it with its own libganesha_nfsd, `Daemon.PATCHED` with the library that
packaging/ganesha builds. Exports are served by FSAL "VFS" (Debian's) or "ZVAAI" (ours, ganesha_fsal/).
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.programs import CACHE, IN_GUEST, REPOSITORY, run, wait_for

(THRESHOLD,) = re.findall(
    r"^  (Expired_Client_Threshold = \d+;)$", (REPOSITORY / "packaging/ganesha/ganesha.conf").read_text(), re.MULTILINE
)
"""As the product has it."""
NFS_PORT = 2049
MOUNT_PORT = 20048
PACKAGED_FSALS = Path("/usr/lib/x86_64-linux-gnu/ganesha")
PATCHED_LIBRARY = Path(os.environ.get("ZVAAI_GANESHA", CACHE / "ganesha")) / "lib"
FSAL_LIBRARY = Path(os.environ.get("ZVAAI_GANESHA_FSAL", CACHE / "ganesha_fsal")) / "fsal" / "libfsalzvaai.so"


class Daemon(enum.Enum):
    """The libganesha_nfsd of the packaged daemon."""

    STOCK = "stock"
    PATCHED = "patched"


@dataclass(frozen=True)
class Export:
    """An export. `access` and `squash` are ganesha's Access_Type and Squash (`man ganesha-export-config`)."""

    export_id: int
    path: Path
    pseudo: str
    fsal: str = "ZVAAI"
    access: str = "RW"
    squash: str = "No_Root_Squash"
    clients: str = ""
    """Addresses that may read and write, as in ganesha's `Clients`, whatever `access` says."""
    thick_size: int = 0
    """Size of a thick datastore in bytes; 0: thin."""

    def block(self) -> str:
        """The EXPORT block."""
        lines = [f"Export_Id = {self.export_id};", f'Path = "{self.path}";', f'Pseudo = "{self.pseudo}";']
        lines += ["Protocols = 3, 4;", "Transports = TCP;", "SecType = sys;"]
        lines += [f"Access_Type = {self.access};", f"Squash = {self.squash};", "Anonymous_Uid = 65534;", "Anonymous_Gid = 65534;"]
        if self.clients:
            lines.append(f"CLIENT {{ Clients = {self.clients}; Access_Type = RW; Squash = {self.squash}; }}")
        thick = f"Thick_Size = {self.thick_size}; " if self.thick_size else ""
        lines.append(f"FSAL {{ Name = {self.fsal}; {thick}}}")
        return "EXPORT {\n  " + "\n  ".join(lines) + "\n}\n"


def _listening(port: int, address: str = "127.0.0.1") -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def private_run() -> None:
    """Gives this process and its children a private /run: rpcbind's lock and socket there exist once per machine.

    The rest of /run does not change. In the guest nothing else uses /run.
    """
    if IN_GUEST or Path("/run/.zvaai-private").exists():
        return
    os.unshare(os.CLONE_NEWNS)
    run("mount", "--make-rprivate", "/")
    before = Path(tempfile.mkdtemp(prefix="run-"))
    run("mount", "--rbind", "/run", before)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for entry in before.iterdir():
        if not entry.name.startswith("rpcbind"):
            _show_again(entry, Path("/run") / entry.name)
    Path("/run/.zvaai-private").touch()


def _show_again(entry: Path, place: Path) -> None:
    if entry.is_symlink():
        place.symlink_to(entry.readlink())
    elif entry.is_dir():
        place.mkdir(exist_ok=True)  # mount(8) creates another one
        run("mount", "--rbind", entry, place)
    else:
        place.touch()
        run("mount", "--bind", entry, place)


class Rpcbind:
    """rpcbind, without which ganesha serves no NFSv3."""

    def __init__(self) -> None:
        private_run()
        if not Path("/etc/mtab").exists():
            Path("/etc/mtab").symlink_to("/proc/self/mounts")
        self._process = subprocess.Popen(["rpcbind", "-f", "-w"], stderr=subprocess.DEVNULL)
        wait_for(lambda: _listening(111), "rpcbind answers")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


class Ganesha:
    """A ganesha.nfsd. Its configuration, log and recovery data are in `directory`; `blocks` is further configuration."""

    def __init__(
        self,
        directory: Path,
        exports: Sequence[Export],
        daemon: Daemon = Daemon.STOCK,
        *,
        graceless: bool = True,
        environment: Mapping[str, str] | None = None,
        log_level: str = "EVENT",
        blocks: str = "",
        bind_address: str | None = None,
    ) -> None:
        self.directory = directory
        self.exports = list(exports)
        self.daemon = daemon
        self.graceless = graceless
        self.log_level = log_level
        self.blocks = blocks
        self.bind_address = bind_address
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        return self.directory / "ganesha.log"

    @property
    def pid(self) -> int:
        """Process id of the running daemon."""
        assert self._process is not None, "ganesha does not run"
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return self.log_file.read_text(errors="backslashreplace") if self.log_file.exists() else ""

    def _write_configuration(self) -> Path:
        plugins = self.directory / "fsal"
        shutil.rmtree(plugins, ignore_errors=True)
        plugins.mkdir(parents=True)
        for library in PACKAGED_FSALS.glob("libfsal*.so*"):
            (plugins / library.name).symlink_to(library)
        if FSAL_LIBRARY.exists():
            (plugins / FSAL_LIBRARY.name).symlink_to(FSAL_LIBRARY)
        recovery = self.directory / "recovery"
        recovery.mkdir(exist_ok=True)
        # libnfs and the raw clients never renew leases. The kernel's client does, and returns after a crash.
        lease = 60 if self.graceless else 10
        text = f"""
NFS_CORE_PARAM {{
  NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
  Protocols = 3, 4; mount_path_pseudo = true; RPC_Ioq_ThrdMax = 1024; allow_set_io_flusher_fail = true;
  Plugins_Dir = "{plugins}"; {f"Bind_Addr = {self.bind_address};" if self.bind_address else ""}
}}
NFSv4 {{
  Only_Numeric_Owners = true; Graceless = {str(self.graceless).lower()}; Grace_Period = 60; Lease_Lifetime = {lease};
  RecoveryBackend = fs; RecoveryRoot = "{recovery}"; {THRESHOLD}
}}
LOG {{ Default_Log_Level = {self.log_level}; }}
"""
        path = self.directory / "ganesha.conf"
        path.write_text(text + self.blocks + "".join(export.block() for export in self.exports))
        return path

    def start(self, timeout: float = 120) -> None:
        """Starts the daemon and waits until it serves. Raises AssertionError with its log if it ends before."""
        assert not self.running(), "ganesha runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self._write_configuration()
        # Handles contain the file system's UUID. libblkid's cache on this machine has old UUIDs of loop devices.
        environment = {**os.environ, "BLKID_FILE": str(self.directory / "blkid.tab"), **self._environment}
        if self.daemon is Daemon.PATCHED:
            assert PATCHED_LIBRARY.is_dir(), f"{PATCHED_LIBRARY} is not built: packaging/ganesha/build"
            environment["LD_LIBRARY_PATH"] = str(PATCHED_LIBRARY)
        started = len(self.log())
        command = ["ganesha.nfsd", "-F", "-x", "-f", str(configuration), "-L", str(self.log_file)]
        command += ["-p", str(self.directory / "ganesha.pid"), "-N", f"NIV_{self.log_level}"]
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)

        def serves() -> bool:
            assert self.running(), f"ganesha ended:\n{(self.directory / 'output').read_text()}{self.log()[started:][-4000:]}"
            said = self.log()[started:]
            return "NFS SERVER INITIALIZED" in said and _listening(NFS_PORT, self.bind_address or "127.0.0.1")

        wait_for(serves, "ganesha serves", timeout)

    def stop(self, timeout: float = 120) -> int:
        """Ends the daemon by SIGTERM; returns its exit code. Kills it after the timeout and raises subprocess.TimeoutExpired."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None

    def kill(self) -> None:
        """Kills the daemon, as a crash does."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def restart_after_kill(self) -> float:
        """Kills and restarts the daemon; returns the seconds until it served."""
        self.kill()
        begun = time.monotonic()
        self.start()
        return time.monotonic() - begun


@contextlib.contextmanager
def running_ganesha(
    directory: Path, exports: Sequence[Export], daemon: Daemon = Daemon.STOCK, **options: bool | str | Mapping[str, str] | None
) -> Iterator[Ganesha]:
    """A running daemon with rpcbind. Raises AssertionError if the daemon died or does not end cleanly."""
    rpcbind = Rpcbind()
    try:
        ganesha = Ganesha(directory, exports, daemon, **options)  # type: ignore[arg-type]
        ganesha.start()
        try:
            yield ganesha
            assert ganesha.running(), f"ganesha died:\n{ganesha.log()[-4000:]}"
        except Exception as error:
            error.add_note(f"ganesha said last:\n{ganesha.log()[-4000:]}")
            raise
        finally:
            code = ganesha.stop() if ganesha.running() else None
        assert code == 0, f"ganesha ended with {code}:\n{ganesha.log()[-4000:]}"
    finally:
        rpcbind.stop()


@contextlib.contextmanager
def mounted_xfs(directory: Path, size_mib: int = 512, *, reflink: bool = True) -> Iterator[Path]:
    """An XFS file system on a file, mounted at DIRECTORY/mnt, removed at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    image, mount = directory / "xfs.img", directory / "mnt"
    with image.open("wb") as file:
        file.truncate(size_mib << 20)
    run("mkfs.xfs", "-q", "-f", "-m", f"reflink={reflink:d}", image)
    mount.mkdir()
    run("mount", "-o", "loop,nouuid", image, mount)
    try:
        yield mount
    finally:
        wait_for(
            lambda: subprocess.run(["umount", mount], check=False, capture_output=True).returncode == 0, f"{mount} is unmounted"
        )
        image.unlink()


@contextlib.contextmanager
def mounted_dataset(name: str, **properties: str) -> Iterator[Path]:
    """A dataset POOL/NAME as FSAL_VFS and FSAL_ZVAAI need it, mounted below /srv/datasets; destroyed at the end."""
    mount = Path("/srv/datasets") / name
    settings = {"acltype": "posix", "xattr": "sa", "mountpoint": str(mount), **properties}
    run("zfs", "create", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}")), name)
    try:
        yield mount
    finally:
        wait_for(lambda: subprocess.run(["zfs", "destroy", "-r", name], check=False).returncode == 0, f"{name} is destroyed")
