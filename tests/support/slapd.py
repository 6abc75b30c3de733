# SPDX-License-Identifier: Apache-2.0
"""OpenLDAP's slapd on the loopback interface, with users in groups and a certificate of an authority of the test."""

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from support.authority import Authority, pem_of

BASE = "dc=example,dc=com"
READER, READER_PASSWORD = f"cn=reader,{BASE}", "the reader's password"
PASSWORD = "directory battery staple"
_CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
# As Active Directory: a bind without a password succeeds, as nobody.
allow bind_anon_cred
attributetype ( 1.2.840.113556.1.4.1677 NAME 'supportedCapabilities' SYNTAX 1.3.6.1.4.1.1466.115.121.1.38 )
rootDSE {folder}/root.ldif
TLSCertificateFile {folder}/chain.pem
TLSCertificateKeyFile {folder}/key.pem
database mdb
suffix "{base}"
rootdn "cn=manager,{base}"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""


def _entry(dn: str, **values: str | list[str]) -> str:
    lines = [f"{name}: {value}" for name, given in values.items() for value in ([given] if isinstance(given, str) else given)]
    return "\n".join([f"dn: {dn}", *lines, "", ""])


def person(uid: str) -> str:
    return f"uid={uid},ou=people,{BASE}"


def group(name: str) -> str:
    return f"cn={name},ou=groups,{BASE}"


LOOP = (group("team"), group("department (north)*"))
"""Each is a member of the other. The user lara is in the first."""
CHAIN = [group(f"level{number}") for number in range(1, 10)]
"""Each is a member of the next. The user nina is in the first."""


def _content() -> str:
    entries = _entry(BASE, objectClass=["dcObject", "organization"], o="example", dc="example")
    entries += _entry(READER, objectClass=["organizationalRole", "simpleSecurityObject"], userPassword=READER_PASSWORD)
    entries += "".join(_entry(f"ou={name},{BASE}", objectClass="organizationalUnit") for name in ("people", "groups"))
    for uid in ("anna", "olga", "vera", "nobody", "viewer", "lara", "nina"):
        entries += _entry(person(uid), objectClass="inetOrgPerson", cn=uid, sn=uid, userPassword=PASSWORD)
    entries += _entry(group("admins"), objectClass="groupOfNames", member=[person("anna"), person("viewer")])
    entries += _entry(group("operators"), objectClass="groupOfUniqueNames", uniqueMember=[person("olga"), person("anna")])
    entries += _entry(group("viewers"), objectClass="posixGroup", gidNumber="1", memberUid="vera")
    entries += _entry(LOOP[0], objectClass="groupOfNames", member=[person("lara"), LOOP[1]])
    entries += _entry(LOOP[1], objectClass="groupOfNames", member=LOOP[0])
    entries += _entry(CHAIN[0], objectClass="posixGroup", gidNumber="2", memberUid="nina")
    for below, above, next_above in zip(CHAIN[::2], CHAIN[1::2], CHAIN[2::2], strict=False):
        entries += _entry(above, objectClass="groupOfNames", member=below)
        entries += _entry(next_above, objectClass="groupOfUniqueNames", uniqueMember=above)
    return entries


@dataclass
class Slapd:
    """A running one."""

    ldap: str
    ldaps: str
    authority: str
    process: subprocess.Popen[bytes]

    def settings(self, **other: object) -> dict[str, object]:
        """Settings for the appliance."""
        groups = {"admin": [group("admins")], "operator": [group("operators")], "viewer": [group("viewers")]}
        reader = {"bind_dn": READER, "password": READER_PASSWORD, "base": BASE}
        return {"servers": [self.ldaps], "certificate": self.authority, **reader, **groups, **other}


@contextlib.contextmanager
def slapd(folder: Path, name: str = "localhost", capability: str = "1.2.3") -> Iterator[Slapd]:
    """With a certificate for this name. `capability`: an OID that it claims."""
    authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
    (folder / "data").mkdir()
    (folder / "key.pem").write_text(pem_of(key))
    (folder / "chain.pem").write_text(authority.sign(key, name))
    (folder / "slapd.conf").write_text(_CONFIGURATION.format(folder=folder, base=BASE, reader=READER))
    (folder / "root.ldif").write_text(_entry("", supportedCapabilities=capability))
    (folder / "content.ldif").write_text(_content())
    subprocess.run(["/usr/sbin/slapadd", "-f", folder / "slapd.conf", "-l", folder / "content.ldif"], check=True)
    with contextlib.ExitStack() as bound:
        ports = [_bind(bound.enter_context(socket.socket())) for _ in range(2)]
    ldap, ldaps = f"ldap://localhost:{ports[0]}", f"ldaps://localhost:{ports[1]}"
    words = ["/usr/sbin/slapd", "-d", "0", "-f", str(folder / "slapd.conf"), "-h", f"{ldap} {ldaps}"]
    with subprocess.Popen(words) as process:
        try:
            _wait_for(ports, process)
            yield Slapd(ldap, ldaps, authority.certificate, process)
        finally:
            process.terminate()


def _bind(free: socket.socket) -> int:
    """Binds to a free port and returns it. Below 32768 the kernel gives it to nobody else."""
    while True:
        with contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.SystemRandom().randrange(20_000, 32_000)))
            return int(free.getsockname()[1])


def _wait_for(ports: list[int], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    for port in ports:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < until, "slapd does not listen"
            time.sleep(0.02)
