# SPDX-License-Identifier: Apache-2.0
"""The own certificate: for the server alone, renewed in time, whole or not there."""

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from appliance.api import certificate
from appliance.testing import Appliance


def test_it_vouches_for_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    first = certificate.ensure(file)
    made = x509.load_pem_x509_certificate(file.read_bytes())
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert file.stat().st_mode & 0o777 == 0o600
    assert certificate.ensure(file) == first


def test_it_is_renewed_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "certificate.pem"
    with monkeypatch.context() as context:
        context.setattr(certificate, "VALID", certificate.RENEWED - datetime.timedelta(hours=1))
        first = certificate.ensure(file)
    assert certificate.ensure(file) != first
    assert x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc > datetime.datetime.now(
        datetime.UTC
    ) + datetime.timedelta(days=800)


@pytest.mark.parametrize("kept", [0, 100, -40])
def test_half_a_file_is_made_anew(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "certificate.pem"
    first = certificate.ensure(file)
    file.write_bytes(file.read_bytes()[:kept])
    assert certificate.ensure(file) != first


def test_what_is_told_is_what_is_served(appliance: Appliance) -> None:
    assert appliance.request("GET", "/certificate").status_code == 503, "it is not there yet"
    fingerprint = certificate.ensure(appliance.configuration.own_certificate)
    told = appliance.request("GET", "/certificate", role="viewer").json
    assert told is not None and told["fingerprint"] == fingerprint and told["own"]
    assert {"localhost", "127.0.0.1"} <= set(told["names"])
    assert told["subject"] == told["issuer"] and told["not_before"] < told["not_after"]
    assert "PRIVATE" not in str(told)
