# SPDX-License-Identifier: Apache-2.0
"""Passwords as argon2id, random tokens as hashes, and secrets that must be readable sealed with the installation's key."""

import hashlib
import hmac
import os
import secrets
import threading
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHash, VerificationError
from cryptography.fernet import Fernet, InvalidToken

# RFC 9106, 4: the second recommended option, 64 MiB.
_HASHER = PasswordHasher(time_cost=3, memory_cost=65536, parallelism=4)
# So many at once, or a flood of logins takes the memory.
_AT_ONCE = threading.BoundedSemaphore(2)
# Verified at the same cost. A real one takes 64 MiB and a tenth of a second at each start of a process.
_NOBODY = f"$argon2id$v=19$m=65536,t=3,p=4${'A' * 22}${'A' * 22}"


class SealedError(Exception):
    """A sealed secret cannot be opened: the key is a different one."""


def hash_password(password: str) -> str:
    """By argon2id, as a PHC string."""
    with _AT_ONCE:
        return str(_HASHER.hash(password))


def password_is(password_hash: str | None, password: str) -> bool:
    """Whether it is; without a hash never, in the same time."""
    with _AT_ONCE:
        try:
            return bool(_HASHER.verify(password_hash or _NOBODY, password)) and password_hash is not None
        except (VerificationError, InvalidHash):
            return False


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Hash of a random token for storage: it needs no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


class Seal:
    """Seals secrets with a key from a file, which it makes at the first use."""

    def __init__(self, key: Path) -> None:
        self._path = key
        self._fernet: Fernet | None = None
        self._lock = threading.Lock()

    def _open(self, make: bool) -> Fernet:
        with self._lock:
            if self._fernet is None:
                if not make and not self._path.exists():
                    raise SealedError(f"{self._path} does not exist: restore it, or set the secret again")
                new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{threading.get_ident()}")
                descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(Fernet.generate_key())
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(new, self._path)  # the first of several processes makes it
                except FileExistsError:
                    pass
                finally:
                    new.unlink()
                self._fernet = Fernet(self._path.read_bytes())
            return self._fernet

    def digest(self, data: bytes) -> str:
        """A keyed hash: without the key, guesses cannot be tested."""
        self._open(make=True)
        return hmac.new(self._path.read_bytes(), data, hashlib.sha256).hexdigest()

    def seal(self, secret: str) -> str:
        return self._open(make=True).encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """The secret again. Raises SealedError."""
        try:
            return self._open(make=False).decrypt(sealed.encode()).decode()
        except InvalidToken as error:
            raise SealedError(f"{self._path} is not the key this secret was sealed with") from error
