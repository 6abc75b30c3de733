# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of logins."""

import pytest

from appliance.login import directory, oidc


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider on a busy machine has time to answer."""
    monkeypatch.setattr(directory, "CONNECT_S", 60)
    monkeypatch.setattr(directory, "ANSWER_S", 60)
    monkeypatch.setattr(directory, "TOTAL_S", 60)
    monkeypatch.setattr(oidc, "ANSWER_S", 60)
