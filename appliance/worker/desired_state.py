# SPDX-License-Identifier: Apache-2.0
"""Desired state of the target, from the database and the inventory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Host, HostGroup, HostInitiator, Presentation, Setting
from appliance.dataplane import reconcile as planes
from appliance.dataplane.target import AdoptedNames, Lun
from appliance.dataplane.target import HostGroup as TargetHostGroup
from appliance.domain import datastores as domain
from appliance.domain import jobs
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.designation import Designation
from appliance.domain.hosts import MUTUAL_SETTING
from appliance.domain.secrets import SealedError
from appliance.worker import copies
from appliance.worker.context import Context
from appliance.zfs.model import KeyStatus


def target_state(
    context: Context, inventory: Inventory, stores: Sequence[Datastore], session: Session, folders: Mapping[str, str]
) -> planes.DesiredState:
    """Desired state of the target, without LUNs that a running job has taken out of service."""
    out = jobs.out_of_service(session)
    members: dict[str, list[str]] = {}
    rows = session.execute(select(HostInitiator.iqn, Host.group_id).join(Host, Host.id == HostInitiator.host_id))
    for iqn, group_id in rows:
        members.setdefault(group_id or "", []).append(iqn)
    luns = {}
    unknown: set[str] = set()
    admitted: set[str] = set()
    for store in stores:
        if store.state == "active" and store.uuid and store.lun is not None:  # a VMFS datastore
            seen_by = sorted({iqn for shown_to in store.host_groups for iqn in members.get(shown_to, ())})
            if store.uuid in out:  # hosts stay logged in, and get their LUN back after the job
                admitted.update(seen_by)
                continue
            if store.pool not in folders or store.key_status == KeyStatus.UNAVAILABLE:
                unknown.add(store.uuid)
                continue
            lun = Lun(
                store.lun,
                store.uuid,
                store.device,
                tuple(seen_by),
                store.soft_threshold,
                provisioning="thick" if store.thick and not context.on_files else "thin",
                reservations=folders[store.pool],
                guid=None if context.on_files else store.guid,
            )
            luns[store.lun] = lun if store.designation is None else _with_names(lun, store.designation)
    # While a pool is suspended, or not imported, hosts see their disks as not ready, not as missing.
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
    return planes.DesiredState(
        target=context.target_name,
        luns=luns,
        groups=groups,
        chap_required=chap_required,
        accounts=accounts,
        mutual=_mutual(context, session) if accounts else None,
        unknown=frozenset(unknown),
        copies=frozenset(store.device for store in copies.certain(stores, inventory) if store.kind == domain.VMFS),
        retained_accounts=unreadable,
        initiators=tuple(sorted(admitted.union(*(lun.initiators or () for lun in luns.values())))),
    )


def _with_names(lun: Lun, names: Designation) -> Lun:
    adopted = AdoptedNames(names.serial_number, names.designators, names.vendor)
    return replace(lun, product=names.product, designation=adopted)


def _mutual(context: Context, session: Session) -> planes.DesiredAccount | None:
    """The target's own account for mutual CHAP; None also if its secret cannot be read."""
    setting = session.get(Setting, MUTUAL_SETTING)
    if setting is None:
        return None
    value = setting.value
    try:
        return planes.DesiredAccount(value["name"], context.seal.open(value["secret"]), (), value["applied"] != value["revision"])
    except SealedError:
        return None


def _accounts(context: Context, session: Session) -> tuple[dict[str, planes.DesiredAccount], frozenset[str]]:
    """Accounts by name, and the names of those with unreadable secrets."""
    accounts = {}
    unreadable = set()
    for host in session.scalars(select(Host).where(Host.chap_name.is_not(None))):
        if host.chap_name and host.chap_secret:
            try:
                secret = context.seal.open(host.chap_secret)
            except SealedError:
                unreadable.add(host.chap_name)  # readiness reports it
                continue
            stale = host.chap_applied != host.chap_revision
            iqns = session.scalars(select(HostInitiator.iqn).where(HostInitiator.host_id == host.id))
            if names := tuple(sorted(iqns)):  # a host without a name cannot log in
                accounts[host.chap_name] = planes.DesiredAccount(host.chap_name, secret, names, stale)
    return accounts, frozenset(unreadable)


def becoming_thick(session: Session) -> set[str]:
    running = [job for job in jobs.active(session) if job.state == jobs.RUNNING]
    return {job.subject for job in running if jobs.plan_of(job).becoming_thick}
