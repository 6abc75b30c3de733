# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration."""

from typing import Annotated

from pydantic import Field

from appliance.api.types import Answer
from appliance.domain.fields import Model, Password


class BackupCreate(Model):
    """The caller's own password."""

    password: Password


class BackupHeaderResponse(Answer):
    """The part of a backup that is readable without a key."""

    version: int
    installation: str
    generation: int
    hash: str
    written_at: float
    """Seconds since 1970."""


class BackupResponse(Answer):
    """A sealed copy of the configuration. Store it unchanged, as one file: the recovery key opens it."""

    header: BackupHeaderResponse
    appliance_seal: str
    recovery_seal: str
    sealed: str


class ConfigurationCopyResponse(Answer):
    """A copy of the configuration on a pool, sealed; the newest of its installation there."""

    pool: str
    installation: str
    generation: int
    hash: str
    written_at: float
    this_installation: bool
    """Written by this appliance's installation."""
    known: bool
    """This appliance's database has written it, or an admin has decided after it."""


class RecoveryResponse(Answer):
    """Recovery mode: the database is not certain to be the newest. Hosts are served as before; nothing is changed."""

    active: bool
    reason: str | None
    installation: str
    generation: int
    """Generation of the configuration in the database: each change increases it."""
    suggested: str | None
    """The pool whose copy can be taken; null where pools disagree."""
    copies: list[ConfigurationCopyResponse]


class RecoverUpdate(Model):
    """The admin's decision: a pool, a file, or `keep`."""

    from_pool: Annotated[str | None, Field(min_length=1, max_length=255)] = None
    file: Annotated[str | None, Field(min_length=1, max_length=1000000)] = None
    """The text of a backup."""
    keep: bool = False
    """The database is right."""
    recovery_key: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    """Needed if another key than the appliance's sealed the copy."""
    dry_run: bool = False
    """Only returns what would change."""
    force: bool = False
    """Also where hosts lose datastores that they use, and a copy of another installation next to the database's own."""


class RecoverResponse(RecoveryResponse):
    """The state afterwards, and what changed, or would."""

    changes: list[str]


class RecoveryKeyResponse(Answer):
    """Shown once."""

    secret: str
