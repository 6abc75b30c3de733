# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted datasets: made and kept by who holds the engine, loaded where a pool comes, told until somebody has it.

A key is made here, never leaves but by `export_kept_key`, and lies in a file of its own below a directory of root's, sealed with
a master key (Fernet: AES-128-CBC and HMAC-SHA256). The encryption root names its key by a user property; the file system is made
after its key is on stable storage.
"""

from __future__ import annotations

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

from appliance.zfs import stable
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import (
    DatasetExists,
    KeyLoaded,
    KeyToldAlready,
    NoKeptKey,
    NotEncryptionRoot,
    UnexpectedFailure,
    WrongKey,
)
from appliance.zfs.model import NewEncryption

PROPERTY = "zvaai:key"
"""Which key an encryption root has."""
KEY_BYTES = 32
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptKey:
    """A key that is here."""

    identifier: str
    made_at: int
    told_at: int | None
    """When it was exported last."""
    confirmed_at: int | None
    """When somebody who has it has shown that; it is not exported again."""


class Keys(ABC):
    """Keys of encryption roots. Any method raises what the engine's do."""

    @abstractmethod
    def create_encryption_root(self, name: str, identifier: str) -> None:
        """Makes a key of this identifier and with it a file system that is mounted nowhere, aes-256-gcm. Again it does nothing.

        Raises DatasetExists for another dataset of the name.
        """

    @abstractmethod
    def load_kept_key(self, name: str) -> None:
        """Loads the key of an encryption root; loaded already is well. Raises NoKeptKey, WrongKey, NotEncryptionRoot."""

    @abstractmethod
    def export_kept_key(self, name: str) -> str:
        """The key in hexadecimal digits, until it is confirmed. Raises NoKeptKey, KeyToldAlready."""

    @abstractmethod
    def confirm_kept_key(self, name: str, key: bytes) -> None:
        """Somebody has the key elsewhere, and shows it: it is not told again. Raises NoKeptKey, WrongKey, NotEncryptionRoot."""

    @abstractmethod
    def keep_key(self, name: str, key: bytes) -> None:
        """Keeps the key of a root that came with its pool, and loads it; no other kept key is lost by it.

        Raises WrongKey, KeyLoaded, NotEncryptionRoot.
        """

    @abstractmethod
    def kept_keys(self) -> list[KeptKey]:
        """All that are here, by identifier."""


class KeptKeys(Keys):
    """In a directory, for an engine in the same process. `master` is the file with the master key, made at the first use."""

    def __init__(self, engine: ZfsEngine, directory: Path, master: Path | None = None) -> None:
        self._engine, self._directory = engine, directory
        self._master = master or directory / "master"
        self._lock = threading.Lock()

    def create_encryption_root(self, name: str, identifier: str) -> None:
        """See Keys."""
        with self._lock:
            if not self._file(identifier).exists():
                kept = {"key": self._sealed(os.urandom(KEY_BYTES)), "made_at": int(time.time())}
                self._write(self._file(identifier), json.dumps(kept).encode())
            key = self._key(name, identifier)
        properties = {"canmount": "off", "mountpoint": "none", PROPERTY: identifier}
        try:
            self._engine.create_filesystem(name, properties=properties, encryption=NewEncryption(key=key))
        except DatasetExists:
            if self._identifier(name) != identifier:
                raise

    def load_kept_key(self, name: str) -> None:
        """See Keys."""
        identifier = self._identifier(name)
        with self._lock:
            key = self._key(name, identifier)
        try:
            self._engine.load_key(name, key)
        except KeyLoaded:
            return

    def export_kept_key(self, name: str) -> str:
        """See Keys: that it was told is on stable storage before it is."""
        identifier = self._identifier(name)
        with self._lock:
            key, kept = self._key(name, identifier), self._read(name, identifier)
            if kept.get("confirmed_at") is not None:
                raise KeyToldAlready(name)
            self._write(self._file(identifier), json.dumps({**kept, "told_at": int(time.time())}).encode())
        return key.hex()

    def confirm_kept_key(self, name: str, key: bytes) -> None:
        """See Keys."""
        identifier, now = self._identifier(name), int(time.time())
        with self._lock:
            if not hmac.compare_digest(self._key(name, identifier), key):
                raise WrongKey(name)
            kept = {"told_at": now, **self._read(name, identifier), "confirmed_at": now}
            self._write(self._file(identifier), json.dumps(kept).encode())

    def keep_key(self, name: str, key: bytes) -> None:
        """See Keys: only what has opened the dataset is kept. Who brought it has it: it is not told again.

        A raw replica names the key of what it was made of, and has another one since either changed it: it gets an identifier
        of its own.
        """
        if len(key) != KEY_BYTES:
            raise WrongKey(name)
        identifier = self._identifier(name)
        try:
            self._engine.load_key(name, key)
        except KeyLoaded:
            # A call that was killed had loaded the key, and written it: only what opens the dataset is written.
            with self._lock:
                written = self._identifier_of(key)
            if written is None:
                raise
            self._engine.set_properties(name, {PROPERTY: written})
            return
        now = int(time.time())
        with self._lock:
            if self._file(identifier).exists():
                if self._key(name, identifier) == key:
                    return
                identifier = str(uuid.uuid4())
            kept = {"key": self._sealed(key), "made_at": now, "told_at": now, "confirmed_at": now}
            self._write(self._file(identifier), json.dumps(kept).encode())
            self._engine.set_properties(name, {PROPERTY: identifier})

    def kept_keys(self) -> list[KeptKey]:
        """See Keys."""
        found = []
        with self._lock:
            for file in sorted(self._directory.glob("*.key")):
                kept = json.loads(file.read_text())
                told_at, confirmed_at = kept.get("told_at"), kept.get("confirmed_at")
                found.append(KeptKey(identifier=file.stem, made_at=kept["made_at"], told_at=told_at, confirmed_at=confirmed_at))
        return found

    def _identifier_of(self, key: bytes) -> str | None:
        """Of a key that is kept."""
        for file in sorted(self._directory.glob("*.key")):
            sealed = str(json.loads(file.read_text())["key"])
            if hmac.compare_digest(self._fernet().decrypt(sealed.encode()), key):
                return file.stem
        return None

    def _identifier(self, name: str) -> str:
        found = self._engine.filesystem(name)
        if found.encryption is None or found.encryption.root != name:
            raise NotEncryptionRoot(name, found.encryption.root if found.encryption else "")
        told = found.properties.get(PROPERTY)
        if told is None or not _IDENTIFIER.fullmatch(told.value):
            raise NoKeptKey(name)
        return told.value

    def _file(self, identifier: str) -> Path:
        return self._directory / f"{identifier}.key"

    def _read(self, name: str, identifier: str) -> dict[str, Any]:
        try:
            kept: dict[str, Any] = json.loads(self._file(identifier).read_text())
        except FileNotFoundError:
            raise NoKeptKey(name) from None
        return kept

    def _key(self, name: str, identifier: str) -> bytes:
        sealed = str(self._read(name, identifier)["key"])
        try:
            return self._fernet().decrypt(sealed.encode())
        except InvalidToken:
            raise UnexpectedFailure("keys", f"{self._master} is not the key that {identifier} was sealed with") from None

    def _sealed(self, key: bytes) -> str:
        return self._fernet().encrypt(key).decode()

    def _fernet(self) -> Fernet:
        if not self._master.exists():
            if any(self._directory.glob("*.key")):  # a new one would open none of them
                raise UnexpectedFailure("keys", f"{self._master} is not there: put it back")
            self._write(self._master, Fernet.generate_key())
        return Fernet(self._master.read_bytes().strip())

    def _write(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stable.replace(file, content)
