# SPDX-License-Identifier: Apache-2.0
"""A certificate authority, for certificates that an admin uploads."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PEM = serialization.Encoding.PEM
_SIGNS = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
    key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


def pem_of(key: PrivateKey, passphrase: bytes | None = None) -> str:
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, hidden).decode()


class Authority:
    """Signs certificates for servers, without a key identifier, as many private authorities do."""

    def __init__(self, name: str = "authority") -> None:
        self._name, self._key = _name(name), ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        certificate = _builder(self._name, self._name, now - datetime.timedelta(days=1), now + datetime.timedelta(days=99))
        certificate = certificate.public_key(self._key.public_key()).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        certificate = certificate.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        certificate = certificate.add_extension(_SIGNS, critical=True)
        self.certificate = certificate.sign(self._key, hashes.SHA256()).public_bytes(PEM).decode()

    def sign(self, key: PrivateKey, *names: str, begins: float = -1, ends: float = 30) -> str:
        """PEM of a certificate for DNS names; `begins` and `ends` in days from now."""
        now = datetime.datetime.now(datetime.UTC)
        made = _builder(_name("server"), self._name, now + datetime.timedelta(days=begins), now + datetime.timedelta(days=ends))
        if names:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        return made.public_key(key.public_key()).sign(self._key, hashes.SHA256()).public_bytes(PEM).decode()


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, begins: datetime.datetime, ends: datetime.datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    return made.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
