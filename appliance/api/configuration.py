# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the configuration."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from pydantic import BaseModel

from appliance import __version__
from appliance.api.operation import Call, Resource
from appliance.api.schemas.configuration import BackupAsked, BackupTold, RestoreAsked, RestoreTold
from appliance.domain import backup, restore
from appliance.domain.access import Role
from appliance.domain.datastores import NFS, VMFS, kinds_shown
from appliance.domain.errors import UnavailableError

resource = Resource("configuration")


def _using(call: Call, content: backup.Content, force: bool) -> restore.Using:
    """Only who serves something that hosts see is asked. Forced, who does not answer is left out."""
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


class _OnlyToldError(Exception):
    """Ends the transaction of a dry run."""


@resource.operation(
    "POST", "/configuration/backup", role=Role.ADMIN, audit="configuration.backup", body=BackupAsked, answer=BackupTold
)
def back_up(call: Call, body: BackupAsked) -> BaseModel:
    """Users without tokens, hosts and groups, how datastores are shown, schedules, receivers, settings; secrets are sealed."""
    with call.services.store.reading() as session:
        content, secrets = backup.collect(session, call.services.seal)
    return BackupTold.model_validate(backup.write(content, secrets, body.passphrase, __version__))


@resource.operation(
    "POST", "/configuration/restore", role=Role.ADMIN, audit="configuration.restore", body=RestoreAsked, answer=RestoreTold
)
def restore_it(call: Call, body: RestoreAsked) -> BaseModel:
    """Checks all of it, and tells or makes what is to be changed, in one step; then the data planes are made to follow."""
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
                raise _OnlyToldError
    except _OnlyToldError:
        return RestoreTold(changes=changes, applied=False)
    call.changed()
    return RestoreTold(changes=changes, applied=True)
