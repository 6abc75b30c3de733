# SPDX-License-Identifier: Apache-2.0
"""Certificates: the appliance's, as admins compare it before they trust it, and those of servers that it trusts."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from appliance.domain.errors import InvalidError
from appliance.tls import context_for


@dataclass(frozen=True)
class Certificate:
    """Times in seconds since 1970."""

    subject: str
    issuer: str
    names: list[str]
    not_before: float
    not_after: float
    fingerprint: str
    """SHA-256, in pairs of hexadecimal digits."""
    self_signed: bool


def names_of(certificate: x509.Certificate) -> list[str]:
    """DNS names and addresses."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]


def fingerprint_of(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def described(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        names=names_of(certificate),
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        fingerprint=fingerprint_of(certificate),
        self_signed=certificate.issuer == certificate.subject,
    )


def describe(file: Path) -> Certificate:
    """The first certificate of a PEM file. Raises OSError, ValueError."""
    return described(x509.load_pem_x509_certificate(file.read_bytes()))


def check_trusted(certificate: str | None) -> None:
    """Raises InvalidError if `certificate` is given, and is not PEM of certificates."""
    try:
        context_for(certificate)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidError("certificate", f"not a certificate: {error}", "PEM") from error
