# SPDX-License-Identifier: Apache-2.0
"""The appliance's own TLS certificate: made before nginx first starts, and again 30 days before it ends.

`python3 -m appliance.api.certificate FOLDER` makes `certificate.pem` and `certificate.key` there, unless good ones are there, and
prints the fingerprint. The unit zvaai-frontend.service runs it at each start and reload.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE, KEY = "certificate.pem", "certificate.key"
"""Names of the files; everybody may read the first one."""
VALID = datetime.timedelta(days=825)
"""As long as clients take one."""
RENEWED = datetime.timedelta(days=30)
"""So long before its end."""


@dataclass(frozen=True)
class Description:
    """A certificate's fingerprint and dates, to compare before trusting it. Times in seconds since 1970."""

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


def ensure(folder: Path) -> str:
    """Makes certificate and key unless good ones are there; the SHA-256 fingerprint. Raises OSError."""
    found = _good(folder)
    if found is None:
        _make(folder)
        found = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    return found.fingerprint(hashes.SHA256()).hex(":").upper()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _good(folder: Path) -> x509.Certificate | None:
    try:
        found = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
        authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (FileNotFoundError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    now = _now()
    if authority or found.not_valid_after_utc - now < RENEWED or found.not_valid_before_utc > now:
        return None
    return found if key.public_key() == found.public_key() else None


def _make(folder: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname() or "zvaai"
    now = _now()
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
    # The key first: a certificate that does not fit its key is made again at the next start.
    _replace(folder / KEY, key, 0o600)
    _replace(folder / CERTIFICATE, made.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(file: Path, content: bytes, mode: int) -> None:
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as written:
        os.fchmod(written.fileno(), mode)
        written.write(content)
        written.flush()
        os.fsync(written.fileno())
    new.rename(file)


if __name__ == "__main__":
    print(f"the certificate has the SHA-256 fingerprint {ensure(Path(sys.argv[1]))}", flush=True)
