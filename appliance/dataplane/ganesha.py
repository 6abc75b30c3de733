# SPDX-License-Identifier: Apache-2.0
"""Exports of the NFS server, nfs-ganesha: their configuration, what is served, clients and statistics."""

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Plug-ins send procedure 22 of NFSv3. A clone reads from another export only if that one serves NFSv4.
_PROTOCOLS = "Protocols = 3, 4;"
# ESXi writes as root.
_SQUASH = "Squash = No_Root_Squash;"
# Bits of a client's rights in responses: EXPORT_OPTION_*_ACCESS, _SQUASH (none are set), and _NFSV3, _NFSV4.
_RIGHTS_BITS, _RIGHTS_OF_CLIENTS = 0x3001E7, 0x3001E0
_CLIENT = re.compile(r"[0-9A-Za-z.:/_*@-]+")
# Halves of the networks of all addresses: the configuration has no prefix of 0 (conf_lex.l of 6.5).
_HALVES = {"0.0.0.0/0": ["0.0.0.0/1", "128.0.0.0/1"], "::/0": ["::/1", "8000::/1"]}
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
class ExportSettings:
    """Settings of a datastore's export: addresses and networks with access."""

    clients: list[str]
    thick_size: int | None = None


@dataclass(frozen=True)
class Export:
    """An export of a dataset, for `clients` alone: addresses and networks (CIDR)."""

    export_id: int
    path: Path
    pseudo: str
    clients: Sequence[str] = ()
    dataset: str = ""
    """Dataset that must be mounted at the path: packaging/ganesha/mounted_exports.py."""
    guid: int | None = None
    """GUID of the dataset: a copy with its name is not exported."""
    thick_size: int | None = None
    """Size of a thick datastore in bytes; None for a thin one."""

    def _written_clients(self) -> list[str]:
        return [part for client in self.clients for part in _HALVES.get(client, [client])]

    def client_names(self) -> frozenset[str]:
        """Its clients as the daemon returns them, normalized."""
        return frozenset(map(client_name, self._written_clients()))

    def block(self) -> str:
        """The EXPORT block of ganesha's configuration. Raises ValueError for values that it cannot contain."""
        _check(0 < self.export_id <= _MAX_EXPORT_ID, f"not an export's number: {self.export_id}")
        for client in self.clients:
            _check(_CLIENT.fullmatch(client) is not None, f"not a client: {client!r}")
        _check(self.pseudo.startswith("/"), f"the pseudo path is not absolute: {self.pseudo}")
        _check(self.dataset.isprintable(), f"not a dataset: {self.dataset!r}")
        _check(self.thick_size is None or self.thick_size > 0, f"not a size: {self.thick_size}")
        names = ", ".join(self._written_clients())
        thick = "" if self.thick_size is None else f" Thick_Size = {self.thick_size};"
        lines = [
            *([f"# dataset {self.dataset}"] if self.dataset else []),
            *([f"# guid {self.guid}"] if self.guid is not None else []),
            f"Export_Id = {self.export_id};",
            f"Path = {quoted(str(self.path))};",
            f"Pseudo = {quoted(self.pseudo)};",
            _PROTOCOLS,
            "Transports = TCP;",
            "SecType = sys;",
            "Access_Type = None;",
            _SQUASH,
            *([f"CLIENT {{ Clients = {names}; Access_Type = RW; {_SQUASH} {_PROTOCOLS} }}"] if names else []),
            f"FSAL {{ Name = ZVAAI;{thick} }}",
        ]
        return "EXPORT {\n  " + "\n  ".join(lines) + "\n}\n"


@dataclass(frozen=True)
class ServedExport:
    export_id: int
    path: str
    pseudo: str
    clients: frozenset[str]
    """Each as `client_with_rights` returns it."""
    used_at: float | None
    """Last request of a client, by the daemon's clock; None without one since the daemon's start."""
    served: bool = True
    text: str | None = None


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
    now: float
    started_at: float
    known: tuple[NfsClient, ...]


def client_name(text: str) -> str:
    """Normalized form of a client: networks as CIDR, single addresses without a prefix, other names unchanged."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    return str(network.network_address if network.num_addresses == 1 else network)


def client_with_rights(name: str, options: int) -> str:
    """The normalized name, marked if the client has other rights than those of a datastore."""
    return client_name(name) + ("" if options & _RIGHTS_BITS == _RIGHTS_OF_CLIENTS else " (other rights)")


class ExportControl(ABC):
    """Exports of the NFS server. Any method may raise GaneshaUnreachableError."""

    @abstractmethod
    def served(self) -> list[ServedExport]:
        """Served exports, and files of exports that are not served. Sorted by number; without the root of the pseudo paths."""

    @abstractmethod
    def files(self) -> Mapping[int, str]:
        """Export files by number: the exports after a restart. Does not call the daemon; raises only OSError."""

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
    def clients(self) -> Clients:
        """Clients of the daemon."""


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def quoted(text: str) -> str:
    _check(not re.search(r'["\\\x00-\x1f\x7f]', text), f"can't be written into ganesha's configuration: {text!r}")
    return f'"{text}"'
