# SPDX-License-Identifier: Apache-2.0
"""Password logins at an LDAP directory, Active Directory among them.

As the bind DN, the appliance finds the user's entry and the groups that have it as a member, also by groups in groups. Then it
binds as the entry with the password.
"""

import contextlib
import ipaddress
import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.operation.search import parse_filter
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import parse_dn

from appliance.domain.access import Role
from appliance.domain.certificate import check_trusted
from appliance.domain.errors import InvalidError, UnavailableError
from appliance.domain.logins import Settings, role_of
from appliance.tls import context_for

CONNECT_S, ANSWER_S, TOTAL_S = 3, 5, 20
"""Time limits of a connection, an answer, and a whole login, which may take one more answer."""
_AT_ONCE = threading.BoundedSemaphore(4)
"""Logins. If the directory is slow, threads remain for everything else."""
_LOGIN = re.compile(r"\(([A-Za-z][A-Za-z0-9-]*)=\{login\}\)")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_IN_CHAIN = "1.2.840.113556.1.4.1941"
"""Active Directory's rule for members of groups in groups (MS-ADTS, 3.1.1.3.4.4.3). 389 Directory Server refuses it."""
_ACTIVE_DIRECTORY = {"1.2.840.113556.1.4.800", "1.2.840.113556.1.4.1851"}
"""Capabilities of Active Directory and of its lightweight service (MS-ADTS, 3.1.1.3.4.3)."""
_LEVELS, _GROUPS = 8, 256
"""Limits of groups in groups at other directories: levels, and groups of a user. A group beyond them gives no role."""


@dataclass(frozen=True)
class Person:
    """A user that the directory knows. `name` is as the directory spells it; without a group that has a role, `role` is None."""

    name: str
    dn: str
    groups: list[str]
    role: Role | None


class _Tls(ldap3.Tls):  # type: ignore[misc]  # ldap3 has no types
    """TLS that Python checks: ldap3 does not check addresses in certificates."""

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:
        context = context_for(self.ca_certs_data)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=connection.server.host)


def check(settings: Settings) -> None:
    """Raises InvalidError for invalid settings."""
    for server in settings["servers"]:
        allowed = "ldaps://HOST, or ldap://HOST with StartTLS"
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError as error:
            raise InvalidError("servers", str(error), allowed) from error
        whole = parts._replace(scheme="", netloc="").geturl() in ("", "/") and parts.hostname and port != 0 and "@" not in server
        if parts.scheme not in ("ldap", "ldaps") or not whole:
            raise InvalidError("servers", f"{server} is not the address of a directory", allowed)
        if parts.scheme == "ldap" and not settings["start_tls"] and not _is_loopback(parts.hostname or ""):
            raise InvalidError("servers", f"passwords would go to {server} unencrypted", allowed)
    check_trusted(settings["certificate"])
    try:
        parse_filter(_filter(settings, "login"), None, None, None, None, None)
        is_filter = len(_LOGIN.findall(settings["filter"])) > 0
    except (LDAPException, KeyError, IndexError):
        is_filter = False
    if not is_filter:
        raise InvalidError("filter", "not a filter with the login name", "such as (uid={login}) or (sAMAccountName={login})")
    groups = [(role.label, group) for role in Role for group in settings[role.label]]
    for field, name in (("base", settings["base"]), ("bind_dn", settings["bind_dn"]), *groups):
        try:
            parse_dn(name or "cn=none")
        except LDAPException as error:
            raise InvalidError(field, f"{name} is not a distinguished name", "such as cn=storage,dc=example,dc=com") from error
    if not groups:
        raise InvalidError("admin", "no group has a role, so no user could log in", "a group of one role at least")
    if bool(settings["bind_dn"]) != bool(settings["password"]):
        raise InvalidError("password", "a bind DN has a password, and an anonymous bind has none")


def authenticate(settings: Settings, bind_password: str, login: str, password: str) -> Person | None:
    """The person with this login; None for a wrong name or password. Raises UnavailableError."""
    with _connected(settings, bind_password) as (connection, until):
        person = _find(connection, settings, login.strip(), until)
        # Bytes are sent as they are. SASLprep makes some passwords empty, and such a bind succeeds as nobody (RFC 4513, 5.1.2).
        right = person is not None and password != "" and connection.rebind(user=person.dn, password=password.encode())
        return person if right else None


def look_up(settings: Settings, bind_password: str, login: str | None) -> Person | None:
    """Connects, searches the base and, if one is given, the entry of a login name. Raises UnavailableError, InvalidError."""
    with _connected(settings, bind_password) as (connection, until):
        if not connection.search(settings["base"], "(objectClass=*)", ldap3.BASE, attributes=["1.1"]):
            raise InvalidError("base", f"the directory does not show {settings['base']}: {connection.result['description']}")
        return _find(connection, settings, login.strip(), until) if login else None


@contextlib.contextmanager
def _connected(settings: Settings, bind_password: str) -> Iterator[tuple[ldap3.Connection, float]]:
    """A connection to the first server that answers, bound as the bind DN."""
    if not _AT_ONCE.acquire(blocking=False):
        raise UnavailableError("too many logins wait for the directory; try again")
    connection, until = None, time.monotonic() + TOTAL_S
    try:
        for number, address in enumerate(settings["servers"], 1):
            try:
                connection = _bound(settings, address, bind_password)
                break
            except (LDAPException, OSError):
                if number == len(settings["servers"]) or time.monotonic() > until:
                    raise
        assert connection is not None
        yield connection, until
    except (LDAPException, OSError) as error:
        raise UnavailableError(f"the directory does not answer as it should: {error}"[:500]) from error
    finally:
        _AT_ONCE.release()
        if connection is not None:
            with contextlib.suppress(LDAPException, OSError):
                connection.unbind()


def _bound(settings: Settings, address: str, password: str) -> ldap3.Connection:
    parts = urlsplit(address)
    tls = _Tls(validate=ssl.CERT_REQUIRED, ca_certs_data=settings["certificate"])
    server = ldap3.Server(
        parts.hostname, parts.port, parts.scheme == "ldaps", tls=tls, get_info=ldap3.NONE, connect_timeout=CONNECT_S
    )
    connection = ldap3.Connection(
        server, settings["bind_dn"] or None, password.encode() or None, receive_timeout=ANSWER_S, auto_referrals=False
    )
    try:
        if parts.scheme == "ldap" and settings["start_tls"]:
            connection.start_tls()
        if not connection.bind():
            raise LDAPException(f"{address} refuses the bind DN: {connection.result['description']}")
    except Exception:
        with contextlib.suppress(LDAPException, OSError):
            connection.unbind()
        raise
    return connection


def _find(connection: ldap3.Connection, settings: Settings, login: str, until: float) -> Person | None:
    """None unless one entry alone has this login name."""
    attribute = _LOGIN.findall(settings["filter"])[0]
    if not _PRINTABLE.fullmatch(login):
        return None
    connection.search(settings["base"], _filter(settings, login), attributes=[attribute], size_limit=2, time_limit=ANSWER_S)
    entries = _entries(connection)
    if len(entries) != 1:
        return None
    dn, values = entries[0]["dn"], entries[0]["attributes"].get(attribute) or [login]
    name = str(values[0] if isinstance(values, list) else values)
    direct = f"(memberUid={escape_filter_chars(name)}){_has(dn)}"
    if _is_active_directory(connection):  # it has no index for a search of groups
        nested = f"(member:{_IN_CHAIN}:={escape_filter_chars(dn)})"
    else:
        nested = "".join(map(_has, _groups(connection, settings["base"], direct, until)))
    has_it = f"(|{direct}{nested})"
    groups = []
    for group in [group for role in Role for group in settings[role.label]]:
        _check(until)
        if connection.search(group, has_it, ldap3.BASE, attributes=["1.1"]) and _entries(connection):
            groups.append(group)
    return Person(name, dn, groups, role_of(settings, groups)) if _PRINTABLE.fullmatch(name) else None


def _is_active_directory(connection: ldap3.Connection) -> bool:
    connection.search("", "(objectClass=*)", ldap3.BASE, attributes=["supportedCapabilities"])
    capabilities = (root["attributes"].get("supportedCapabilities", ()) for root in _entries(connection))
    return any(not _ACTIVE_DIRECTORY.isdisjoint(each) for each in capabilities)


def _groups(connection: ldap3.Connection, base: str, matching: str, until: float) -> list[str]:
    """Groups below the base by which a user can be a member of another group. `matching`: filters for the user's own groups."""
    groups: list[str] = []
    for _ in range(_LEVELS - 1):
        _check(until)
        connection.search(base, f"(|{matching})", attributes=["1.1"], size_limit=_GROUPS, time_limit=ANSWER_S)
        level = [entry["dn"] for entry in _entries(connection) if entry["dn"] not in groups][: _GROUPS - len(groups)]
        if not level:
            break
        groups += level
        matching = "".join(map(_has, level))
    return groups


def _has(dn: str) -> str:
    """Filters for groups with this member."""
    member = escape_filter_chars(dn)
    return f"(member={member})(uniqueMember={member})"


def _check(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError(f"no answer within {TOTAL_S} s")


def _entries(connection: ldap3.Connection) -> list[dict[str, Any]]:
    return [entry for entry in connection.response or () if entry["type"] == "searchResEntry"]


def _filter(settings: Settings, login: str) -> str:
    """RFC 4515, 3."""
    return str(settings["filter"]).replace("{login}", escape_filter_chars(login))


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
