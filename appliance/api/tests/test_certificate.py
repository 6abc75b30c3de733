# SPDX-License-Identifier: Apache-2.0
"""The appliance's certificate: valid only for this server, renewed in time, written atomically. An authority's certificate:
checked.
"""

import datetime
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from simulators.appliance import Appliance, running
from support.authority import Authority, pem_of

from appliance.api import certificate
from appliance.config import Http
from appliance.database.models import AuditEntry


def test_it_cannot_sign_other_certificates(tmp_path: Path) -> None:
    file = tmp_path / certificate.CERTIFICATE
    first = certificate.ensure(tmp_path)
    made = x509.load_pem_x509_certificate(file.read_bytes())
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert file.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / certificate.KEY).stat().st_mode & 0o777 == 0o600
    assert certificate.ensure(tmp_path) == first


def test_it_is_renewed_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr(certificate, "VALID", certificate.RENEWED - datetime.timedelta(hours=1))
        first = certificate.ensure(tmp_path)
    assert certificate.ensure(tmp_path) != first
    assert x509.load_pem_x509_certificate(
        (tmp_path / certificate.CERTIFICATE).read_bytes()
    ).not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=800)


def test_a_certificate_that_is_valid_only_later_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock was ahead when it was made."""
    ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365)
    with monkeypatch.context() as context:
        context.setattr(certificate, "_now", lambda: ahead)
        first = certificate.ensure(tmp_path)
    assert certificate.ensure(tmp_path) != first


@pytest.mark.parametrize("name", [certificate.CERTIFICATE, certificate.KEY])
@pytest.mark.parametrize("length", [0, 100, -40])
def test_half_a_file_is_made_again(tmp_path: Path, name: str, length: int) -> None:
    file = tmp_path / name
    first = certificate.ensure(tmp_path)
    file.write_bytes(file.read_bytes()[:length])
    assert certificate.ensure(tmp_path) != first


def test_the_certificate_resource_describes_the_served_certificate(appliance: Appliance) -> None:
    assert appliance.request("GET", "/certificate").status_code == 503, "it is not there yet"
    fingerprint = certificate.ensure(appliance.configuration.http.certificate.parent)
    response = appliance.request("GET", "/certificate", role="viewer").json
    assert response is not None and response["fingerprint"] == fingerprint and response["self_signed"]
    assert {"localhost", "127.0.0.1"} <= set(response["names"])
    assert response["subject"] == response["issuer"] and response["not_before"] < response["not_after"]
    assert "PRIVATE" not in str(response)


AUTHORITY = Authority()
LEAF = ec.generate_private_key(ec.SECP256R1())
SERVER = AUTHORITY.sign(LEAF, "storage.example")
CHAIN = SERVER + AUTHORITY.certificate


@pytest.fixture
def uploading(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance with its certificate, and the folder from which nginx takes an uploaded one."""
    served, uploads = tmp_path / "served", tmp_path / "uploads"
    served.mkdir()
    uploads.mkdir()
    certificate.ensure(served)
    with running(tmp_path / "appliance", http=Http(certificate=served / certificate.CERTIFICATE, uploads=uploads)) as appliance:
        yield appliance


def reload(appliance: Appliance) -> Path:
    """Reloads like the frontend's unit; returns the folder with the certificate that is served then."""
    served = appliance.configuration.http.certificate.parent
    certificate.main(served, appliance.configuration.http.uploads)
    return served


def test_an_uploaded_certificate_is_served_and_stays(uploading: Appliance) -> None:
    answer = uploading.request("PUT", "/certificate", {"certificate": CHAIN, "private_key": pem_of(LEAF)})
    assert answer.status_code == 200 and answer.json is not None, answer.text
    assert answer.json["names"] == ["storage.example"] and not answer.json["self_signed"]
    (upload,) = uploading.configuration.http.uploads.iterdir()
    assert upload.stat().st_mode & 0o777 == 0o640
    served = reload(uploading)
    assert list(uploading.configuration.http.uploads.iterdir()) == []
    assert (served / certificate.CERTIFICATE).read_text() == CHAIN, "without the key: everybody may read it"
    assert (served / certificate.KEY).stat().st_mode & 0o777 == 0o600
    assert uploading.get("/certificate")["fingerprint"] == answer.json["fingerprint"]
    with uploading.store.reading() as session:
        recorded = [str(entry.after) for entry in session.query(AuditEntry).where(AuditEntry.action == "certificate.change")]
    assert len(recorded) == 1 and "PRIVATE KEY" not in recorded[0]


def test_on_a_full_disk_the_present_certificate_serves(uploading: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    served = uploading.configuration.http.certificate.parent
    before = [(served / name).read_bytes() for name in (certificate.CERTIFICATE, certificate.KEY)]
    body = {"certificate": CHAIN, "private_key": pem_of(LEAF)}
    assert uploading.request("PUT", "/certificate", body).status_code == 200
    with monkeypatch.context() as full:
        sync = os.fsync

        def fsync(descriptor: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").readlink().name == f"{certificate.CERTIFICATE}.new":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(descriptor)

        full.setattr(os, "fsync", fsync)
        reload(uploading)
    assert [(served / name).read_bytes() for name in (certificate.CERTIFICATE, certificate.KEY)] == before
    reload(uploading)
    assert (served / certificate.CERTIFICATE).read_text() == CHAIN


def test_an_expiring_uploaded_certificate_is_not_replaced(uploading: Appliance) -> None:
    """The appliance renews its certificate 30 days before the end; for an uploaded one it raises an alert."""
    chain = AUTHORITY.sign(LEAF, "storage.example", ends=5) + AUTHORITY.certificate
    assert uploading.request("PUT", "/certificate", {"certificate": chain, "private_key": pem_of(LEAF)}).status_code == 200
    for _ in range(2):
        assert (reload(uploading) / certificate.CERTIFICATE).read_text() == chain


OTHER = ec.generate_private_key(ec.SECP256R1())
WEAK = rsa.generate_private_key(public_exponent=65537, key_size=1024)


@pytest.mark.parametrize(
    ("chain", "key", "field", "said"),
    [
        ("no certificate", pem_of(LEAF), "certificate", "it is not a certificate"),
        (CHAIN, "no key", "private_key", "it is not a private key"),
        (CHAIN, pem_of(LEAF, b"a passphrase"), "private_key", "it has a passphrase"),
        (CHAIN, pem_of(OTHER), "private_key", "it does not belong to the first certificate"),
        (AUTHORITY.sign(LEAF, "a", begins=-9, ends=-1), pem_of(LEAF), "certificate", "it expired at "),
        (AUTHORITY.sign(LEAF, "a", begins=1), pem_of(LEAF), "certificate", "it is not valid before "),
        (AUTHORITY.sign(LEAF), pem_of(LEAF), "certificate", "it has no DNS name or address"),
        (SERVER + Authority("another").certificate, pem_of(LEAF), "certificate", "the chain is not in order"),
        (AUTHORITY.sign(WEAK, "a"), pem_of(WEAK), "certificate", "OpenSSL refuses it"),
    ],
    ids=["no-certificate", "no-key", "passphrase", "another-key", "expired", "not-yet", "no-names", "order", "weak"],
)
def test_a_certificate_that_browsers_or_nginx_refuse_is_refused(
    uploading: Appliance, chain: str, key: str, field: str, said: str
) -> None:
    answer = uploading.request("PUT", "/certificate", {"certificate": chain, "private_key": key})
    assert answer.status_code == 422 and answer.json is not None
    (error,) = answer.json["errors"]
    assert error["field"] == field and said in error["reason"], error
    assert list(uploading.configuration.http.uploads.iterdir()) == []


def test_the_appliances_certificate_cannot_be_uploaded(uploading: Appliance) -> None:
    served = uploading.configuration.http.certificate.parent
    uploaded = {"certificate": certificate.CERTIFICATE, "private_key": certificate.KEY}
    answer = uploading.request("PUT", "/certificate", {name: (served / file).read_text() for name, file in uploaded.items()})
    assert answer.status_code == 422 and "self-signed" in answer.text


def test_invalid_exports_are_omitted_at_a_reload(uploading: Appliance) -> None:
    served, uploads = uploading.configuration.http.certificate.parent, uploading.configuration.http.uploads
    before = (served / certificate.CERTIFICATE).read_text()
    (uploads / certificate.UPLOAD).write_text(pem_of(OTHER) + CHAIN)
    reload(uploading)
    assert (served / certificate.CERTIFICATE).read_text() == before and list(uploads.iterdir()) == []


def test_without_the_folder_it_says_so(appliance: Appliance) -> None:
    answer = appliance.request("PUT", "/certificate", {"certificate": CHAIN, "private_key": pem_of(LEAF)})
    assert answer.status_code == 503 and str(appliance.configuration.http.uploads) in answer.text
