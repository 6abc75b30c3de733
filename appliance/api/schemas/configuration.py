# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Model, Password

Passphrase = Annotated[str, Field(min_length=12, max_length=256)]


class BackupCreate(Model):
    """What the secrets in it are sealed with: nobody can restore it without."""

    passphrase: Passphrase
    password: Password
    """The caller's own."""


class SealedResponse(Answer):
    """Secrets, by AES-256-GCM with a key of the passphrase."""

    kdf: Literal["scrypt"]
    salt: str
    nonce: str
    data: str


class BackupResponse(Answer):
    """To be kept as it is, as one file."""

    format: Literal["zvaai-configuration"]
    version: int
    appliance: str
    created_at: float
    content: str
    """All but the secrets: JSON, by gzip and base64."""
    checksum: str
    """SHA-256 of all the above."""
    sealed: SealedResponse


class RestoreCreate(Model):
    """The text of such a file."""

    backup: Annotated[str, Field(min_length=1, max_length=1000000)]
    passphrase: Passphrase
    dry_run: bool = True
    """Only returns what would be changed."""
    force: bool = False
    """Also where hosts lose datastores that they use."""


class RestoreResponse(Answer):
    """What was changed, or would be."""

    changes: list[str]
    applied: bool


class ConfigurationCopy(Answer):
    """A copy of the configuration on a pool, sealed; the newest of its installation there."""

    pool: str
    installation: str
    generation: int
    hash: str
    written_at: float
    own: bool
    """Of this appliance's installation."""
    known: bool
    """This appliance's database has written it, or an admin has decided since."""


class RecoveryResponse(Answer):
    """Recovery mode: the database is not certain to be the newest. Hosts are served as before; nothing is changed."""

    active: bool
    reason: str | None
    since: float | None
    installation: str
    generation: int
    """Of the configuration in the database: each change increases it."""
    has_key: bool
    """Whether copies are written: after the first admin was made, or a recovery key."""
    suggested: str | None
    """The pool whose copy can be taken; null where pools disagree."""
    copies: list[ConfigurationCopy]


class RecoverUpdate(Model):
    """The admin's decision: a pool, or `keep`."""

    from_pool: Annotated[str | None, Field(min_length=1, max_length=255)] = None
    keep: bool = False
    """The database is right."""
    recovery_key: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    """Needed where the appliance's own key is not the one that sealed the copy."""


class RecoveryKeyResponse(Answer):
    """Shown once."""

    secret: str
