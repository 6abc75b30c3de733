# SPDX-License-Identifier: Apache-2.0
"""Exports of a running ganesha.nfsd, over its DBus interface `org.ganesha.nfsd`.

What is exported is kept in a folder of files, one for each export, that the daemon's own configuration includes, so that it is
served again after a restart: `%dir "FOLDER/*.conf"`. A file is changed first and the daemon asked then; when it refuses, the file
is as it was. The daemon is root, and so may be who writes the folder: where others may write there, nothing is changed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.wrappers import DBusErrorResponse, unwrap_msg

_NAME = "org.ganesha.nfsd"
_EXPORTS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=_NAME, interface="org.ganesha.nfsd.exportmgr")
_CLIENT_MANAGER = DBusAddress("/org/ganesha/nfsd/ClientMgr", bus_name=_NAME, interface="org.ganesha.nfsd.clientmgr")
_STATISTICS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=_NAME, interface="org.ganesha.nfsd.exportstats")

# What the bus itself answers where the daemon does not; whether it did what was asked is not known.
_UNREACHABLE = {
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "NoServer", "Timeout", "TimedOut", "Disconnected")
}

# Names of ganesha's configuration, and the bits they are told as (EXPORT_OPTION_*_ACCESS, _SQUASH, _NFSV3, _NFSV4).
_ACCESS = {"RW": 0x1E0, "RO": 0xA0, "None": 0}
_SQUASH = {"No_Root_Squash": 0, "Root_Squash": 0x2, "All_Squash": 0x4}
_PROTOCOLS = {3: 0x100000, 4: 0x200000}
_BITS = 0x1E0 | 0x7 | 0x300000
_CLIENTS = re.compile(r"[0-9A-Za-z.:/_*@-]+(, [0-9A-Za-z.:/_*@-]+)*")
_MAX_EXPORT_ID = 65535


class GaneshaError(Exception):
    """Any failure of this module."""


class GaneshaUnreachableError(GaneshaError):
    """The daemon is not on the bus, or does not answer."""


class GaneshaDeniedError(GaneshaUnreachableError):
    """The message bus lets this user not ask the daemon: packaging/dbus."""


class GaneshaAnswerError(GaneshaUnreachableError):
    """The daemon answers with something else than 6.5 does. What it serves is not known."""


class ExportRefusedError(GaneshaError):
    """The daemon does not accept what was asked; the text is its reason. Nothing changed."""


class NoSuchExportError(GaneshaError):
    """No export has this number."""


@dataclass(frozen=True)
class ClientRights:
    """What some clients get instead of the export's own rights. `clients`: addresses, networks (CIDR), host names, netgroups.

    Several are separated by ", ".
    """

    clients: str
    access: str = "RW"
    squash: str = "No_Root_Squash"

    def block(self, protocols: str) -> str:
        """As ganesha's configuration has it."""
        _check(self.access in _ACCESS and self.squash in _SQUASH, f"unknown rights: {self.access}, {self.squash}")
        _check(_CLIENTS.fullmatch(self.clients) is not None, f"not a client: {self.clients!r}")
        rights = f"Access_Type = {self.access}; Squash = {self.squash}; Protocols = {protocols};"
        return f"CLIENT {{ Clients = {self.clients}; {rights} }}"


@dataclass(frozen=True)
class Export:
    """An export of a dataset. `access` is for clients that `clients` does not name; "None" admits nobody else."""

    export_id: int
    path: Path
    pseudo: str
    access: str = "None"
    squash: str = "No_Root_Squash"
    clients: Sequence[ClientRights] = ()
    protocols: tuple[int, ...] = (3, 4)
    dataset: str = ""
    """What has to be mounted at the path: packaging/ganesha/mounted-exports."""
    guid: int | None = None
    """Of that dataset: a copy under its name is not exported."""
    thick_size: int | None = None
    """Bytes that a thick datastore promises to its files; None for a thin one."""

    def block(self) -> str:
        """As ganesha's configuration has it. Raises ValueError for what can't be written there."""
        _check(0 < self.export_id <= _MAX_EXPORT_ID, f"not an export's number: {self.export_id}")
        _check(self.access in _ACCESS and self.squash in _SQUASH, f"unknown rights: {self.access}, {self.squash}")
        _check(bool(self.protocols) and set(self.protocols) <= {3, 4}, f"unknown protocols: {self.protocols}")
        _check(self.pseudo.startswith("/"), f"the pseudo path is not absolute: {self.pseudo}")
        _check(self.dataset.isprintable(), f"not a dataset: {self.dataset!r}")
        _check(self.thick_size is None or self.thick_size > 0, f"not a size: {self.thick_size}")
        thick = "" if self.thick_size is None else f" Thick_Size = {self.thick_size};"
        protocols = ", ".join(map(str, self.protocols))
        lines = [
            *([f"# dataset {self.dataset}"] if self.dataset else []),
            *([f"# guid {self.guid}"] if self.guid is not None else []),
            f"Export_Id = {self.export_id};",
            f"Path = {_quoted(str(self.path))};",
            f"Pseudo = {_quoted(self.pseudo)};",
            f"Protocols = {protocols};",
            "Transports = TCP;",
            "SecType = sys;",
            f"Access_Type = {self.access};",
            f"Squash = {self.squash};",
            *(client.block(protocols) for client in self.clients),
            f"FSAL {{ Name = ZVAAI;{thick} }}",
        ]
        return "EXPORT {\n  " + "\n  ".join(lines) + "\n}\n"


@dataclass(frozen=True)
class Transfer:
    """Reads or writes of one export by one version of NFS."""

    bytes_requested: int
    bytes_transferred: int
    operations: int
    errors: int
    latency_ns: int
    """Of all operations together."""


@dataclass(frozen=True)
class ExportStatistics:
    """What one version of NFS moved. `protocol` as ganesha names it: NFSv3, NFSv40, NFSv41, NFSv42."""

    protocol: str
    read: Transfer
    write: Transfer


@dataclass(frozen=True)
class ServedExport:
    """An export as it is: what the daemon serves, and what it would serve after a restart."""

    export_id: int
    path: str
    pseudo: str
    clients: frozenset[str]
    """Those that have rights of their own, each as `client_name` writes it, with what they may."""
    used_at: float | None
    """When a client last asked for something in it, by the daemon's clock, if anybody has since it began."""
    served: bool = True
    text: str | None = None
    """Its file; None where there is none."""


@dataclass(frozen=True)
class NfsClient:
    """A client that the daemon knows. Which exports it uses the daemon does not tell."""

    address: str
    seen_at: float
    """By the daemon's clock."""
    opens: int
    """Files that it has open by NFSv4."""


@dataclass(frozen=True)
class Clients:
    """Who the daemon knows: since it began, or its counters were set back."""

    now: float
    since: float
    known: tuple[NfsClient, ...]


def client_name(text: str) -> str:
    """A client in one way of writing: networks as CIDR, single addresses as such, anything else as it is."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    return str(network.network_address if network.num_addresses == 1 else network)


def client_names(export: Export) -> frozenset[str]:
    """All that an export names, with what they may."""
    versions = sum(_PROTOCOLS[version] for version in export.protocols)
    return frozenset(
        _with_rights(name, _ACCESS[rights.access] | _SQUASH[rights.squash] | versions)
        for rights in export.clients
        for name in rights.clients.split(", ")
    )


def _with_rights(name: str, bits: int) -> str:
    access = next((word for word, value in _ACCESS.items() if value == bits & 0x1E0), "?")
    squash = next((word for word, value in _SQUASH.items() if value == bits & 0x7), "?")
    versions = ",".join(str(version) for version, value in _PROTOCOLS.items() if bits & value)
    return f"{client_name(name)} {access} {squash} v{versions}"


class ExportControl(ABC):
    """The NFS server's exports, as far as the appliance needs them. Any method may raise GaneshaUnreachableError."""

    @abstractmethod
    def served(self) -> list[ServedExport]:
        """What is served, and what files there are of exports that are not. By number; without the root of the pseudo paths."""

    @abstractmethod
    def files(self) -> Mapping[int, str]:
        """What would be served after a restart, by number. Asks no daemon, and so raises OSError only."""

    @abstractmethod
    def add(self, export: Export) -> None:
        """Serves a new export. Raises ExportRefusedError, also when its number, path or pseudo path is taken."""

    @abstractmethod
    def change(self, export: Export) -> None:
        """Serves an export otherwise, for requests from now on. Path and pseudo path can't change: remove it and add another."""

    @abstractmethod
    def remove(self, export_id: int) -> None:
        """Serves it no longer, nor after a restart; one that is not served has only its file, which goes. Its data stays.

        Clients get stale handles. Where the daemon does not answer in time it may serve it still, but not after a restart.
        """

    @abstractmethod
    def forget(self, export_id: int) -> None:
        """It does not come back after a restart of the daemon; what that serves now is served on. Asks no daemon."""

    @abstractmethod
    def clients(self) -> Clients:
        """The clients that the daemon knows."""


@contextlib.contextmanager
def _understood(method: str) -> Iterator[None]:
    """Around what reads an answer."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise GaneshaAnswerError(f"ganesha answers {method} with what was not expected: {error}") from error


def _content(path: Path) -> bytes | None:
    """None where there is no file; nothing of one that can't be read, or is a link, so that it is no export's as it should be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _quoted(text: str) -> str:
    _check(not re.search(r'["\\\x00-\x1f\x7f]', text), f"can't be written into ganesha's configuration: {text!r}")
    return f'"{text}"'


class Ganesha(ExportControl):
    """A running daemon, and the folder of what it exports. Not for several threads at once."""

    def __init__(self, exports: Path, bus: str = "SYSTEM", with_each: Path | None = None, *, timeout_s: float = 30) -> None:
        """`with_each` is configuration that goes with each new export, where it is there: docs/vaai_nas.md, Configuration."""
        self._folder = exports
        self._with_each = with_each
        self._bus = bus
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def _connection(self) -> Iterator[DBusConnection]:
        try:
            connection = open_dbus_connection(bus=self._bus)
        except (OSError, KeyError) as error:
            raise GaneshaUnreachableError(f"no message bus: {error}") from error
        with connection:
            yield connection

    def _call(self, address: DBusAddress, method: str, signature: str = "", *arguments: object) -> tuple[Any, ...]:
        with self._connection() as connection:
            return self._ask(connection, address, method, signature, *arguments)

    def _ask(
        self, connection: DBusConnection, address: DBusAddress, method: str, signature: str = "", *arguments: object
    ) -> tuple[Any, ...]:
        message = new_method_call(address, method, signature or None, arguments)
        try:
            return tuple(unwrap_msg(connection.send_and_get_reply(message, timeout=self._timeout_s)))
        except DBusErrorResponse as error:
            text = " ".join(map(str, error.data))
            if error.name == "org.freedesktop.DBus.Error.AccessDenied":
                raise GaneshaDeniedError(f"the message bus does not let this user ask ganesha: {text}") from error
            if error.name in _UNREACHABLE:
                raise GaneshaUnreachableError(f"ganesha is not on the bus: {text}") from error
            raise ExportRefusedError(text) from error
        except (OSError, TimeoutError) as error:
            raise GaneshaUnreachableError(f"ganesha does not answer: {error}") from error

    def _file(self, export_id: int) -> Path:
        return self._folder / f"{export_id}.conf"

    def _check_folder(self) -> None:
        """Whose the folder was may have left links in it, and may put other files in the place of ours before they are read."""
        found = self._folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ExportRefusedError(
                f"{self._folder} has to be a folder of user {os.geteuid()} in which nobody else writes: nothing was changed"
            )

    @contextlib.contextmanager
    def _written(self, export: Export) -> Iterator[Path]:
        """The export's file with its new content; as it was when what is done with it fails."""
        path = self._file(export.export_id)
        before = _content(path)
        _replace(path, export.block().encode())
        try:
            yield path
        except BaseException:
            if not before:
                path.unlink()
            else:
                _replace(path, before)
            raise

    @contextlib.contextmanager
    def _told(self, path: Path, text: str) -> Iterator[Path]:
        """A file for the daemon to read, as long as it is asked."""
        _write(path, text.encode())
        try:
            yield path
        finally:
            path.unlink()

    def exports(self) -> dict[int, str]:
        """What is exported: number to the path that clients mount (with mount_path_pseudo). Without the root of these paths."""
        answer = self._call(_EXPORTS, "ShowExports")
        with _understood("ShowExports"):
            _time, found = answer
            return {int(entry[0]): entry[1] for entry in found if entry[0] != 0}

    def files(self) -> Mapping[int, str]:
        """See ExportControl."""
        found = {}
        for path in self._folder.glob("*.conf"):
            if path.stem.isdecimal() and (content := _content(path)) is not None:
                found[int(path.stem)] = content.decode(errors="replace")
        return found

    def served(self) -> list[ServedExport]:
        """See ExportControl."""
        files = dict(self.files())
        found = []
        with self._connection() as connection, _understood("ShowExports or DisplayExport"):
            _time, entries = self._ask(connection, _EXPORTS, "ShowExports")
            for entry in entries:
                number = int(entry[0])
                if number == 0:
                    continue
                try:
                    _, path, pseudo, _tag, clients = self._ask(connection, _EXPORTS, "DisplayExport", "q", number)
                except ExportRefusedError:  # it is gone meanwhile
                    continue
                names = frozenset(_with_rights(str(client[0]), client[8] & _BITS) for client in clients)
                found.append(ServedExport(number, path, pseudo, names, _seconds(entry[-1]), True, files.pop(number, None)))
        found += [ServedExport(number, "", "", frozenset(), None, False, text) for number, text in files.items()]
        return sorted(found, key=lambda export: export.export_id)

    def clients(self) -> Clients:
        """See ExportControl."""
        with self._connection() as connection, _understood("ShowClients or ShowExports"):
            now, entries = self._ask(connection, _CLIENT_MANAGER, "ShowClients")
            since, _exports = self._ask(connection, _EXPORTS, "ShowExports")
            # Of each: its address, what it ever used, its state as "Open", number, "Lock", number ..., when it was seen last.
            known = (
                NfsClient(
                    _address(entry[0]),
                    _seconds(entry[-1]) or 0.0,
                    int(dict(zip(entry[-2][::2], entry[-2][1::2], strict=True))["Open"]),
                )
                for entry in entries
            )
            return Clients(_seconds(now) or 0.0, _seconds(since) or 0.0, tuple(known))

    def add(self, export: Export) -> None:
        """See ExportControl."""
        self._check_folder()
        if export.export_id in self.exports():
            raise ExportRefusedError(f"export {export.export_id} is there already")
        also = f"%include {_quoted(str(self._with_each))}\n" if self._with_each and self._with_each.exists() else ""
        with self._written(export) as path, self._told(path.with_suffix(".add"), also + export.block()) as new:
            self._call(_EXPORTS, "AddExport", "ss", str(new), f"EXPORT(Export_Id={export.export_id})")

    def change(self, export: Export) -> None:
        """See ExportControl. Raises NoSuchExportError."""
        self._check_folder()
        if export.export_id not in self.exports():
            raise NoSuchExportError(f"there is no export {export.export_id}")
        # The daemon first: who dies between leaves a file that tells what was not done.
        path = self._file(export.export_id)
        with self._told(path.with_suffix(".change"), export.block()) as new:
            self._call(_EXPORTS, "UpdateExport", "ss", str(new), f"EXPORT(Export_Id={export.export_id})")
        _replace(path, export.block().encode())

    def remove(self, export_id: int) -> None:
        """See ExportControl. Raises NoSuchExportError where there is no file of it either."""
        self._check_folder()
        path = self._file(export_id)
        if export_id not in self.exports():
            if not path.exists(follow_symlinks=False):
                raise NoSuchExportError(f"there is no export {export_id}")
            path.unlink()
            _sync(path.parent)
            return
        kept = _content(path)
        # The file first: clones that use the export are ended before the daemon answers, which may take longer than is waited.
        path.unlink(missing_ok=True)
        _sync(path.parent)
        try:
            self._call(_EXPORTS, "RemoveExport", "q", export_id)
        except ExportRefusedError:  # it is served on
            if kept:
                _replace(path, kept)
            raise

    def forget(self, export_id: int) -> None:
        """See ExportControl."""
        self._check_folder()
        self._file(export_id).unlink(missing_ok=True)
        _sync(self._folder)

    def statistics(self, export_id: int) -> tuple[ExportStatistics, ...]:
        """What was read and written since the daemon began, by version of NFS; those nobody used are missing."""
        done, problem, *rest = self._call(_STATISTICS, "GetNFSIO")
        if not done:
            raise ExportRefusedError(str(problem))
        _time, entries = rest
        return tuple(
            ExportStatistics(protocol, Transfer(*read[:5]), Transfer(*write[:5]))
            for number, protocol, read, write in entries
            if number == export_id
        )


def _seconds(timestamp: tuple[int, int]) -> float | None:
    """Of ganesha's (seconds, nanoseconds); None for never."""
    seconds, nanoseconds = timestamp
    return seconds + nanoseconds / 1e9 if seconds else None


def _address(text: str) -> str:
    """An IPv4 client may be told as ::ffff:a.b.c.d."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file in one step, stable."""
    new = path.with_suffix(".new")
    _write(new, data)
    new.rename(path)
    _sync(path.parent)


def _write(path: Path, data: bytes) -> None:
    """A new file in the place of whatever was there, stable."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        os.fchmod(file.fileno(), 0o644)  # the worker reads what the helper has written, whatever that one's umask is
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Makes names in a folder stable."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
