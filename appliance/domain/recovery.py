# SPDX-License-Identifier: Apache-2.0
"""Whether the database is the newest: compares it with the copies of the configuration on pools.

The database records each copy before it is written. A copy of this installation that the database does not know is therefore
newer, or comes from another state: the database is outdated. Then the appliance is in recovery mode, until an admin decides.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from appliance.database.models import (
    Export,
    ExportGroup,
    Host,
    HostInitiator,
    Installation,
    Job,
    Presentation,
    PresentationGroup,
    PublishedCopy,
)
from appliance.domain import configuration, exports, hosts, jobs, schedules
from appliance.domain.errors import ConflictError, to_wire
from appliance.domain.journal import Finding, update_alerts
from appliance.domain.sealed_copy import Copy, Opened, installation
from appliance.domain.secrets import Seal
from appliance.zfs.model import Snapshot

AREA = "recovery"
_HISTORY = 1000
"""Recorded copies. Generations would not do: a single change can count thousands."""
_REMEDY = "list the copies on the pools (zvaai recover), then: zvaai recover --from POOL, or zvaai recover --keep"
_NOT_BEGUN = "the job was from before the recovery, and was not begun again. Submit it again if it is still needed"
_ACTIVE = "the appliance is in recovery mode: nothing is changed until an admin decides (zvaai recover)"


class RecoveryModeError(ConflictError):
    """Nothing is changed until an admin has decided."""


@dataclass(frozen=True)
class PoolCopy:
    pool: str
    copy: Copy
    this_installation: bool
    known: bool


def judge(session: Session, copies: Mapping[str, Iterable[Copy]]) -> list[PoolCopy]:
    """Compares the copies on pools, by pool, with the records of the database."""
    row = installation(session)
    oldest = session.scalar(select(func.min(PublishedCopy.generation)))
    judged = []
    for pool, of_pool in sorted(copies.items()):
        for copy in of_pool:
            header = copy.header
            this_installation = header.installation == row.id
            written = session.get(PublishedCopy, header.generation) if this_installation else None
            old = this_installation and (header.generation <= row.decided_generation or header.generation < (oldest or 0))
            judged.append(PoolCopy(pool, copy, this_installation, old or (written is not None and written.hash == header.hash)))
    return judged


def reason(copies: Iterable[PoolCopy], generation: int) -> str | None:
    """Why the database is not the newest; None if no copy contradicts. Copies of other installations are ignored."""
    newer = [copy for copy in copies if copy.this_installation and not copy.known]
    if not newer:
        return None
    pools = ", ".join(sorted({copy.pool for copy in newer}))
    highest = max(copy.copy.header.generation for copy in newer)
    if highest > generation:
        return f"the database has generation {generation}, and pool {pools} has a copy of the later generation {highest}"
    return f"pool {pools} has a copy of generation {highest} that this database, of generation {generation}, has not written"


def is_new(session: Session) -> bool:
    """Whether the database has never served anything, and no admin has confirmed it."""
    return not installation(session).decided_generation and not any(
        session.scalar(select(table).limit(1)) for table in (PublishedCopy, Job, Presentation, Export)
    )


def suggested(copies: Iterable[PoolCopy]) -> str | None:
    """The pool with the copy to use, of this installation if there is one.

    None if pools disagree, or the database knows all copies.
    """
    unknown = [copy for copy in copies if not copy.known]
    unknown = [copy for copy in unknown if copy.this_installation] or unknown
    states = {(copy.copy.header.installation, copy.copy.header.generation, copy.copy.header.hash) for copy in unknown}
    return unknown[0].pool if len(states) == 1 else None


def enter(session: Session, why: str) -> None:
    installation(session).recovery_reason = why
    update_alerts(session, AREA, [Finding(f"{AREA}:database", "critical", "database", f"Recovery mode: {why}", _REMEDY)])


def is_active(session: Session) -> bool:
    return installation(session).recovery_reason is not None


def check_inactive(session: Session) -> None:
    """Raises RecoveryModeError in recovery mode."""
    row = installation(session)
    if row.recovery_reason is not None:
        raise RecoveryModeError(_ACTIVE, [row.recovery_reason])


def published(session: Session, copy: Copy) -> None:
    """Records a copy, before it is written to any pool."""
    session.merge(PublishedCopy(generation=copy.header.generation, hash=copy.header.hash))
    old = select(PublishedCopy.generation).order_by(PublishedCopy.generation.desc()).offset(_HISTORY)
    session.execute(delete(PublishedCopy).where(PublishedCopy.generation.in_(old)))


@dataclass(frozen=True)
class Using:
    """Hosts in use now: iSCSI names that are logged in, addresses and networks that use NFS datastores."""

    iqns: Collection[str] = ()
    addresses: Collection[str] = ()
    target: str | None = None
    """The iSCSI target's name if it is not the database's: it does not change."""


def take(
    session: Session,
    seal: Seal,
    chosen: Copy,
    opened: Opened,
    copies: Iterable[PoolCopy],
    snapshots: Iterable[Snapshot],
    caller: str,
    using: Using | None,
    at_work: Callable[[str], bool],
) -> list[str]:
    """Replaces the configuration and the installation by those of a copy, in the caller's transaction. Returns the changes as
    text.

    The deciding admin's user, role and password do not change. In recovery mode, jobs that are not `at_work` fail. Otherwise a
    running job is a conflict, and so are hosts that use datastores which they would lose; with `using` of None these are ignored.
    Raises ConflictError, InvalidError.
    """
    active = jobs.active(session)
    if active and not is_active(session):
        raise ConflictError("jobs are running; try again when they have ended", [job.id for job in active])
    row, header = installation(session), chosen.header
    # Before the copy's rows are counted.
    is_behind = row.id != header.installation or row.generation < header.generation
    # The key that sealed its secrets may be lost.
    before, sees = configuration.collect(session, seal, whole=False), _access(session, using or Using())
    configuration.replace(session, seal, opened.content, caller)
    now = _access(session, using or Using())
    lost = [f"{who}: {what}" for who, had in sorted(sees.items()) for what in sorted(had - now.get(who, set()))]
    if lost:
        raise ConflictError("hosts use datastores that they would lose", lost, can_force=True)
    if is_behind:
        session.execute(delete(PublishedCopy))
        # The copy's own generation, without this database's count: a pool that is imported later can have the next one.
        session.execute(update(Installation).values(generation=header.generation, decided_generation=0))
        row.id, row.recovery_seal, row.sealed_key = header.installation, chosen.recovery_seal, opened.sealed_key(seal)
        published(session, chosen)
    session.flush()
    end_recovery(session, copies, snapshots, at_work)
    return configuration.differences(before, configuration.collect(session, seal))


def _access(session: Session, using: Using) -> dict[str, set[str]]:
    sees: dict[str, set[str]] = {}
    target = using.target or hosts.target_name(session)
    luns = session.execute(
        select(HostInitiator.iqn, Presentation.lun, Presentation.datastore)
        .join(Host, Host.id == HostInitiator.host_id)
        .join(PresentationGroup, PresentationGroup.group_id == Host.group_id)
        .join(Presentation, Presentation.datastore == PresentationGroup.datastore)
        .where(HostInitiator.iqn.in_(using.iqns))
    )
    for iqn, lun, datastore in luns:
        sees.setdefault(iqn, set()).add(f"LUN {lun} of {target} ({datastore})")
    groups: dict[str, list[str]] = {}
    for datastore, group_id in session.execute(select(ExportGroup.datastore, ExportGroup.group_id)):
        groups.setdefault(datastore, []).append(group_id)
    for export in session.scalars(select(Export)):
        admitted = exports.addresses(session, groups.get(export.datastore, ()))
        for who in using.addresses:
            if who in admitted or exports.is_within(who, export.clients):
                sees.setdefault(who, set()).add(f"export {export.share} ({export.datastore})")
    return sees


def end_recovery(
    session: Session, copies: Iterable[PoolCopy], snapshots: Iterable[Snapshot], at_work: Callable[[str], bool]
) -> None:
    """This database is right: its next copy is higher than all that pools have of it. Copies on pools that appear later and are
    higher than these need another decision. Its schedules destroy none of `snapshots` at once. Its jobs fail, unless this worker
    has begun them.
    """
    schedules.update_paused(session, snapshots)
    row = installation(session)
    session.flush()
    session.refresh(row)  # triggers have counted
    highest = max((copy.copy.header.generation for copy in copies if copy.copy.header.installation == row.id), default=0)
    row.generation = max(row.generation, highest) + 1
    row.decided_generation = max(row.decided_generation, highest, 1)  # 0: no admin has decided (is_new)
    row.recovery_reason = None
    for job in jobs.active(session):  # of a time that the pools have left
        if not at_work(job.id):
            jobs.end(session, job.id, jobs.FAILED, problem={**to_wire(ConflictError(_NOT_BEGUN)), "left": None})
    update_alerts(session, AREA, [])
