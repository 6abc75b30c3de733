# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted datasets: created and stored next to the engine, loaded after an import, exported until they are confirmed.

Only `export_key` returns a key. Each key has a file in a directory of root, sealed with a master key (Fernet: AES-128-CBC and
HMAC-SHA256). A user property of the encryption root has the key's identifier; the file system is created after its key is on
stable storage.
"""

import contextlib
import hmac
import json
import os
import re
import threading
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from appliance.zfs import errors, stable
from appliance.zfs.engine import KEY_BYTES, ZfsEngine

PROPERTY = "zvaai:key"
"""User property with the identifier of an encryption root's key."""
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    identifier: str
    made_at: int
    exported_at: int | None
    confirmed_at: int | None
    """When a user confirmed a copy; the key is not exported again."""


class Keys(ABC):
    """Keys of encryption roots. Any method raises the engine's errors."""

    @abstractmethod
    def create_encryption_root(self, name: str, identifier: str) -> None:
        """Creates a key with this identifier and an unmounted aes-256-gcm file system, unless both exist.

        Raises DatasetExists for another dataset of the name.
        """

    @abstractmethod
    def load_stored_key(self, name: str) -> None:
        """Loads the key of an encryption root; no error if it is loaded. Raises NoStoredKey, WrongKey, NotEncryptionRoot."""

    @abstractmethod
    def export_key(self, name: str) -> str:
        """The key in hexadecimal digits, until it is confirmed. Raises NoStoredKey, KeyConfirmed."""

    @abstractmethod
    def confirm_key(self, name: str, key: bytes) -> None:
        """Confirms that the user has a copy of the key, so that it is not exported again.

        Raises NoStoredKey, WrongKey, NotEncryptionRoot.
        """

    @abstractmethod
    def store_key(self, name: str, key: bytes) -> None:
        """Loads and stores the key of a root from another server. Replaces no other key.

        Raises WrongKey, NotEncryptionRoot.
        """

    @abstractmethod
    def stored_keys(self) -> list[StoredKey]:
        """All stored keys, by identifier."""


class StoredKeys(Keys):
    """Keys in a directory, for an engine in this process. The file `master` there is created at the first use."""

    def __init__(self, engine: ZfsEngine, directory: Path) -> None:
        self._engine, self._directory = engine, directory
        self._master = directory / "master"
        self._lock = threading.Lock()

    def create_encryption_root(self, name: str, identifier: str) -> None:
        with self._lock:
            if not self._file(identifier).exists():
                stored = {"key": self._sealed(os.urandom(KEY_BYTES)), "made_at": int(time.time())}
                self._write(self._file(identifier), json.dumps(stored).encode())
            key = self._key(name, identifier)
        properties = {"canmount": "off", "mountpoint": "none", PROPERTY: identifier}
        try:
            self._engine.create_filesystem(name, properties=properties, key=key)
        except errors.DatasetExists:
            if self._identifier(name) != identifier:
                raise

    def load_stored_key(self, name: str) -> None:
        identifier = self._identifier(name)
        with self._lock:
            key = self._key(name, identifier)
        with contextlib.suppress(errors.KeyLoaded):
            self._engine.load_key(name, key)

    def export_key(self, name: str) -> str:
        """The time of the export is on stable storage before the key is returned."""
        identifier = self._identifier(name)
        with self._lock:
            key, stored = self._key(name, identifier), self._read(name, identifier)
            if stored.get("confirmed_at") is not None:
                raise errors.KeyConfirmed(name)
            self._write(self._file(identifier), json.dumps({**stored, "exported_at": int(time.time())}).encode())
        return key.hex()

    def confirm_key(self, name: str, key: bytes) -> None:
        identifier, now = self._identifier(name), int(time.time())
        with self._lock:
            if not hmac.compare_digest(self._key(name, identifier), key):
                raise errors.WrongKey(name)
            stored = {"exported_at": now, **self._read(name, identifier), "confirmed_at": now}
            self._write(self._file(identifier), json.dumps(stored).encode())

    def store_key(self, name: str, key: bytes) -> None:
        """Stores only a key that opened the dataset. The user has a copy, so it is not exported again.

        A raw replica has the identifier of the original's key. If the keys differ, the replica gets a new identifier.
        """
        if len(key) != KEY_BYTES:
            raise errors.WrongKey(name)
        try:
            identifier = self._identifier(name)
        except errors.NoStoredKey:  # a replica that was sent without properties
            identifier = str(uuid.uuid4())
        with contextlib.suppress(errors.KeyLoaded):  # the same key
            self._engine.load_key(name, key)
        now = int(time.time())
        with self._lock:
            if self._file(identifier).exists():
                if self._key(name, identifier) == key:
                    return
                identifier = str(uuid.uuid4())
            # The property first: after a kill in between, the next attempt writes this file.
            self._engine.set_properties(name, {PROPERTY: identifier})
            stored = {"key": self._sealed(key), "made_at": now, "exported_at": now, "confirmed_at": now}
            self._write(self._file(identifier), json.dumps(stored).encode())

    def stored_keys(self) -> list[StoredKey]:
        keys = []
        with self._lock:
            for file in sorted(self._directory.glob("*.key")):
                stored = json.loads(file.read_text())
                exported_at, confirmed_at = stored.get("exported_at"), stored.get("confirmed_at")
                keys.append(
                    StoredKey(identifier=file.stem, made_at=stored["made_at"], exported_at=exported_at, confirmed_at=confirmed_at)
                )
        return keys

    def _identifier(self, name: str) -> str:
        root = self._engine.filesystem(name)
        if root.encryption is None or root.encryption.root != name:
            raise errors.NotEncryptionRoot(name, root.encryption.root if root.encryption else "")
        identifier = root.properties.get(PROPERTY)
        if identifier is None or not _IDENTIFIER.fullmatch(identifier.value):
            raise errors.NoStoredKey(name)
        return identifier.value

    def _file(self, identifier: str) -> Path:
        return self._directory / f"{identifier}.key"

    def _read(self, name: str, identifier: str) -> dict[str, Any]:
        try:
            stored: dict[str, Any] = json.loads(self._file(identifier).read_text())
        except FileNotFoundError:
            raise errors.NoStoredKey(name) from None
        return stored

    def _key(self, name: str, identifier: str) -> bytes:
        sealed = str(self._read(name, identifier)["key"])
        try:
            return self._fernet().decrypt(sealed.encode())
        except InvalidToken:
            raise errors.UnexpectedFailure("keys", f"{self._master} is not the key that {identifier} was sealed with") from None

    def _sealed(self, key: bytes) -> str:
        return self._fernet().encrypt(key).decode()

    def _fernet(self) -> Fernet:
        if not self._master.exists():
            if any(self._directory.glob("*.key")):  # a new master key could open none of these keys
                raise errors.UnexpectedFailure("keys", f"{self._master} does not exist: restore it")
            self._write(self._master, Fernet.generate_key())
        return Fernet(self._master.read_bytes().strip())

    def _write(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stable.replace(file, content)
