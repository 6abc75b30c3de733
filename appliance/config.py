# SPDX-License-Identifier: Apache-2.0
"""The appliance's configuration file (TOML). Every setting has a default; unknown ones are refused.

    state_directory = "/var/lib/zvaai"          # database, certificate, keys; the service's own user's
    runtime_directory = "/run/zvaai"            # sockets
    [http]      socket = "/run/zvaai-api/http.sock", certificate = "/var/lib/zvaai-frontend/certificate.pem"
    [target]    control = "/run/zvaai-target/control.sock", name = "iqn..."     # by default the installation's, made once
    [nfs]       exports = "/etc/zvaai/exports.d", statistics = "/run/zvaai-nfs/vaai-nas.socket"
    [alerts]  trusted_networks = ["192.0.2.0/24"]
    [storage]   helper = "/run/zvaai-helper/helper.sock"

`ZVAAI_CONFIG` names another file than /etc/zvaai/appliance.toml.
"""

import ipaddress
import os
import re
import secrets
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

DEFAULT_PATH = Path("/etc/zvaai/appliance.toml")
_MADE_TARGET_NAME = re.compile(r"iqn\.2026-11\.zvaai:[0-9a-f]{12}")


def new_target_name() -> str:
    """A name for an installation's iSCSI target, random because such names are unique worldwide (RFC 7143, 4.2.7.1)."""
    return f"iqn.2026-11.zvaai:{secrets.token_hex(6)}"


def is_made_target_name(name: str) -> bool:
    """Whether an installation made this name."""
    return _MADE_TARGET_NAME.fullmatch(name) is not None


class ConfigurationError(Exception):
    """The file cannot be read, or is invalid; the text names the setting."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Http(_Section):
    """The API behind nginx, which has the network and the certificate (packaging/nginx)."""

    socket: Path = Path("/run/zvaai-api/http.sock")
    certificate: Path = Path("/var/lib/zvaai-frontend/certificate.pem")
    """The certificate that nginx presents, so that console and command can show it."""
    uploads: Path = Path("/run/zvaai-certificate")
    """Folder in which the worker puts a certificate for nginx."""
    threads: Annotated[int, Field(ge=4, le=128)] = 40
    """Concurrent requests, including event streams. nginx passes on at most 24 of one address."""
    user: str = "zvaai-api"
    """User of the HTTP process: the worker accepts this user and root."""


class Target(_Section):
    control: Path = Path("/run/zvaai-target/control.sock")
    name: Annotated[
        str | None, Field(pattern=r"^iqn\.[0-9]{4}-(?:0[1-9]|1[0-2])\.[a-z0-9.-]+(:[a-z0-9.:-]+)?$", max_length=223)
    ] = None
    """None: the installation's name, made with its database."""


class Nfs(_Section):
    """The NFS server, nfs-ganesha, as configured in packaging/ganesha/ganesha.conf."""

    exports: Path = Path("/etc/zvaai/exports.d")
    """The folder of exports that its configuration includes. The root helper writes there (its --exports), the worker reads."""
    bus: str = "SYSTEM"
    """Its DBus bus; an address for tests."""
    statistics: Path = Path("/run/zvaai-nfs/vaai-nas.socket")
    """Its Control_Socket."""


class Storage(_Section):
    helper: Path = Path("/run/zvaai-helper/helper.sock")


class Alerts(_Section):
    trusted_networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    """To these also without TLS, and though their addresses are the appliance's own or a link's."""


class Worker(_Section):
    """Intervals of the worker."""

    reconcile_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 60
    inventory_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 10
    """Maximum age of the inventory that requests get; an older one is read again in the background."""
    inventory_oldest_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 90
    """Requests wait if the inventory is older than this."""
    disk_health_seconds: Annotated[float, Field(ge=60, le=86400)] = 1800
    """Interval of SMART checks; disks that sleep are not woken."""


class Configuration(_Section):
    state_directory: Path = Path("/var/lib/zvaai")
    runtime_directory: Path = Path("/run/zvaai")
    http: Http = Http()
    target: Target = Target()
    nfs: Nfs = Nfs()
    storage: Storage = Storage()
    worker: Worker = Worker()
    alerts: Alerts = Alerts()

    @property
    def database(self) -> Path:
        return self.state_directory / "appliance.sqlite"

    @property
    def audit_directory(self) -> Path:
        return self.state_directory / "audit"

    @property
    def support_directory(self) -> Path:
        return self.state_directory / "support"

    @property
    def worker_socket(self) -> Path:
        return self.runtime_directory / "worker.sock"

    @property
    def setup_code(self) -> Path:
        """File with the one-time code, until the first user exists."""
        return self.state_directory / "setup-code"

    @property
    def reset_code(self) -> Path:
        """The code that root writes to reset an administrator (`zvaai setup --reset-administrator`); mostly missing."""
        return self.state_directory / "reset-code"

    @property
    def secrets_key(self) -> Path:
        """The key that secrets in the database are sealed with."""
        return self.state_directory / "secrets.key"


def load(path: Path | None = None) -> Configuration:
    """Reads a file, by default that of `ZVAAI_CONFIG`; returns the defaults if the default file does not exist. Raises
    ConfigurationError.
    """
    named = path or (Path(os.environ["ZVAAI_CONFIG"]) if "ZVAAI_CONFIG" in os.environ else None)
    file = named or DEFAULT_PATH
    try:
        text = file.read_text()
    except FileNotFoundError as error:
        if named is None:
            return Configuration()
        raise ConfigurationError(f"{file}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {error}") from error
    try:
        return Configuration.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        raise ConfigurationError(f"{file}: {problems}") from error
