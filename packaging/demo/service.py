# SPDX-License-Identifier: Apache-2.0
"""The demo's appliance: root helper, worker, API and nginx with the privileges of their units, and ganesha's message bus.

Runs where the pool is, in the mount namespace of serve.py: only these processes and ganesha see the helper's mounts below
/srv/zvaai. The database is in a dataset of the demo's pool, with the data; keys of encrypted datasets are outside of it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nginx"))

from programs import END_WITH_US, Ending, RestartedPrograms, StopSignal, end, report, run, wait_until  # noqa: E402
from render import render  # noqa: E402

PORT = 8443
IQN = "iqn.2026-11.example.zvaai:datastores"
DEMO_MOUNTS = Path("/srv/zvaai-demo")
"""Mounts of the demo; those of the appliance are below /srv/zvaai."""
HERE = Path("/run/zvaai-demo")
BUS = f"unix:path={HERE}/bus"
NFS_STATISTICS = HERE / "vaai-nas.socket"
USER = "nobody"
"""In place of the user zvaai, which the demo makes nowhere."""
USER_ID = 65534
DATASET = "appliance"
ROOM = "256M"
"""Reserved for the database: hosts that fill the pool don't end the appliance."""
READY_SECONDS = 400.0
_AS_NOBODY = ("--reuid", USER, "--regid", "nogroup", "--clear-groups", "--bounding-set=-all", "--no-new-privs")
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


@dataclass(frozen=True)
class Options:
    """Locations: the package `appliance` with the console, the pool, sockets, a folder for keys and logs."""

    library: Path
    pool: str
    control: Path
    """The target's control socket."""
    listen: tuple[str, int]
    """Address of nginx."""
    state: Path
    device_directory: str
    """Folder with the devices of the pool."""


def start_bus(ending: Ending, stop: StopSignal) -> None:
    """The message bus, before ganesha: root may do all, the worker what packaging/dbus lets it. Raises DemoError, Stopped."""
    policy, configuration = HERE / "zvaai-nfs.conf", HERE / "bus.conf"
    policy.write_text(_BUS_POLICY.read_text().replace('user="zvaai"', f'user="{USER}"'))
    configuration.write_text(_BUS_CONFIGURATION.format(address=BUS, policy=policy))
    command = [*END_WITH_US, "dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile", "--nosyslog"]
    process = subprocess.Popen(command, start_new_session=True)
    ending.add(lambda: end(process, "the message bus"))
    wait_until(Path(BUS.partition("=")[2]).exists, [process], "the message bus", READY_SECONDS, stop)


class Appliance:
    """The appliance's processes, the dataset of its database, and their configuration."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._state = DEMO_MOUNTS / "appliance"
        self._runtime = HERE / "appliance"
        environment = {
            "ZVAAI_CONFIG": f"{HERE}/appliance.toml",
            "PYTHONPATH": str(options.library),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._processes = RestartedPrograms({**os.environ, **environment})

    def start(self) -> None:
        """Begins; `wait_until_ready` waits. Raises DemoError."""
        self._mount_state()
        self._runtime.mkdir(mode=0o700)
        os.chown(self._runtime, USER_ID, USER_ID)
        (HERE / "exports.d").mkdir(mode=0o755)
        (self._options.state / "keys").mkdir(mode=0o700, exist_ok=True)
        configuration = HERE / "appliance.toml"
        configuration.write_text(self._configuration())
        for name in ("helper", "worker", "api"):  # each before its callers
            self._processes.start(f"the appliance's {name}", self._command(name), self._options.state / f"{name}.log")
        self._processes.start("nginx", self._nginx(), self._options.state / "nginx.log")

    def _nginx(self) -> list[str]:
        """Its configuration, its certificate, and its command."""
        runtime, certificates = HERE / "frontend", self._state / "frontend"
        runtime.mkdir(mode=0o700)
        certificates.mkdir(mode=0o755, exist_ok=True)
        for folder in (runtime, certificates):
            os.chown(folder, USER_ID, USER_ID)
        made = [
            "setpriv",
            *_AS_NOBODY,
            "env",
            f"PYTHONPATH={self._options.library}",
            sys.executable,
            "-m",
            "appliance.api.certificate",
        ]
        run(*made, certificates)
        site = self._options.library / ".cache/console/site"
        address, port = self._options.listen
        configuration = HERE / "nginx.conf"
        api = self._runtime / "http.sock"
        configuration.write_text(render(address, port, api=api, certificates=certificates, site=site, runtime=runtime))
        return [*END_WITH_US, *_AS_NOBODY, "nginx", "-c", str(configuration), "-g", "daemon off;"]

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
        return f"""
            state_directory = "{self._state}"
            runtime_directory = "{self._runtime}"
            [http]
            socket = "{self._runtime}/http.sock"
            certificate = "{self._state}/frontend/certificate.pem"
            user = "{USER}"
            [target]
            control = "{self._options.control}"
            name = "{IQN}"
            [nfs]
            exports = "{HERE}/exports.d"
            bus = "{BUS}"
            statistics = "{NFS_STATISTICS}"
            [storage]
            helper = "{HERE}/helper.sock"
            """

    def _command(self, name: str) -> list[str]:
        module = "appliance.gateway" if name == "api" else f"appliance.{name}"
        command = [*END_WITH_US, *(_AS_NOBODY if name != "helper" else ()), sys.executable, "-m", module]
        if name == "helper":
            command += ["--socket", f"{HERE}/helper.sock", "--user", USER, "--target-user", "root", "--pool", self._options.pool]
            keys = self._options.state / "keys"
            command += ["--keys", str(keys)]
            command += ["--device-directory", self._options.device_directory]
            command += ["--mount-directory", "/srv/zvaai", "--mount-directory", str(DEMO_MOUNTS)]
            command += ["--exports", f"{HERE}/exports.d", "--bus", BUS]  # the demo's own export has loaded FSAL_ZVAAI already
        return command

    def wait_until_ready(self, stop: StopSignal) -> None:
        """Returns once API and worker respond. Raises DemoError, Stopped."""
        sockets = [self._runtime / name for name in ("worker.sock", "http.sock")]
        what = f"the appliance (logs: {self._options.state})"
        wait_until(
            lambda: all(path.exists() for path in sockets) and self._listens(),
            self._processes.processes,
            what,
            READY_SECONDS,
            stop,
        )

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._options.listen[1]), timeout=1):
                return True
        except OSError:
            return False

    def check(self) -> None:
        """Restarts processes that have ended."""
        self._processes.check()

    @property
    def facts(self) -> dict[str, str | None]:
        """The one-time code, None if the first administrator exists; the certificate's SHA-256 fingerprint."""
        code = self._state / "setup-code"
        certificate = (self._state / "frontend/certificate.pem").read_text()
        begin = certificate.index("-----BEGIN CERTIFICATE-----")
        end = certificate.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate[begin:end])).digest()
        return {"setup_code": code.read_text().strip() if code.exists() else None, "fingerprint": digest.hex(":").upper()}

    def stop(self) -> None:
        """Ends clients first: the API, the worker, then the helper. The pool cannot be exported while the database is mounted."""
        self._processes.stop()
        if os.path.ismount(self._state):
            run("umount", str(self._state))
