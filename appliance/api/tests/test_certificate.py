# SPDX-License-Identifier: Apache-2.0
"""The own certificate: for the server alone, renewed in time, whole or not there."""

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from simulators.appliance import Appliance

from appliance.api import certificate


def test_it_vouches_for_nobody_else(tmp_path: Path) -> None:
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


def test_one_that_is_valid_only_later_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert response is not None and response["fingerprint"] == fingerprint and response["own"]
    assert {"localhost", "127.0.0.1"} <= set(response["names"])
    assert response["subject"] == response["issuer"] and response["not_before"] < response["not_after"]
    assert "PRIVATE" not in str(response)
