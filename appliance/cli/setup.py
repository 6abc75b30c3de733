# SPDX-License-Identifier: Apache-2.0
"""`zvaai setup`: the first minutes of a server. It shows the console's one-time code, or sets the server up from a seed file.

The seed file is TOML, of root alone, and is deleted when all of it is done: it has the first password.

    [administrator]   name = "admin", password
    [[pools]]         name, vdevs = ["mirror", "/dev/disk/by-id/A", "/dev/disk/by-id/B"] (as `zvaai pool create` takes them)
    [[groups]]        name
    [[hosts]]         name, group, iqns, addresses
    [[datastores]]    name, pool, size = "2T", kind = "vmfs" | "nfs", thick = false, groups

Each part is made unless one of its name exists, so that a run that was interrupted continues.
"""

import os
import secrets
import ssl
import stat
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import typer

from appliance import decoding
from appliance.cli.client import FAILED, INVALID, NOT_ALLOWED, UNAVAILABLE, USAGE, Client, CommandError
from appliance.cli.pools import vdevs_of
from appliance.cli.shared import as_bytes, ask_secret

CODE = Path("/var/lib/zvaai/setup-code")
RESET_CODE = CODE.with_name("reset-code")
RECOVERY_KEY = Path("/etc/zvaai/recovery-key")
"""It opens the configuration on the pools when the system disk is lost."""
CERTIFICATE = Path("/var/lib/zvaai-frontend/certificate.pem")
"""nginx's, with its chain."""
URL = "https://localhost:8443"
API_SECONDS = 120.0
"""For the API to serve after it was started."""


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """A table of the file."""


class Administrator(_Part):
    password: str
    name: str = "admin"


class Pool(_Part):
    name: str
    vdevs: list[str]


class Group(_Part):
    name: str


class Host(_Part):
    name: str
    group: str | None = None
    iqns: list[str] = []
    addresses: list[str] = []


class Datastore(_Part):
    """A datastore; `size` as the command takes it."""

    name: str
    pool: str
    size: str
    kind: Literal["vmfs", "nfs"] = "vmfs"
    thick: bool = False
    groups: list[str] = []


class Seed(_Part):
    administrator: Administrator
    pools: list[Pool] = []
    groups: list[Group] = []
    hosts: list[Host] = []
    datastores: list[Datastore] = []


def read_seed(path: Path) -> Seed:
    """Raises CommandError for a file that other users can read, or that is invalid."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno())
            if stat.S_IMODE(mode.st_mode) & 0o077 or mode.st_uid != os.geteuid():
                raise CommandError(f"{path}: it has a password, and others may read it. Run: chmod 600 {path}", NOT_ALLOWED)
            return decoding.convert(tomllib.load(file), Seed)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path}: {error}", INVALID) from error
    except msgspec.ValidationError as error:
        raise CommandError(f"{path}: {error}", INVALID) from error


def set_up(
    seed: Annotated[Path | None, typer.Option(help="Set the server up from this file, then delete it.")] = None,
    reset_administrator: Annotated[str | None, typer.Option(metavar="NAME", help="Replace a lost password and code.")] = None,
) -> None:
    """Show the console's address and one-time code. With --seed, set up the administrator, pools, hosts and datastores.

    Needs root.

    Example: zvaai setup --seed /etc/zvaai/setup.toml

    Example: zvaai setup --reset-administrator admin
    """
    if os.geteuid() != 0:
        raise CommandError("only root can read the one-time code; run: sudo zvaai setup", NOT_ALLOWED)
    if reset_administrator is not None:
        reset(reset_administrator, ask_secret("New password", twice=True), RESET_CODE)
        return
    code = wait_for_code(CODE)
    if seed is None:
        if code is None:
            print(f"The server is set up. Console: {console()}")
        else:
            print(f"Console:        {console()}\nOne-time code:  {code}\nOpen the console to create the first administrator.")
        return
    if not seed.exists():
        raise CommandError(f"{seed} does not exist; /usr/share/doc/zvaai/install.md shows an example", USAGE)
    carry_out(read_seed(seed), code, print)
    seed.unlink()


def reset(name: str, password: str, file: Path) -> None:
    """Resets an administrator. The code in `file` shows the API that root does it. Raises CommandError."""
    client = trusting_client()
    code = secrets.token_hex(20)
    try:
        # The folder is the worker's: root must not follow a link there.
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            owner = file.parent.stat()
            os.fchown(target.fileno(), owner.st_uid, owner.st_gid)
            target.write(code)
        client.call("POST", "/setup/administrator", {"code": code, "name": name, "password": password})
    finally:
        file.unlink(missing_ok=True)
    print(f"{name} is an administrator and logs in with the new password at {console()}")


def console() -> str:
    """The console's address: the server's first one of IPv4."""
    addresses = subprocess.run(["hostname", "--all-ip-addresses"], capture_output=True, text=True, check=False).stdout.split()
    address = next((candidate for candidate in addresses if ":" not in candidate), "localhost")
    return f"https://{address}:{urlsplit(URL).port}"


def wait_for_code(path: Path) -> str | None:
    """The one-time code, once the API serves; None if the server is set up. Raises CommandError if the API does not start."""
    client = trusting_client()
    code = _read(path) if path.exists() else None
    if client.call("GET", "/setup")["needed"]:
        return _read(path) if code is None else code
    return None


def _read(path: Path) -> str:
    """The folder is the worker's: root must not follow a link there."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        return file.read().strip()


def trusting_client() -> Client:
    """Client of this machine's API. Any user can listen at the port while nginx does not: the certificate must be nginx's."""
    until = time.monotonic() + API_SECONDS
    parts = urlsplit(URL)
    while True:
        try:
            pem = ssl.get_server_certificate((parts.hostname or "", parts.port or 0), timeout=10)
            if pem.strip() not in CERTIFICATE.read_text():
                raise OSError(f"the certificate at {URL} is not in {CERTIFICATE}")
            client = Client(URL, None, None, trusted=pem)
            client.token = None
            client.call("GET", "/setup")
            return client
        except (OSError, CommandError) as error:
            refused = isinstance(error, CommandError) and error.exit_code != UNAVAILABLE
            if refused or time.monotonic() > until:
                check = "systemctl status zvaai-frontend zvaai-api"
                raise CommandError(f"the API does not serve ({error}); check: {check}", UNAVAILABLE) from error
        time.sleep(0.5)


def carry_out(seed: Seed, code: str | None, say: Callable[[str], None]) -> None:
    """Creates the objects of the seed that the server lacks. Raises CommandError."""
    client = trusting_client()
    who = {"name": seed.administrator.name, "password": seed.administrator.password}
    if code is not None:
        made = client.call("POST", "/setup", {"code": code, **who})
        # Not printed: it must not be in the log of a service.
        with os.fdopen(os.open(RECOVERY_KEY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{made['recovery_key']}\n")
        say(f"created the administrator {seed.administrator.name}; store {RECOVERY_KEY} in another place, then delete it")
    elif not RECOVERY_KEY.exists():
        say(f"there is no {RECOVERY_KEY}: unless you have stored the recovery key, run: zvaai configuration recovery-key")
    begun = client.call("POST", "/session", who)
    headers = {"X-CSRF-Token": begun["csrf_token"]}

    def existing(path: str) -> dict[str, str]:
        return {item["name"]: item.get("id", item["name"]) for item in client.all(path)}

    def group_of(name: str) -> str:
        if name not in groups:
            raise CommandError(f"there is no host group {name!r}: add it to the seed file", INVALID)
        return groups[name]

    def post(path: str, body: dict[str, Any]) -> Any:
        return client.call("POST", path, body, _headers=headers)

    def job(path: str, body: dict[str, Any]) -> None:
        ended = client.wait(post(path, body)["id"], lambda _job: None)
        if problem := (ended["result"] or {}).get("problem"):
            raise CommandError(f"{body['name']}: {problem}", FAILED)

    pools = existing("/pools")
    for pool in seed.pools:
        if pool.name not in pools:
            job("/pools", {"name": pool.name, "vdevs": vdevs_of(pool.vdevs)})
            say(f"created the pool {pool.name}")
    groups = existing("/host-groups")
    for group in seed.groups:
        if group.name not in groups:
            groups[group.name] = post("/host-groups", {"name": group.name})["id"]
    hosts = existing("/hosts")
    for host in seed.hosts:
        if host.name not in hosts:
            body: dict[str, Any] = {"name": host.name, "iqns": host.iqns, "addresses": host.addresses}
            if host.group is not None:
                body["group"] = group_of(host.group)
            post("/hosts", body)
            say(f"created the host {host.name}")
    datastores = existing("/datastores")
    for datastore in seed.datastores:
        if datastore.name not in datastores:
            body = {
                "name": datastore.name,
                "pool": datastore.pool,
                "size": as_bytes(datastore.size),
                "kind": datastore.kind,
                "thick": datastore.thick,
            }
            job("/datastores", {**body, "host_groups": [group_of(name) for name in datastore.groups]})
            say(f"created the datastore {datastore.name}")
    client.call("DELETE", "/session", _headers=headers)
