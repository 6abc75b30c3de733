# SPDX-License-Identifier: Apache-2.0
"""What the target serves of pools that are away, and the database does not know: it was lost, or is older than they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Presentation
from appliance.dataplane.reconcile import Failure
from appliance.dataplane.target import ServedLun
from appliance.domain import datastores as domain
from appliance.domain import kept_initiators
from appliance.zfs.model import Filesystem, Health, Pool

_UNSEEN = {Health.SUSPENDED, Health.UNAVAILABLE, Health.FAULTED}


def visible(pools: Sequence[Pool]) -> frozenset[str]:
    """Names of those whose datasets can be seen."""
    return frozenset(pool.name for pool in pools if pool.health not in _UNSEEN)


def seen_throughout(pools: Sequence[Pool], filesystems: Sequence[Filesystem]) -> tuple[Pool, ...]:
    """Pools, asked for last, that were there when file systems were, asked for first: each has a root dataset.

    Of one that came meanwhile not all datasets may have been asked for.
    """
    there = {one.name for one in filesystems}
    return tuple(pool for pool in pools if pool.name in there or pool.health in _UNSEEN)


def unknown(session: Session, luns: Sequence[ServedLun]) -> list[ServedLun]:
    """Those that the database does not know."""
    known = set(session.scalars(select(Presentation.datastore)))
    return [found for found in luns if found.lun.uuid not in known]


def keep(session: Session, luns: Sequence[ServedLun], making: Collection[str]) -> list[Failure]:
    """Under the numbers that hosts use, shown to who sees them: they are missing datastores, until their pools are there or
    somebody forgets them. Tells those whose numbers the database has for others. `making` is what jobs are about.
    """
    numbers = {lun: uuid for uuid, lun in session.execute(select(Presentation.datastore, Presentation.lun))}
    failures = []
    for found in unknown(session, luns):
        uuid, number, path = found.lun.uuid, found.lun.number, found.lun.path
        if number in numbers:
            text = f"LUN {number} is of {path}, whose pool is not here; the database keeps the number for {numbers[number]}"
            remedy = f"import its pool; if {numbers[number]} is lost: zvaai datastore forget {numbers[number]}"
            failures.append(Failure(uuid, text, remedy=remedy))
        elif uuid not in making:
            domain.present(session, uuid, number, None)
            kept_initiators.keep(session, uuid, found.lun.initiators or (), path)
    return failures
