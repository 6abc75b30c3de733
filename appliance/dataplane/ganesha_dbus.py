# SPDX-License-Identifier: Apache-2.0
"""Exports of a running ganesha.nfsd, over its DBus interface `org.ganesha.nfsd`.

A folder has one file per export. The daemon's configuration includes it, so that exports return after a restart: `%dir
"FOLDER/*.conf"`. The file is changed first, then the daemon is called; if the daemon refuses, the file is restored. The daemon
runs as root: if others than root may write the folder, nothing is changed.
"""

import contextlib
import ipaddress
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.wrappers import DBusErrorResponse, unwrap_msg

from appliance.dataplane.ganesha import (
    Clients,
    Export,
    ExportControl,
    ExportRefusedError,
    GaneshaAnswerError,
    GaneshaDeniedError,
    GaneshaUnreachableError,
    NfsClient,
    NoSuchExportError,
    ServedExport,
    client_with_rights,
    quoted,
)

_NAME = "org.ganesha.nfsd"
_EXPORTS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=_NAME, interface="org.ganesha.nfsd.exportmgr")
_CLIENT_MANAGER = DBusAddress("/org/ganesha/nfsd/ClientMgr", bus_name=_NAME, interface="org.ganesha.nfsd.clientmgr")

# Errors of the bus, not of the daemon; it is unknown whether the daemon executed the request.
_UNREACHABLE = {
    f"org.freedesktop.DBus.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "NoServer", "Timeout", "TimedOut", "Disconnected")
}


class Ganesha(ExportControl):
    """A running daemon, and the folder of its exports. Changes need a lock."""

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
        status = self._folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise ExportRefusedError(
                f"{self._folder} must be a folder of user {os.geteuid()} that no other user can write: nothing was changed"
            )

    @contextlib.contextmanager
    def _written(self, export: Export) -> Iterator[Path]:
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
            _time, entries = answer
            return {int(entry[0]): entry[1] for entry in entries if entry[0] != 0}

    def files(self) -> Mapping[int, str]:
        texts = {}
        for path in self._folder.glob("*.conf"):
            if path.stem.isdecimal() and (content := _content(path)) is not None:
                texts[int(path.stem)] = content.decode(errors="replace")
        return texts

    def served(self) -> list[ServedExport]:
        files = dict(self.files())
        served = []
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
                names = frozenset(client_with_rights(str(client[0]), client[8]) for client in clients)
                served.append(ServedExport(number, path, pseudo, names, _seconds(entry[-1]), True, files.pop(number, None)))
        served += [ServedExport(number, "", "", frozenset(), None, False, text) for number, text in files.items()]
        return sorted(served, key=lambda export: export.export_id)

    def clients(self) -> Clients:
        with self._connection() as connection, _understood("ShowClients or ShowExports"):
            now, entries = self._ask(connection, _CLIENT_MANAGER, "ShowClients")
            started, _exports = self._ask(connection, _EXPORTS, "ShowExports")
            # Of each client: address, usage, state as "Open", number, "Lock", number ..., time of the last request.
            known = (
                NfsClient(
                    _address(entry[0]),
                    _seconds(entry[-1]) or 0.0,
                    int(dict(zip(entry[-2][::2], entry[-2][1::2], strict=True))["Open"]),
                )
                for entry in entries
            )
            return Clients(_seconds(now) or 0.0, _seconds(started) or 0.0, tuple(known))

    def add(self, export: Export) -> None:
        self._check_folder()
        if export.export_id in self.exports():
            raise ExportRefusedError(f"export {export.export_id} is there already")
        also = f"%include {quoted(str(self._with_each))}\n" if self._with_each and self._with_each.exists() else ""
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
        before = _content(path)
        # The file first: the daemon ends clones before its response, which may take longer than the timeout.
        path.unlink(missing_ok=True)
        _sync(path.parent)
        try:
            self._call(_EXPORTS, "RemoveExport", "q", export_id)
        except ExportRefusedError:  # it is still served
            if before:
                _replace(path, before)
            raise


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
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _understood(method: str) -> Iterator[None]:
    """Raises GaneshaAnswerError if the body cannot parse a response."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise GaneshaAnswerError(f"ganesha answers {method} with an unexpected value: {error}") from error


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
