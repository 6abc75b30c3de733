# SPDX-License-Identifier: Apache-2.0
"""The installation's configuration as one file: what is in it, how it is checked, sealed and read again.

In it is what an admin has made and no pool has: users (without sessions and API tokens), hosts and their groups, how datastores
are shown to them, by the datastores' identities, schedules, receivers, settings. What identifies a datastore lies with its data.
Secrets are sealed with a passphrase: scrypt (RFC 7914), AES-256-GCM, over the checksum of the rest, so that nobody without it can
change either.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import (
    Export,
    ExportGroup,
    Host,
    HostGroup,
    HostInitiator,
    Presentation,
    PresentationGroup,
    Receiver,
    Schedule,
    Setting,
    User,
)
from appliance.domain.access import USERS
from appliance.domain.datastores import LUNS
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.exports import CLIENTS, SQUASHES, VERSIONS
from appliance.domain.hosts import GROUPS, HOSTS, OFFLOADS
from appliance.domain.identity import EXPORTS
from appliance.domain.receivers import RECEIVERS, RECIPIENTS, SEVERITIES, url_of
from appliance.domain.schedules import SCHEDULES
from appliance.domain.secrets import Seal, SealedError

FORMAT, VERSION = "zvaai-configuration", 1
PASSPHRASE_SHORTEST = 12
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 16, 8, 1
"""64 MiB and a quarter of a second."""
_AT_ONCE = threading.BoundedSemaphore(1)
_LARGEST = 32 << 20

_Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.@-]*$")]
_Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-z-]+$")]
_Time = Annotated[float, Field(ge=0, le=1e11)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, from_attributes=True)


class UserRow(_Row):
    """A user; the hash of the password is among the secrets."""

    id: _Id
    name: _Name
    role: Literal["viewer", "operator", "admin"]
    disabled: bool
    created_at: _Time


class GroupRow(_Row):
    """A host group."""

    id: _Id
    name: _Name
    disabled: Annotated[list[Literal[OFFLOADS]], Field(max_length=len(OFFLOADS))]  # type: ignore[valid-type]
    created_at: _Time


class HostRow(_Row):
    """A host; its CHAP secret is among the secrets."""

    id: _Id
    name: _Name
    group_id: _Id | None
    iqns: Annotated[list[Annotated[str, Field(max_length=223)]], Field(max_length=64)]
    addresses: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=64)]
    chap_name: Annotated[str, Field(max_length=255)] | None
    created_at: _Time


class PresentationRow(_Row):
    """A LUN number, and who sees it."""

    datastore: _Id
    lun: Annotated[int, Field(ge=0, lt=LUNS)]
    groups: list[_Id]


class ExportRow(_Row):
    """An export, and who may mount it."""

    datastore: _Id
    number: Annotated[int, Field(ge=1, le=EXPORTS)]
    share: Annotated[str, Field(max_length=255, pattern=r"^/[A-Za-z0-9_./-]+$")]
    versions: Annotated[list[Literal[VERSIONS]], Field(min_length=1, max_length=len(VERSIONS))]  # type: ignore[valid-type]
    squash: Literal[SQUASHES]  # type: ignore[valid-type]
    clients: Annotated[list[str], Field(max_length=CLIENTS)]
    groups: list[_Id]


class ScheduleRow(_Row):
    """A schedule of snapshots or scrubs."""

    id: _Id
    name: _Name
    kind: Literal["snapshot", "scrub"]
    datastores: Annotated[list[_Id], Field(max_length=256)]
    pool: Annotated[str, Field(max_length=255)] | None
    every_minutes: Annotated[int, Field(ge=5, le=527040)]
    at: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    time_zone: Annotated[str, Field(max_length=64)]
    keep: Annotated[int, Field(ge=1, le=1000)]
    hourly: Annotated[int, Field(ge=0, le=1000)]
    daily: Annotated[int, Field(ge=0, le=1000)]
    weekly: Annotated[int, Field(ge=0, le=1000)]
    monthly: Annotated[int, Field(ge=0, le=1000)]
    protect_days: Annotated[int, Field(ge=0, le=3650)]
    enabled: bool
    created_at: _Time


class ReceiverRow(_Row):
    """A receiver of alerts; its address and its secret are among the secrets."""

    id: _Id
    name: _Name
    severity: Literal[SEVERITIES]  # type: ignore[valid-type]
    certificate: Annotated[str, Field(max_length=65536)] | None
    enabled: bool
    sender: Annotated[str, Field(max_length=320)]
    recipients: Annotated[list[Annotated[str, Field(max_length=320)]], Field(max_length=RECIPIENTS)]
    user: Annotated[str, Field(max_length=256)] | None
    created_at: _Time


class IscsiSetting(_Row):
    """Whether hosts have to prove themselves."""

    chap_required: bool


class Content(_Row):
    """All but the secrets."""

    iscsi: IscsiSetting
    users: Annotated[list[UserRow], Field(max_length=USERS)]
    host_groups: Annotated[list[GroupRow], Field(max_length=GROUPS)]
    hosts: Annotated[list[HostRow], Field(max_length=HOSTS)]
    presentations: Annotated[list[PresentationRow], Field(max_length=LUNS)]
    exports: Annotated[list[ExportRow], Field(max_length=EXPORTS)]
    schedules: Annotated[list[ScheduleRow], Field(max_length=SCHEDULES)]
    receivers: Annotated[list[ReceiverRow], Field(max_length=RECEIVERS)]


class ReceiverSecrets(_Row):
    """Of a receiver."""

    url: Annotated[str, Field(max_length=2048)]
    secret: Annotated[str, Field(max_length=1024)]


class Secrets(_Row):
    """By identifiers."""

    password_hashes: dict[str, Annotated[str, Field(max_length=512, pattern=r"^\$argon2id\$")]]
    chap: dict[str, Annotated[str, Field(max_length=255)]]
    receivers: dict[str, ReceiverSecrets]


class _Sealed(_Row):
    kdf: Literal["scrypt"]
    salt: Annotated[str, Field(max_length=64)]
    nonce: Annotated[str, Field(max_length=64)]
    data: str


class _Document(_Row):
    format: Literal[FORMAT]  # type: ignore[valid-type]
    version: int
    appliance: Annotated[str, Field(max_length=64)]
    created_at: _Time
    content: str
    checksum: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sealed: _Sealed


def collect(session: Session, seal: Seal) -> tuple[Content, Secrets]:
    """What there is. Raises ConflictError when a secret can't be had: a file without it would be no backup."""
    users = session.scalars(select(User)).all()
    hosts = session.scalars(select(Host).where(Host.chap_secret.is_not(None))).all()
    rows = session.scalars(select(Receiver)).all()
    try:
        chap = {host.id: seal.open(host.chap_secret) for host in hosts if host.chap_secret is not None}
        secrets = {
            receiver.id: ReceiverSecrets(url=url_of(seal, receiver), secret=seal.open(receiver.secret)) for receiver in rows
        }
    except SealedError as error:
        raise ConflictError(f"a secret can't be had, so this would be no backup: {error}") from error
    hashes = {user.id: user.password_hash for user in users}
    return content(session), Secrets(password_hashes=hashes, chap=chap, receivers=secrets)


def content(session: Session) -> Content:
    """All that is no secret."""

    def groups_of(table: type[PresentationGroup] | type[ExportGroup]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        rows: Iterable[Any] = session.scalars(select(table).order_by(table.datastore, table.group_id))
        for row in rows:
            found.setdefault(row.datastore, []).append(row.group_id)
        return found

    setting = session.get(Setting, "iscsi")
    luns, exports = groups_of(PresentationGroup), groups_of(ExportGroup)
    names: dict[str, list[str]] = {}
    for one in session.scalars(select(HostInitiator).order_by(HostInitiator.iqn)):
        names.setdefault(one.host_id, []).append(one.iqn)
    hosts = session.scalars(select(Host).order_by(Host.id)).all()
    rows = session.scalars(select(Receiver).order_by(Receiver.id)).all()
    users = session.scalars(select(User).order_by(User.id)).all()

    def columns(row: Any, kind: type[_Row], **more: Any) -> Any:
        return {name: getattr(row, name) for name in kind.model_fields if name not in more} | more

    return Content.model_validate(
        {
            "iscsi": setting.value if setting else {"chap_required": False},
            "users": [columns(row, UserRow) for row in users],
            "host_groups": [columns(row, GroupRow) for row in session.scalars(select(HostGroup).order_by(HostGroup.id))],
            "hosts": [columns(row, HostRow, iqns=names.get(row.id, [])) for row in hosts],
            "presentations": [
                columns(row, PresentationRow, groups=luns.get(row.datastore, []))
                for row in session.scalars(select(Presentation).order_by(Presentation.lun))
            ],
            "exports": [
                columns(row, ExportRow, groups=exports.get(row.datastore, []))
                for row in session.scalars(select(Export).order_by(Export.number))
            ],
            "schedules": [columns(row, ScheduleRow) for row in session.scalars(select(Schedule).order_by(Schedule.id))],
            "receivers": [columns(row, ReceiverRow) for row in rows],
        }
    )


def write(content: Content, secrets: Secrets, passphrase: str, appliance: str) -> dict[str, Any]:
    """The document of a file."""
    document: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "appliance": appliance, "created_at": time.time(),
        "content": base64.b64encode(gzip.compress(content.model_dump_json().encode(), mtime=0)).decode(),
    }  # fmt: skip
    document["checksum"] = _checksum(document)
    salt, nonce = os.urandom(16), os.urandom(12)
    data = AESGCM(_key(passphrase, salt)).encrypt(nonce, gzip.compress(secrets.model_dump_json().encode()), _bound(document))
    parts = {"salt": salt, "nonce": nonce, "data": data}
    document["sealed"] = {"kdf": "scrypt"} | {name: base64.b64encode(part).decode() for name, part in parts.items()}
    return document


def read(text: str, passphrase: str) -> tuple[Content, Secrets]:
    """What is in a file, checked whole by its form. Raises InvalidError."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidError("backup", f"not a backup of a configuration: {error}", "the file as it was written") from error
    document = _Document.model_validate(parsed) if isinstance(parsed, dict) and _is_document(parsed) else None
    if document is None:
        raise InvalidError("backup", "not a backup of a configuration", "the file as it was written")
    if document.version != VERSION:
        raise InvalidError("backup", f"it is of version {document.version}", f"version {VERSION}: restore it with its own")
    plain = document.model_dump()
    if _checksum(plain) != document.checksum:
        raise InvalidError("backup", "it is damaged: its checksum is another one", "the file as it was written")
    try:
        salt, nonce, data = (base64.b64decode(part, validate=True) for part in (document.sealed.salt, document.sealed.nonce,
                                                                                document.sealed.data))  # fmt: skip
        opened = AESGCM(_key(passphrase, salt)).decrypt(nonce, data, _bound(plain))
    except InvalidTag as error:
        raise InvalidError("passphrase", "it is not the one the file was sealed with, or the file was changed") from error
    except ValueError as error:
        raise InvalidError("backup", f"its sealed part is damaged: {error}", "the file as it was written") from error
    try:
        content = Content.model_validate_json(unpacked(base64.b64decode(document.content, validate=True)))
        secrets = Secrets.model_validate_json(unpacked(opened))
    except ValidationError as error:
        places = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False)[:5])
        raise InvalidError("backup", places, "what a backup has") from error
    except (ValueError, zlib.error, OSError, EOFError) as error:
        raise InvalidError("backup", f"it is damaged: {error}", "the file as it was written") from error
    return content, secrets


def _is_document(parsed: dict[str, Any]) -> bool:
    try:
        _Document.model_validate(parsed)
    except ValidationError:
        return False
    return True


def _checksum(document: dict[str, Any]) -> str:
    """SHA-256 of all but itself and what is sealed."""
    covered = {name: document[name] for name in ("format", "version", "appliance", "created_at", "content")}
    return hashlib.sha256(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _bound(document: dict[str, Any]) -> bytes:
    """What is sealed holds for this content only."""
    return f"{FORMAT} {document['checksum']}".encode()


def _key(passphrase: str, salt: bytes) -> bytes:
    with _AT_ONCE:
        return Scrypt(salt=salt, length=32, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P).derive(passphrase.encode())


def unpacked(packed: bytes) -> bytes:
    """What gzip has packed, bounded. Raises ValueError, zlib.error."""
    unpacker = zlib.decompressobj(wbits=31)
    found = unpacker.decompress(packed, _LARGEST)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("too long, or cut off")
    return found
