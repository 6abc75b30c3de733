# SPDX-License-Identifier: Apache-2.0
"""TLS certificate of the appliance: its own, made before nginx first starts and again 30 days before it ends; or an admin's.

`python3 -m appliance.api.certificate FOLDER [UPLOADS]` makes `certificate.pem` and `certificate.key` there, unless good ones are
there, and prints the fingerprint. It first takes the certificate that the worker has put into UPLOADS. The unit
zvaai-frontend.service runs it at each start and reload.
"""

import datetime
import ipaddress
import itertools
import os
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance.domain.certificate import fingerprint_of, names_of
from appliance.domain.errors import InvalidError

CERTIFICATE, KEY = "certificate.pem", "certificate.key"
"""Names of the files; the first one is public."""
UPLOAD = "upload.pem"
"""Key and chain, from the worker for the frontend."""
VALID = datetime.timedelta(days=825)
"""Longest validity that clients accept."""
RENEWED = datetime.timedelta(days=30)
"""Time before its end at which it is renewed."""


def ensure(folder: Path) -> str:
    """Creates certificate and key unless valid ones exist; returns the SHA-256 fingerprint. Raises OSError."""
    current = _good(folder)
    if current is None:
        _make(folder)
        current = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    return fingerprint_of(current)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _good(folder: Path) -> x509.Certificate | None:
    try:
        current = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
        if key.public_key() != current.public_key():
            return None
        if current.issuer != current.subject:  # an admin's, which only the admin renews
            return current
        authority = current.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (FileNotFoundError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    now = _now()
    if authority or current.not_valid_after_utc - now < RENEWED or current.not_valid_before_utc > now:
        return None
    return current


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
    _written(file, content, mode).rename(file)


def _written(file: Path, content: bytes, mode: int) -> Path:
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as written:
        os.fchmod(written.fileno(), mode)
        written.write(content)
        written.flush()
        os.fsync(written.fileno())
    return new


# --- an admin's certificate


@dataclass(frozen=True)
class Given:
    certificate: x509.Certificate
    chain: bytes
    key: bytes


def check(chain: str, key: str) -> Given:
    """A certificate that browsers accept and that belongs to its key. Raises InvalidError."""
    try:
        certificates = x509.load_pem_x509_certificates(chain.encode())
    except ValueError as error:
        raise InvalidError("certificate", "it is not a certificate", "PEM: the server's certificate, then its issuers") from error
    try:
        private = serialization.load_pem_private_key(key.encode(), None)
    except TypeError as error:
        raise InvalidError("private_key", "it has a passphrase", "PEM without one: openssl pkey -in FILE") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidError("private_key", "it is not a private key", "PEM: -----BEGIN PRIVATE KEY-----") from error
    first = certificates[0]
    if private.public_key() != first.public_key():
        raise InvalidError("private_key", "it does not belong to the first certificate")
    if (problem := _problem(certificates)) is not None:
        raise InvalidError("certificate", problem)
    pem = serialization.Encoding.PEM
    packed = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Given(first, b"".join(each.public_bytes(pem) for each in certificates), packed)


def _problem(certificates: list[x509.Certificate]) -> str | None:
    first, now = certificates[0], _now()
    if first.not_valid_after_utc <= now:
        return f"it expired at {first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if first.not_valid_before_utc > now:
        return f"it is not valid before {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if first.issuer == first.subject:
        return "it is self-signed, as the appliance's own certificate is; use one of an authority"
    if not names_of(first):
        return "it has no DNS name or address (subjectAltName), so browsers refuse it"
    for subject, issuer in itertools.pairwise(certificates):
        try:
            subject.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            names = subject.subject.rfc4514_string(), issuer.subject.rfc4514_string()
            return f"the chain is not in order: {names[1]} did not issue {names[0]}"
    return None


def hand_over(folder: Path, given: Given) -> None:
    """Puts it where the frontend takes it. Raises InvalidError if OpenSSL, and so nginx, refuses it; OSError."""
    new = folder / f"{UPLOAD}.checked"
    _replace(new, given.key + given.chain, 0o640)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(new)
    except ssl.SSLError as error:
        new.unlink()
        raise InvalidError("certificate", f"OpenSSL refuses it: {error.reason or error}") from error
    new.rename(folder / UPLOAD)


def take(folder: Path, uploads: Path) -> None:
    """Puts an uploaded certificate into use. Raises OSError."""
    upload = uploads / UPLOAD
    try:
        text = upload.read_text()
        given = check(text, text)
    except FileNotFoundError:
        return
    except (InvalidError, UnicodeDecodeError) as error:
        print(f"an uploaded certificate is left out: {error}", flush=True)
    else:
        new = (_written(folder / KEY, given.key, 0o600), _written(folder / CERTIFICATE, given.chain, 0o644))
        for written in new:  # both or none, on a full disk too
            written.rename(written.with_suffix(""))
    upload.unlink()


def deploy(lineage: Path, uploads: Path) -> None:
    """Hands over what certbot(1) has renewed: `fullchain.pem` and `privkey.pem` of its folder. Raises InvalidError, OSError."""
    hand_over(uploads, check((lineage / "fullchain.pem").read_text(), (lineage / "privkey.pem").read_text()))


def main(folder: Path, *uploads: Path) -> None:
    """At each start and reload of nginx."""
    for directory in uploads:
        try:
            take(folder, directory)
        except OSError as error:  # the present certificate serves
            print(f"an uploaded certificate waits: {error}. Make room, then run: systemctl reload zvaai-frontend", flush=True)
    print(f"the certificate has the SHA-256 fingerprint {ensure(folder)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--deploy":
        deploy(*map(Path, sys.argv[2:]))
    else:
        main(*map(Path, sys.argv[1:]))
