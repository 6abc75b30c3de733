# SPDX-License-Identifier: Apache-2.0
"""The API's own TLS certificate, made at the first start and again before it ends."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=825)
"""As long as clients take one."""
RENEWED = datetime.timedelta(days=30)
"""So long before its end."""


@dataclass(frozen=True)
class Description:
    """Of a certificate: what somebody compares before trusting it. Times in seconds since 1970."""

    subject: str
    issuer: str
    names: list[str]
    not_before: float
    not_after: float
    fingerprint: str
    """SHA-256, in pairs of hexadecimal digits."""


def describe(file: Path) -> Description:
    """The first certificate of a PEM file. Raises OSError, ValueError."""
    found = x509.load_pem_x509_certificate(file.read_bytes())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return Description(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        names=[str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)],
        not_before=found.not_valid_before_utc.timestamp(),
        not_after=found.not_valid_after_utc.timestamp(),
        fingerprint=found.fingerprint(hashes.SHA256()).hex(":").upper(),
    )


def ensure(file: Path) -> str:
    """Makes certificate and key, both in one file, unless good ones are there; the SHA-256 fingerprint."""
    found = _good(file)
    if found is None:
        _make(file)
        found = x509.load_pem_x509_certificate(file.read_bytes())
    return found.fingerprint(hashes.SHA256()).hex(":").upper()


def _good(file: Path) -> x509.Certificate | None:
    try:
        pem = file.read_bytes()
        found = x509.load_pem_x509_certificate(pem)
        key = serialization.load_pem_private_key(pem, None)
        authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (FileNotFoundError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    ends_soon = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < RENEWED
    return None if authority or ends_soon or key.public_key() != found.public_key() else found


def _make(file: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname() or "zvaai"
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    names: list[x509.GeneralName] = [x509.DNSName(host), x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    key = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        written.write(made.public_bytes(serialization.Encoding.PEM) + key)
        written.flush()
        os.fsync(written.fileno())
    new.rename(file)
