# SPDX-License-Identifier: Apache-2.0
"""Exports of a running ganesha.nfsd, over its DBus interface `org.ganesha.nfsd`.

A folder has one file per export. The daemon's configuration includes it, so that exports return after a restart: `%dir
"FOLDER/*.conf"`. The file is changed first, then the daemon is called; if the daemon refuses, the file is restored. The daemon
runs as root: if others than root may write the folder, nothing is changed.
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

# Errors of the bus, not of the daemon; it is unknown whether the daemon executed the request.
_UNREACHABLE = {
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "NoServer", "Timeout", "TimedOut", "Disconnected")
}

# Names in ganesha's configuration, and their bits in responses (EXPORT_OPTION_*_ACCESS, _SQUASH, _NFSV3, _NFSV4).
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
    """The message bus does not permit this user to call the daemon: packaging/dbus."""


class GaneshaAnswerError(GaneshaUnreachableError):
    """The response differs from ganesha 6.5's, so the served exports are unknown."""


class ExportRefusedError(GaneshaError):
    """The daemon refuses the request; the text is its reason. Nothing changed."""


class NoSuchExportError(GaneshaError):
    """No export has this number."""


@dataclass(frozen=True)
class ClientRights:
    """Rights of some clients, in place of the export's. `clients`: addresses, networks (CIDR), host names, netgroups.

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
    """An export of a dataset. `access` applies to clients that are not in `clients`; "None" admits no other client."""

    export_id: int
    path: Path
    pseudo: str
    access: str = "None"
    squash: str = "No_Root_Squash"
    clients: Sequence[ClientRights] = ()
    protocols: tuple[int, ...] = (3, 4)
    dataset: str = ""
    """Dataset that must be mounted at the path: packaging/ganesha/mounted_exports.py."""
    guid: int | None = None
    """GUID of the dataset: a copy with its name is not exported."""
    thick_size: int | None = None
    """Size of a thick datastore in bytes; None for a thin one."""

    def block(self) -> str:
        """The EXPORT block of ganesha's configuration. Raises ValueError for values that it cannot contain."""
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
    """Reads or writes of an export by a version of NFS."""

    bytes_requested: int
    bytes_transferred: int
    operations: int
    errors: int
    latency_ns: int
    """Sum over all operations."""


@dataclass(frozen=True)
class ExportStatistics:
    """Transfers by a version of NFS. `protocol` is ganesha's name: NFSv3, NFSv40, NFSv41, NFSv42."""

    protocol: str
    read: Transfer
    write: Transfer


@dataclass(frozen=True)
class ServedExport:
    """The state of an export in the daemon, and in its file."""

    export_id: int
    path: str
    pseudo: str
    clients: frozenset[str]
    """Clients with separate rights, each in the form of `client_name`, with the rights."""
    used_at: float | None
    """Last request of a client, by the daemon's clock; None without one since the daemon's start."""
    served: bool = True
    text: str | None = None
    """Content of its file; None without one."""


@dataclass(frozen=True)
class NfsClient:
    """A client of the daemon, which does not report the client's exports."""

    address: str
    seen_at: float
    """By the daemon's clock."""
    opens: int
    """Files that it has open by NFSv4."""


@dataclass(frozen=True)
class Clients:
    """Clients of the daemon since its start or the reset of its counters."""

    now: float
    since: float
    known: tuple[NfsClient, ...]


def client_name(text: str) -> str:
    """Normalized form of a client: networks as CIDR, single addresses without a prefix, other names unchanged."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    return str(network.network_address if network.num_addresses == 1 else network)


def client_names(export: Export) -> frozenset[str]:
    """All clients of an export with their rights."""
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
    """Exports of the NFS server. Any method may raise GaneshaUnreachableError."""

    @abstractmethod
    def served(self) -> list[ServedExport]:
        """Served exports, and files of exports that are not served. Sorted by number; without the root of the pseudo paths."""

    @abstractmethod
    def files(self) -> Mapping[int, str]:
        """Export files by number: the exports after a restart. Does not call the daemon; raises only OSError."""

    @abstractmethod
    def statistics(self) -> Mapping[int, Sequence[ExportStatistics]]:
        """Reads and writes since the daemon's start by export number and version of NFS, without unused ones."""

    @abstractmethod
    def add(self, export: Export) -> None:
        """Adds an export. Raises ExportRefusedError, also for a duplicate number, path or pseudo path."""

    @abstractmethod
    def change(self, export: Export) -> None:
        """Changes an export for later requests. Path and pseudo path cannot change: remove the export and add another."""

    @abstractmethod
    def remove(self, export_id: int) -> None:
        """Removes an export and its file; its data does not change.

        Clients get stale handles. After a timeout the daemon may still serve the export, but not after a restart.
        """

    @abstractmethod
    def forget(self, export_id: int) -> None:
        """Removes the export's file, without a call of the daemon, which still serves the export until its restart."""

    @abstractmethod
    def clients(self) -> Clients:
        """Clients of the daemon."""


@contextlib.contextmanager
def _understood(method: str) -> Iterator[None]:
    """Raises GaneshaAnswerError if the body cannot parse a response."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise GaneshaAnswerError(f"ganesha answers {method} with what was not expected: {error}") from error


def _content(path: Path) -> bytes | None:
    """Content of a file; None without one. b"" for a link or an unreadable file, which then differs from any export."""
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
    """A running daemon, and the folder of its exports. Not thread-safe."""

    def __init__(self, exports: Path, bus: str = "SYSTEM", with_each: Path | None = None, *, timeout_s: float = 30) -> None:
        """`with_each`: a configuration file sent with each new export, if it exists (docs/vaai_nas.md, Configuration)."""
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
        """Raises if others can write the folder: they could replace our files, or have left links."""
        found = self._folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ExportRefusedError(
                f"{self._folder} has to be a folder of user {os.geteuid()} in which nobody else writes: nothing was changed"
            )

    @contextlib.contextmanager
    def _written(self, export: Export) -> Iterator[Path]:
        """Writes the export's file; restores it if the body fails."""
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
    def _temporary_file(self, path: Path, text: str) -> Iterator[Path]:
        """A file for the daemon to read during the call."""
        _write(path, text.encode())
        try:
            yield path
        finally:
            path.unlink()

    def exports(self) -> dict[int, str]:
        """Exports by number: the path that clients mount (mount_path_pseudo), without the root."""
        answer = self._call(_EXPORTS, "ShowExports")
        with _understood("ShowExports"):
            _time, found = answer
            return {int(entry[0]): entry[1] for entry in found if entry[0] != 0}

    def files(self) -> Mapping[int, str]:
        found = {}
        for path in self._folder.glob("*.conf"):
            if path.stem.isdecimal() and (content := _content(path)) is not None:
                found[int(path.stem)] = content.decode(errors="replace")
        return found

    def served(self) -> list[ServedExport]:
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
                except ExportRefusedError:  # it was removed meanwhile
                    continue
                names = frozenset(_with_rights(str(client[0]), client[8] & _BITS) for client in clients)
                found.append(ServedExport(number, path, pseudo, names, _seconds(entry[-1]), True, files.pop(number, None)))
        found += [ServedExport(number, "", "", frozenset(), None, False, text) for number, text in files.items()]
        return sorted(found, key=lambda export: export.export_id)

    def clients(self) -> Clients:
        with self._connection() as connection, _understood("ShowClients or ShowExports"):
            now, entries = self._ask(connection, _CLIENT_MANAGER, "ShowClients")
            since, _exports = self._ask(connection, _EXPORTS, "ShowExports")
            # Of each client: address, usage, state as "Open", number, "Lock", number ..., time of the last request.
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
        self._check_folder()
        if export.export_id in self.exports():
            raise ExportRefusedError(f"export {export.export_id} is there already")
        also = f"%include {_quoted(str(self._with_each))}\n" if self._with_each and self._with_each.exists() else ""
        with self._written(export) as path, self._temporary_file(path.with_suffix(".add"), also + export.block()) as new:
            self._call(_EXPORTS, "AddExport", "ss", str(new), f"EXPORT(Export_Id={export.export_id})")

    def change(self, export: Export) -> None:
        """Raises NoSuchExportError."""
        self._check_folder()
        if export.export_id not in self.exports():
            raise NoSuchExportError(f"there is no export {export.export_id}")
        # The daemon first: a crash in between leaves a file that differs, which shows as drift.
        path = self._file(export.export_id)
        with self._temporary_file(path.with_suffix(".change"), export.block()) as new:
            self._call(_EXPORTS, "UpdateExport", "ss", str(new), f"EXPORT(Export_Id={export.export_id})")
        _replace(path, export.block().encode())

    def remove(self, export_id: int) -> None:
        """Raises NoSuchExportError if there is neither an export nor a file."""
        self._check_folder()
        path = self._file(export_id)
        if export_id not in self.exports():
            if not path.exists(follow_symlinks=False):
                raise NoSuchExportError(f"there is no export {export_id}")
            path.unlink()
            _sync(path.parent)
            return
        kept = _content(path)
        # The file first: the daemon ends clones before its response, which may take longer than the timeout.
        path.unlink(missing_ok=True)
        _sync(path.parent)
        try:
            self._call(_EXPORTS, "RemoveExport", "q", export_id)
        except ExportRefusedError:  # it is still served
            if kept:
                _replace(path, kept)
            raise

    def forget(self, export_id: int) -> None:
        self._check_folder()
        self._file(export_id).unlink(missing_ok=True)
        _sync(self._folder)

    def statistics(self) -> Mapping[int, Sequence[ExportStatistics]]:
        done, problem, *rest = self._call(_STATISTICS, "GetNFSIO")
        if not done:
            raise ExportRefusedError(str(problem))
        _time, entries = rest
        found: dict[int, list[ExportStatistics]] = {}
        for number, protocol, read, write in entries:
            found.setdefault(number, []).append(ExportStatistics(protocol, Transfer(*read[:5]), Transfer(*write[:5])))
        return found


def _seconds(timestamp: tuple[int, int]) -> float | None:
    """Converts ganesha's (seconds, nanoseconds); None for never."""
    seconds, nanoseconds = timestamp
    return seconds + nanoseconds / 1e9 if seconds else None


def _address(text: str) -> str:
    """Converts an IPv4 client from ::ffff:a.b.c.d."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _replace(path: Path, data: bytes) -> None:
    """Replaces a file atomically, on stable storage."""
    new = path.with_suffix(".new")
    _write(new, data)
    new.rename(path)
    _sync(path.parent)


def _write(path: Path, data: bytes) -> None:
    """Writes a new file in place of any old one, on stable storage."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        os.fchmod(file.fileno(), 0o644)  # the worker reads the helper's files, whatever the umask
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Syncs the names in a folder."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
