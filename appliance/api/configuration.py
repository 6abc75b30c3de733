# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the configuration."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from pydantic import BaseModel

from appliance import __version__
from appliance.api.operation import Call, Resource
from appliance.api.schemas.configuration import (
    BackupCreate,
    BackupResponse,
    RecoverUpdate,
    RecoveryKeyResponse,
    RecoveryResponse,
    RestoreCreate,
    RestoreResponse,
)
from appliance.api.sessions import confirm_password
from appliance.domain import backup, restore, sealed_copy
from appliance.domain.access import Role
from appliance.domain.datastores import NFS, VMFS, kinds_shown
from appliance.domain.errors import InvalidError, UnavailableError

resource = Resource("configuration")


def _using(call: Call, content: backup.Content, force: bool) -> restore.Using:
    """Queries only data planes that serve something. With `force`, those that do not respond are left out."""
    worker = call.services.worker
    with call.services.store.reading() as session:
        kinds, renumbered = kinds_shown(session), restore.renumbered(session, content)
    using = restore.Using(set(), set())
    with contextlib.suppress(*([UnavailableError] if force else [])):
        if renumbered:
            using = replace(using, registered=worker.call("registered", datastores=renumbered))
    with contextlib.suppress(*([UnavailableError] if force else [])):
        if VMFS in kinds:
            using = replace(using, iqns={str(one["initiator"]) for one in worker.call("sessions")})
    with contextlib.suppress(*([UnavailableError] if force else [])):
        if NFS in kinds:
            using = replace(using, addresses=set(map(str, worker.call("nfs_users"))))
    return using


class _DryRunError(Exception):
    """Ends the transaction of a dry run."""


@resource.operation(
    "POST", "/configuration/backup", role=Role.ADMIN, audit="configuration.backup", body=BackupCreate, answer=BackupResponse
)
def back_up(call: Call, body: BackupCreate) -> BaseModel:
    """Users without tokens, hosts and groups, how datastores are shown, schedules, receivers, settings; secrets are sealed."""
    confirm_password(call, body.password, "password")
    with call.services.store.reading() as session:
        content, secrets = backup.collect(session, call.services.seal)
    return BackupResponse.model_validate(backup.write(content, secrets, body.passphrase, __version__))


@resource.operation(
    "POST", "/configuration/restore", role=Role.ADMIN, audit="configuration.restore", body=RestoreCreate, answer=RestoreResponse
)
def restore_it(call: Call, body: RestoreCreate) -> BaseModel:
    """Checks the whole backup, then returns or applies its changes in one transaction. The worker then reconciles."""
    services = call.services
    content, secrets = backup.read(body.backup, body.passphrase)
    restore.check(content, secrets, bool(services.configuration.alerts.trusted_networks))
    using = _using(call, content, body.force)
    changes: list[str] = []
    try:
        with services.store.session() if body.dry_run else call.changing() as session:
            changes = restore.apply(
                session, services.seal, content, secrets, caller=call.who.user_id, using=using, force=body.force
            )
            if body.dry_run:
                raise _DryRunError
    except _DryRunError:
        return RestoreResponse(changes=changes, applied=False)
    call.changed()
    return RestoreResponse(changes=changes, applied=True)


@resource.operation("GET", "/recovery", role=Role.VIEWER, answer=RecoveryResponse)
def read_recovery(call: Call) -> BaseModel:
    """Whether the appliance is in recovery mode, and the copies of the configuration on pools."""
    return RecoveryResponse.model_validate(call.services.worker.call("recovery"))


@resource.operation("POST", "/recovery", role=Role.ADMIN, audit="recovery", body=RecoverUpdate, answer=RecoveryResponse)
def recover(call: Call, body: RecoverUpdate) -> BaseModel:
    """Takes the configuration of a copy on a pool, or says that the database is right. This ends recovery mode."""
    if (body.from_pool is None) != body.keep:
        raise InvalidError("from_pool", "name a pool, or keep the database", "one of both")
    state = call.services.worker.call("recover", pool=body.from_pool, recovery_key=body.recovery_key, caller=call.who.user_id)
    return RecoveryResponse.model_validate(state)


@resource.operation(
    "POST", "/configuration/recovery-key", role=Role.ADMIN, audit="configuration.recovery_key", answer=RecoveryKeyResponse
)
def renew_recovery_key(call: Call) -> BaseModel:
    """Makes a new recovery key and shows it once. Copies that are written from now on open with it, and with no older one."""
    with call.changing() as session:
        key = sealed_copy.new_recovery_key(session, call.services.seal)
    call.changed()
    return RecoveryKeyResponse(secret=key)
