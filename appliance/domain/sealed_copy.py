# SPDX-License-Identifier: Apache-2.0
"""Sealed copies of the configuration, on pools and as files of an admin: what is in one, and the keys that open it.

    header   installation, generation, hash, time: readable by everybody, so that copies can be compared without a key
    keys     the key of the copy, sealed once with the appliance's own key and once with the recovery key
    sealed   the configuration (domain.configuration) by AES-256-GCM, bound to the header

The recovery key has 160 random bits. HKDF with SHA-256 (RFC 5869) makes an AES key of it, so it needs no slow hash.
"""

import base64
import gzip
import hashlib
import hmac
import json
import os
import secrets as random
import time
import zlib
from dataclasses import dataclass, field
from typing import Annotated

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.orm import Session

from appliance.database.models import Installation
from appliance.domain.configuration import Content, collect
from appliance.domain.errors import InvalidError
from appliance.domain.secrets import Seal, SealedError

VERSION = 1
LARGEST = 3 << 20
"""Bytes of a copy. 1,000 hosts and 1,000 datastores take some 100 KiB."""
_LARGEST_UNPACKED = 32 << 20
_RECOVERY_BYTES = 20
_NONCE_BYTES = 12


class Header(BaseModel):
    """The part of a copy that is readable without a key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    version: int
    installation: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
    generation: Annotated[int, Field(ge=0, le=1 << 60)]
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    written_at: Annotated[float, Field(ge=0, le=1e11)]
    """Seconds since 1970, by the clock of the writing server."""


class Copy(BaseModel):
    """A sealed copy of the configuration. Stored unchanged, as one file: the recovery key opens it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    header: Header
    appliance_seal: str
    recovery_seal: str
    sealed: str


def installation(session: Session) -> Installation:
    return session.get_one(Installation, 1)


def new_recovery_key(session: Session, seal: Seal) -> str:
    """Makes a new key for later copies, and the recovery key that opens them: 8 groups of 4 characters, stored nowhere."""
    row, key, recovery = installation(session), os.urandom(32), random.token_bytes(_RECOVERY_BYTES)
    row.sealed_key = seal.seal(base64.b64encode(key).decode())
    row.recovery_seal = _sealed(_key_of(recovery), key, row.id)
    row.generation = Installation.generation + 1  # by the database: triggers count too
    text = base64.b32encode(recovery).decode()
    return "-".join(text[place : place + 4] for place in range(0, len(text), 4))


def parse(text: str) -> Copy | None:
    try:
        copy = Copy.model_validate_json(text[: LARGEST + 1])
    except ValidationError:
        return None
    return copy if copy.header.version == VERSION else None


def write(session: Session, seal: Seal) -> Copy | None:
    """A copy of the present configuration; None while no key exists. Raises ConflictError, SealedError for a lost secret."""
    row = installation(session)
    if row.sealed_key is None or row.recovery_seal is None:
        return None
    key = base64.b64decode(seal.open(row.sealed_key))
    data = json.dumps(collect(session, seal), sort_keys=True).encode()
    # With the key: a plain hash would let every reader of the pool test guesses of the sealed content.
    digest = hmac.new(key, data, hashlib.sha256).hexdigest()
    header = Header(version=VERSION, installation=row.id, generation=row.generation, hash=digest, written_at=time.time())
    sealed = _sealed(key, gzip.compress(data, mtime=0), header.model_dump_json())
    return Copy(header=header, appliance_seal=row.sealed_key, recovery_seal=row.recovery_seal, sealed=sealed)


@dataclass(frozen=True)
class Opened:
    content: Content = field(repr=False)
    key: bytes = field(repr=False)

    def sealed_key(self, seal: Seal) -> str:
        return seal.seal(base64.b64encode(self.key).decode())


def open_copy(copy: Copy, seal: Seal, recovery_key: str | None) -> Opened:
    """Opens a copy with the recovery key if there is one, else with the appliance's key. Raises InvalidError."""
    try:
        if recovery_key is not None:
            key = _opened(_key_of(_bytes_of(recovery_key)), copy.recovery_seal, copy.header.installation)
        else:
            key = base64.b64decode(seal.open(copy.appliance_seal))
        plain = _unpacked(_opened(key, copy.sealed, copy.header.model_dump_json()))
        if not hmac.compare_digest(hmac.new(key, plain, hashlib.sha256).hexdigest(), copy.header.hash):
            raise InvalidError("copy", "it is damaged: its hash is another one", "a copy on another pool")
        return Opened(json.loads(plain), key)
    except (SealedError, InvalidTag) as error:
        hint = "the appliance's own key does not open it (zvaai recover: add --recovery-key)"
        why = "not the recovery key of the copy" if recovery_key is not None else hint
        raise InvalidError("recovery_key", why, "the recovery key that was shown at the first start") from error
    except (ValueError, zlib.error) as error:
        raise InvalidError("copy", f"it is damaged: {error}"[:300], "a copy on another pool") from error


def _bytes_of(recovery_key: str) -> bytes:
    text = recovery_key.upper().replace("-", "").replace(" ", "")
    try:
        secret = base64.b32decode(text)
    except ValueError as error:
        raise InvalidError("recovery_key", "not a recovery key", "8 groups of 4 letters and digits") from error
    if len(secret) != _RECOVERY_BYTES:
        raise InvalidError("recovery_key", "not a recovery key", "8 groups of 4 letters and digits")
    return secret


def _key_of(recovery: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"zvaai recovery key").derive(recovery)


def _sealed(key: bytes, data: bytes, bound: str) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data, bound.encode())).decode()


def _opened(key: bytes, text: str, bound: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound.encode())


def _unpacked(packed: bytes) -> bytes:
    """Unpacks gzip data with a size limit. Raises ValueError, zlib.error."""
    unpacker = zlib.decompressobj(wbits=31)
    data = unpacker.decompress(packed, _LARGEST_UNPACKED)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("too long, or cut off")
    return data
