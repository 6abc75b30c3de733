"""Exports of a running ganesha.nfsd, over its DBus interface `org.ganesha.nfsd`.

What is exported is kept in a folder of files, one for each export, that the daemon's own configuration includes, so that it is
served again after a restart: `%dir "FOLDER/*.conf"`. A file is changed first and the daemon asked then; when it refuses, the file
is as it was.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.wrappers import DBusErrorResponse, unwrap_msg

_NAME = "org.ganesha.nfsd"
_EXPORTS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=_NAME, interface="org.ganesha.nfsd.exportmgr")
_STATISTICS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=_NAME, interface="org.ganesha.nfsd.exportstats")

# What the bus itself answers where the daemon does not; whether it did what was asked is not known.
_UNREACHABLE = {
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "NoServer", "Timeout", "TimedOut", "Disconnected")
}

_ACCESS = ("RW", "RO", "None")
_SQUASH = ("No_Root_Squash", "Root_Squash", "All_Squash")
_CLIENTS = re.compile(r"[0-9A-Za-z.:/_*@-]+")
_MAX_EXPORT_ID = 65535


class GaneshaError(Exception):
    """Any failure of this module."""


class GaneshaUnreachableError(GaneshaError):
    """The daemon is not on the bus, or does not answer."""


class ExportRefusedError(GaneshaError):
    """The daemon does not accept what was asked; the text is its reason. Nothing changed."""


class NoSuchExportError(GaneshaError):
    """No export has this number."""


@dataclass(frozen=True)
class ClientRights:
    """What some clients get instead of the export's own rights. `clients`: addresses, networks (CIDR), host names, netgroups."""

    clients: str
    access: str = "RW"
    squash: str = "No_Root_Squash"

    def block(self) -> str:
        """As ganesha's configuration has it."""
        _check(self.access in _ACCESS and self.squash in _SQUASH, f"unknown rights: {self.access}, {self.squash}")
        _check(_CLIENTS.fullmatch(self.clients) is not None, f"not a client: {self.clients!r}")
        return f"CLIENT {{ Clients = {self.clients}; Access_Type = {self.access}; Squash = {self.squash}; }}"


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

    def block(self) -> str:
        """As ganesha's configuration has it. Raises ValueError for what can't be written there."""
        _check(0 < self.export_id <= _MAX_EXPORT_ID, f"not an export's number: {self.export_id}")
        _check(self.access in _ACCESS and self.squash in _SQUASH, f"unknown rights: {self.access}, {self.squash}")
        _check(bool(self.protocols) and set(self.protocols) <= {3, 4}, f"unknown protocols: {self.protocols}")
        _check(self.pseudo.startswith("/"), f"the pseudo path is not absolute: {self.pseudo}")
        lines = [
            f"Export_Id = {self.export_id};",
            f"Path = {_quoted(str(self.path))};",
            f"Pseudo = {_quoted(self.pseudo)};",
            f"Protocols = {', '.join(map(str, self.protocols))};",
            "Transports = TCP;",
            "SecType = sys;",
            f"Access_Type = {self.access};",
            f"Squash = {self.squash};",
            *(client.block() for client in self.clients),
            "FSAL { Name = ZVAAI; }",
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


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _quoted(text: str) -> str:
    _check(not re.search(r'["\\\x00-\x1f\x7f]', text), f"can't be written into ganesha's configuration: {text!r}")
    return f'"{text}"'


class Ganesha:
    """A running daemon, and the folder of what it exports. Not for several threads at once."""

    def __init__(self, exports: Path, bus: str = "SYSTEM", timeout_s: float = 30) -> None:
        self._folder = exports
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
            message = new_method_call(address, method, signature or None, arguments)
            try:
                return tuple(unwrap_msg(connection.send_and_get_reply(message, timeout=self._timeout_s)))
            except DBusErrorResponse as error:
                text = " ".join(map(str, error.data))
                if error.name in _UNREACHABLE:
                    raise GaneshaUnreachableError(f"ganesha is not on the bus: {text}") from error
                raise ExportRefusedError(text) from error
            except (OSError, TimeoutError) as error:
                raise GaneshaUnreachableError(f"ganesha does not answer: {error}") from error

    def _file(self, export_id: int) -> Path:
        return self._folder / f"{export_id}.conf"

    @contextlib.contextmanager
    def _written(self, export: Export) -> Iterator[Path]:
        """The export's file with its new content; as it was when what is done with it fails."""
        path = self._file(export.export_id)
        before = path.read_bytes() if path.exists() else None
        _replace(path, export.block().encode())
        try:
            yield path
        except BaseException:
            if before is None:
                path.unlink()
            else:
                _replace(path, before)
            raise

    def exports(self) -> dict[int, str]:
        """What is exported: number to the path that clients mount (with mount_path_pseudo). Without the root of these paths."""
        _time, found = self._call(_EXPORTS, "ShowExports")
        return {entry[0]: entry[1] for entry in found if entry[0] != 0}

    def add(self, export: Export) -> None:
        """Serves a new export. Raises ExportRefusedError, also when its number, path or pseudo path is taken."""
        if export.export_id in self.exports():
            raise ExportRefusedError(f"export {export.export_id} is there already")
        with self._written(export) as path:
            self._call(_EXPORTS, "AddExport", "ss", str(path), f"EXPORT(Export_Id={export.export_id})")

    def change(self, export: Export) -> None:
        """Serves an export otherwise, for requests from now on. Path and pseudo path can't change: remove it and add another."""
        if export.export_id not in self.exports():
            raise NoSuchExportError(f"there is no export {export.export_id}")
        with self._written(export) as path:
            self._call(_EXPORTS, "UpdateExport", "ss", str(path), f"EXPORT(Export_Id={export.export_id})")

    def remove(self, export_id: int) -> None:
        """Serves it no longer: clients get stale handles. Its data stays.

        Raises GaneshaUnreachableError where the daemon does not answer in time: it may still serve it then, but not after a
        restart.
        """
        if export_id not in self.exports():
            raise NoSuchExportError(f"there is no export {export_id}")
        path = self._file(export_id)
        kept = path.read_bytes() if path.exists() else None
        # The file first: clones that use the export are ended before the daemon answers, which may take longer than is waited.
        path.unlink(missing_ok=True)
        _sync(path.parent)
        try:
            self._call(_EXPORTS, "RemoveExport", "q", export_id)
        except ExportRefusedError:  # it is served on
            if kept is not None:
                _replace(path, kept)
            raise

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


def _replace(path: Path, data: bytes) -> None:
    """Writes a file in one step, stable."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """Makes names in a folder stable."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
