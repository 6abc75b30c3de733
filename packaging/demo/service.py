"""The demo's appliance: root helper, worker and API, each as the user that its unit names, and the bus by which ganesha is asked.

Runs where the pool is, in the mount namespace of serve.py: what the helper mounts below /srv/zvaai is seen there and by ganesha
only. The database lies in a dataset of the demo's pool, and so is kept with the data; keys of encrypted datasets lie outside it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PORT = 8443
IQN = "iqn.2026-11.example.zvaai:datastores"
OWN_MOUNTS = Path("/srv/zvaai-demo")
"""What the demo itself mounts; what the appliance mounts is below /srv/zvaai."""
HERE = Path("/run/zvaai-demo")
BUS = f"unix:path={HERE}/bus"
NFS_STATISTICS = HERE / "vaai-nas.socket"
USER = "nobody"
"""In place of the user zvaai, which the demo makes nowhere."""
USER_ID = 65534
DATASET = "appliance"
ROOM = "256M"
"""Reserved for the database: hosts that fill the pool don't end the appliance."""
READY_SECONDS = 120.0
END_SECONDS = 20.0
END_WITH_US = ("setpriv", "--pdeathsig", "TERM")
_WITHOUT_PRIVILEGES = ("--reuid", USER, "--regid", "nogroup", "--clear-groups", "--bounding-set=-all", "--no-new-privs")
_BUS_POLICY = Path(__file__).resolve().parents[1] / "dbus/zvaai-nfs.conf"
_BUS_CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>{address}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
    <allow receive_type="signal"/><allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  <policy user="root"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
  <include>{policy}</include>
</busconfig>
"""


class ApplianceError(Exception):
    """The appliance can't be served; the text says why."""


@dataclass(frozen=True)
class Options:
    """Where it finds what it needs: the package `appliance` with the console, the pool, sockets, a folder for keys and logs."""

    library: Path
    pool: str
    control: Path
    """The target's control socket."""
    listen: tuple[str, int]
    """Of the API."""
    state: Path
    device_directory: str
    """Where the devices of the pool lie."""


def report(message: str) -> None:
    """Says on standard error what goes on."""
    print(f"demo: {message}", file=sys.stderr, flush=True)


def run(*command: str) -> str:
    """Standard output of a command. Raises ApplianceError with its standard error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ApplianceError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def start_bus() -> subprocess.Popen[bytes]:
    """The message bus, before ganesha: root may do all, the worker what packaging/dbus lets it. Raises ApplianceError."""
    policy, configuration = HERE / "zvaai-nfs.conf", HERE / "bus.conf"
    policy.write_text(_BUS_POLICY.read_text().replace('user="zvaai"', f'user="{USER}"'))
    configuration.write_text(_BUS_CONFIGURATION.format(address=BUS, policy=policy))
    command = [*END_WITH_US, "dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile", "--nosyslog"]
    process = subprocess.Popen(command, start_new_session=True)
    _wait(Path(BUS.partition("=")[2]).exists, [process], "the message bus")
    return process


class Appliance:
    """Its processes. What ends by itself is started anew a second later, as the units have it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._state = OWN_MOUNTS / "appliance"
        self._runtime = HERE / "appliance"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended_at: dict[str, float] = {}

    def start(self) -> None:
        """Begins; `wait_until_ready` waits. Raises ApplianceError."""
        self._mount_state()
        self._runtime.mkdir(mode=0o700)
        os.chown(self._runtime, USER_ID, USER_ID)
        (HERE / "exports.d").mkdir(mode=0o755)
        (self._options.state / "keys").mkdir(mode=0o700, exist_ok=True)
        configuration = HERE / "appliance.toml"
        configuration.write_text(self._configuration())
        for name in ("helper", "worker", "api"):
            self._start(name)

    def _mount_state(self) -> None:
        dataset = f"{self._options.pool}/{DATASET}"
        if subprocess.run(["zfs", "list", "-H", dataset], capture_output=True, check=False).returncode != 0:
            report(f"making the dataset {dataset} for the appliance's database")
            run("zfs", "create", "-o", "mountpoint=legacy", "-o", f"refreservation={ROOM}", dataset)
        self._state.mkdir(parents=True)
        run("mount", "-t", "zfs", dataset, str(self._state))
        os.chown(self._state, USER_ID, USER_ID)
        self._state.chmod(0o700)

    def _configuration(self) -> str:
        address, port = self._options.listen
        return f"""
            state_directory = "{self._state}"
            runtime_directory = "{self._runtime}"
            [http]
            address = "{address}"
            port = {port}
            [target]
            control = "{self._options.control}"
            name = "{IQN}"
            [nfs]
            exports = "{HERE}/exports.d"
            bus = "{BUS}"
            statistics = "{NFS_STATISTICS}"
            [storage]
            engine = "helper"
            helper = "{HERE}/helper.sock"
            """

    def _start(self, name: str) -> None:
        command = [*END_WITH_US, *(_WITHOUT_PRIVILEGES if name != "helper" else ()), sys.executable, "-m", f"appliance.{name}"]
        if name == "helper":
            command += ["--socket", f"{HERE}/helper.sock", "--user", USER, "--target-user", "root", "--pool", self._options.pool]
            command += ["--keys", str(self._options.state / "keys"), "--device-directory", self._options.device_directory]
            command += ["--mount-directory", "/srv/zvaai", "--mount-directory", str(OWN_MOUNTS)]
            command += ["--exports", f"{HERE}/exports.d", "--bus", BUS]  # the demo's own export has loaded FSAL_ZVAAI already
        environment = {
            **os.environ,
            "ZVAAI_CONFIG": f"{HERE}/appliance.toml",
            "PYTHONPATH": str(self._options.library),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with (self._options.state / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd="/", start_new_session=True
            )

    def wait_until_ready(self) -> None:
        """Returns once the API answers and the worker can be asked. Raises ApplianceError."""
        ready = (self._runtime / "worker.sock").exists
        _wait(lambda: ready() and self._listens(), list(self._processes.values()), f"the appliance (logs: {self._options.state})")

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._options.listen[1]), timeout=1):
                return True
        except OSError:
            return False

    def look(self) -> None:
        """Starts anew what has ended."""
        for name, process in self._processes.items():
            if process.poll() is None:
                continue
            since = self._ended_at.setdefault(name, time.monotonic())
            if time.monotonic() - since >= 1:
                report(f"the appliance's {name} ended by itself (exit code {process.returncode}) and is started anew")
                del self._ended_at[name]
                self._start(name)
                return

    @property
    def facts(self) -> dict[str, str | None]:
        """The one-time code, None when the first administrator is made already; the certificate's SHA-256 fingerprint."""
        code = self._state / "setup-code"
        certificate = (self._state / "certificate.pem").read_text()
        begin = certificate.index("-----BEGIN CERTIFICATE-----")
        end = certificate.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate[begin:end])).digest()
        return {"setup_code": code.read_text().strip() if code.exists() else None, "fingerprint": digest.hex(":").upper()}

    def stop(self) -> None:
        """Who asks first: the API, the worker, then the helper. The pool is not exported while the database is mounted."""
        for name in ("api", "worker", "helper"):
            process = self._processes.get(name)
            if process is not None:
                end(process, name)
        if os.path.ismount(self._state):
            run("umount", str(self._state))


def end(process: subprocess.Popen[bytes], name: str) -> None:
    """Terminates a process and waits; one that does not end is killed."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        report(f"{name} did not end within {END_SECONDS:.0f} s and was killed")
        process.kill()
        process.wait()


def _wait(ready: Callable[[], bool], processes: Sequence[subprocess.Popen[bytes]], what: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while not ready():
        if any(process.poll() is not None for process in processes):
            raise ApplianceError(f"{what} ended before it served")
        if time.monotonic() > until:
            raise ApplianceError(f"{what} does not serve within {READY_SECONDS:.0f} s")
        time.sleep(0.05)
