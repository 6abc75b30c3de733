# SPDX-License-Identifier: Apache-2.0
"""Passwords and sealed secrets."""

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.domain.secrets import Seal, SealedError, hash_password, password_is


def test_passwords_are_hashed_by_argon2id_at_full_cost() -> None:
    """In a separate process: the tests' other passwords are cheap."""
    program = (
        "from appliance.domain import secrets;"
        "print(secrets.hash_password('a password'), secrets._HASHER.check_needs_rehash(secrets._NOBODY))"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    stored, nobody_differs = printed.split()
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert nobody_differs == "False", "else the time of a failed login shows whether the user exists"


def test_a_password() -> None:
    stored = hash_password("one")
    assert (
        password_is(stored, "one")
        and not password_is(stored, "other")
        and not password_is(None, "one")
        and not password_is("", "one")
    )


def test_sealed_secrets_need_their_key(tmp_path: Path) -> None:
    sealed = Seal(tmp_path / "key").seal("a secret")
    assert "a secret" not in sealed and Seal(tmp_path / "key").open(sealed) == "a secret"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(SealedError):
        Seal(tmp_path / "other").open(sealed)
