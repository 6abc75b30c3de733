# SPDX-License-Identifier: Apache-2.0
"""What the target is to serve, by what the database says and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Host, HostGroup, HostInitiator, Presentation, Setting
from appliance.dataplane import reconcile as planes
from appliance.dataplane.target import HostGroup as TargetHostGroup
from appliance.dataplane.target import KeptNames, Lun
from appliance.domain import datastores as domain
from appliance.domain import jobs
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.secrets import SealedError
from appliance.worker import copies
from appliance.zfs.model import KeyStatus

if TYPE_CHECKING:
    from appliance.worker.context import Context


def wanted(
    context: Context,
    inventory: Inventory,
    stores: Sequence[Datastore],
    session: Session,
    folders: Mapping[str, str],
) -> planes.Wanted:
    """What the target is to serve. What a job has taken out of service is left out until the job has ended."""
    out = out_of_service(session)
    members: dict[str, list[str]] = {}
    rows = session.execute(select(HostInitiator.iqn, Host.group_id).join(Host, Host.id == HostInitiator.host_id))
    for iqn, group_id in rows:
        members.setdefault(group_id or "", []).append(iqn)
    luns = {}
    unknown: set[str] = set()
    admitted: set[str] = set()
    for store in stores:
        if store.state == "active" and store.uuid and store.lun is not None:  # so it is a VMFS one
            seen_by = sorted({iqn for one in store.host_groups for iqn in members.get(one, ())})
            if store.uuid in out:  # hosts stay logged in, and find their LUN there again when the job has ended
                admitted.update(seen_by)
                continue
            if store.pool not in folders or store.key_status == KeyStatus.UNAVAILABLE:
                unknown.add(store.uuid)
                continue
            luns[store.lun] = Lun(
                store.lun,
                store.uuid,
                store.device,
                tuple(seen_by),
                store.soft_threshold,
                provisioning=_provisioning(context, store),
                reservations=folders[store.pool],
                guid=None if context.on_files else store.guid,
                **_kept(store),
            )
    # Where a pool is suspended, exported elsewhere or not imported yet, hosts find their disks not ready instead of gone.
    seen = {store.uuid for store in stores if store.uuid and store.state != "missing"}
    unknown |= set(session.scalars(select(Presentation.datastore))) - seen - out
    groups = {
        f"{planes.GROUP_PREFIX}{group.id}": TargetHostGroup(
            f"{planes.GROUP_PREFIX}{group.id}", tuple(sorted(members.get(group.id, ()))), tuple(group.disabled)
        )
        for group in session.scalars(select(HostGroup))
        if group.disabled
    }
    setting = session.get(Setting, "iscsi")
    chap_required = bool(setting and setting.value.get("chap_required"))
    accounts, unreadable = _accounts(context, session) if chap_required else ({}, frozenset[str]())
    return planes.Wanted(
        target=context.configuration.target.name,
        luns=luns,
        groups=groups,
        chap_required=chap_required,
        accounts=accounts,
        unknown=frozenset(unknown),
        copies=frozenset(store.device for store in copies.certain(stores, inventory) if store.kind == domain.VMFS),
        kept_accounts=unreadable,
        initiators=tuple(sorted(admitted.union(*(lun.initiators or () for lun in luns.values())))),
    )


def _provisioning(context: Context, store: Datastore) -> str:
    return "thick" if store.thick and not context.on_files else "thin"


def _kept(store: Datastore) -> dict[str, Any]:
    """Of a LUN: the names that the datastore keeps from another target."""
    kept = store.designation
    if kept is None:
        return {}
    return {"product": kept.product, "designation": KeptNames(kept.serial_number, kept.designators, kept.vendor)}


def _accounts(context: Context, session: Session) -> tuple[dict[str, planes.WantedAccount], frozenset[str]]:
    """By name; and the names of those whose secrets can't be had."""
    accounts = {}
    unreadable = set()
    for host in session.scalars(select(Host).where(Host.chap_name.is_not(None))):
        if host.chap_name and host.chap_secret:
            try:
                secret = context.seal.open(host.chap_secret)
            except SealedError:
                unreadable.add(host.chap_name)  # readiness tells of it
                continue
            stale = host.chap_applied != host.chap_revision
            own = session.scalars(select(HostInitiator.iqn).where(HostInitiator.host_id == host.id))
            if names := tuple(sorted(own)):  # who has no name logs in as nobody
                accounts[host.chap_name] = planes.WantedAccount(host.chap_name, secret, names, stale)
    return accounts, frozenset(unreadable)


def out_of_service(session: Session) -> set[str]:
    """Datastores that a job has taken out of service, and that stay so until it has ended."""
    running = [job for job in jobs.active(session) if job.state == jobs.RUNNING]
    return {uuid for job in running for uuid in jobs.plan_of(job).out_of_service}


def becoming_thick(session: Session) -> set[str]:
    """Datastores whose job decides yet whether they may be thick."""
    running = [job for job in jobs.active(session) if job.state == jobs.RUNNING]
    return {job.subject for job in running if jobs.plan_of(job).becoming_thick}
