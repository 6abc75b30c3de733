# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration: the file for an admin, recovery from a file or a pool, the recovery key."""

from appliance.api.operation import Call, Resource
from appliance.api.schemas import configuration as schemas
from appliance.api.sessions import confirm_password
from appliance.domain import recovery, sealed_copy
from appliance.domain.access import Role
from appliance.domain.errors import InvalidError

resource = Resource("configuration")


@resource.operation("POST", "/configuration/backup", role=Role.ADMIN, audit="configuration.backup")
def back_up(call: Call, body: schemas.BackupCreate) -> schemas.BackupResponse:
    """A sealed copy of the configuration: users, hosts, groups, access to datastores, schedules, receivers, settings."""
    confirm_password(call, body.password, "password")
    return schemas.BackupResponse.model_validate(call.context.recovery.backup())


@resource.operation("GET", "/recovery", role=Role.VIEWER)
def read_recovery(call: Call) -> schemas.RecoveryResponse:
    """Whether the appliance is in recovery mode, and the copies of the configuration on pools."""
    return schemas.RecoveryResponse.model_validate(_state(call))


def _state(call: Call) -> dict[str, object]:
    with call.context.store.reading() as session:
        row, copies = sealed_copy.installation(session), call.context.recovery.pool_copies(session)
        return {
            "active": row.recovery_reason is not None,
            "reason": row.recovery_reason,
            "installation": row.id,
            "generation": row.generation,
            "suggested": recovery.suggested(copies),
            "copies": [
                {"pool": copy.pool, **dict(copy.copy.header), "this_installation": copy.this_installation, "known": copy.known}
                for copy in copies
            ],
        }


@resource.operation("POST", "/recovery", role=Role.ADMIN, audit="recovery")
def recover(call: Call, body: schemas.RecoverUpdate) -> schemas.RecoverResponse:
    """Takes the configuration of a copy, or says that the database is right. Ends recovery mode. The worker then reconciles.

    A copy replaces the whole configuration, with all users. Only the caller's user, role and password stay. In recovery mode,
    jobs that have not begun fail, also those of an older database.
    """
    if [body.from_pool is not None, body.file is not None, body.keep].count(True) != 1:
        raise InvalidError("from_pool", "name a pool, give a file, or keep the database", "one of these")
    if body.keep and body.dry_run:
        raise InvalidError("dry_run", "to keep the database changes no configuration, but ends recovery mode")
    changes: list[str] = []
    at_work = call.worker.executor.is_at_work
    if body.keep:
        call.context.recovery.keep(at_work)
    else:
        source = (body.from_pool, body.file, body.recovery_key, call.who.user_id)
        changes = call.context.recovery.take(*source, at_work, dry_run=body.dry_run, force=body.force)
    call.worker.scheduler.request()
    return schemas.RecoverResponse.model_validate({**_state(call), "changes": changes})


@resource.operation("POST", "/configuration/recovery-key", role=Role.ADMIN, audit="configuration.recovery_key")
def renew_recovery_key(call: Call) -> schemas.RecoveryKeyResponse:
    """Makes a new recovery key and shows it once. Copies that are written from now on open with it, and with no older one."""
    with call.changing() as session:
        key = sealed_copy.new_recovery_key(session, call.context.seal)
    call.changed()
    return schemas.RecoveryKeyResponse(secret=key)
