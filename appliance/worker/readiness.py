# SPDX-License-Identifier: Apache-2.0
"""Readiness: a check for each condition that disables offloads, with evidence and remedy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Host, HostGroup, Setting
from appliance.dataplane.target import LoggedIn, Portal, ServedTarget, Status
from appliance.domain.addresses import Address, paths, reachable
from appliance.domain.capacity import LUN_REMEDY, ROOM_REMEDY, Thresholds, absent, absent_remedy, copy_remedies, fullness
from appliance.domain.datastores import NFS, VMFS, Datastore
from appliance.domain.encryption_keys import PoolKey
from appliance.domain.esxcli import ENABLE
from appliance.domain.hazards import of_readonly, portal_remedy
from appliance.domain.hosts import all_initiators
from appliance.domain.readiness import FAILED, OK, UNKNOWN, WARNING, Check
from appliance.domain.secrets import Seal, SealedError
from appliance.worker import nfs_readiness
from appliance.worker.nfs_readiness import NfsFacts
from appliance.worker.portals import obstacles
from appliance.zfs.model import Dataset, FeatureState, Pool

_ZVOL_CLONE = Path("/sys/module/zvol_clone")
EVERYWHERE = ("0.0.0.0:", "[::]:")
ON_HOST = "In the host's shell:"
HERE = "Then on the storage server:"
RETURN = "Bring back the portals that hosts do not reach"
ENTER = "enter on the host what zvaai readiness prints for ESXi hosts"


@dataclass
class Facts:
    """Input of the checks. A problem: a part did not answer."""

    target_name: str
    pools: list[Pool] = field(default_factory=list)
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    stores: list[Datastore] = field(default_factory=list)
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    storage_problem: str | None = None
    keys: list[PoolKey] = field(default_factory=list)
    targets: list[ServedTarget] = field(default_factory=list)
    status: Status | None = None
    portals: list[Portal] = field(default_factory=list)
    sessions: list[LoggedIn] = field(default_factory=list)
    target_problem: str | None = None
    local: list[Address] = field(default_factory=list)
    nfs: NfsFacts = field(default_factory=NfsFacts)
    zvol_clone: bool = True


def of_modules(facts: Facts) -> None:
    """Reads which kernel modules are loaded."""
    facts.zvol_clone = _ZVOL_CLONE.exists()


def checks(facts: Facts, session: Session, seal: Seal) -> list[Check]:
    nfs = nfs_readiness.checks(facts.nfs, facts.stores, facts.local)
    pools = [*_storage(facts), *_zvol_clone(facts)]
    return [*pools, *_keys(facts), *_target(facts), *_datastores(facts), *nfs, *_hosts(facts, session, seal)]


def _storage(facts: Facts) -> Iterator[Check]:
    if facts.storage_problem:
        yield Check("storage", "OpenZFS answers", FAILED, facts.storage_problem, "modprobe zfs; systemctl start zvaai-helper")
        return
    if not facts.pools:
        remedy = "Create a pool: zvaai pool create. Or import one: zvaai pool import"
        yield Check("storage", "OpenZFS answers", WARNING, "no pool is imported", remedy)
    for pool in facts.pools:
        state = pool.features.get("block_cloning")
        cloning = state in (FeatureState.ENABLED, FeatureState.ACTIVE)
        result = OK if cloning else UNKNOWN if state is None else FAILED
        evidence = f"feature@block_cloning is {state.value if state else 'unknown'}"
        remedy = (
            "" if cloning else f"zpool set feature@block_cloning=enabled {quote(pool.name)}; until then XCOPY reads and writes"
        )
        yield Check("block_cloning", "The pool can clone blocks", result, evidence, remedy, pool.name)
        result = OK if pool.health == "ONLINE" and not pool.error_count else FAILED
        evidence = f"{pool.health}; {pool.status or 'no errors'}"
        yield Check("pool_health", "The pool is healthy", result, evidence, pool.action, pool.name)
        percent, evidence = fullness(pool, facts.datasets.get(pool.name))
        has_room = percent < facts.thresholds.get(pool.name, Thresholds()).warning
        result, remedy = (OK, "") if has_room else (WARNING, ROOM_REMEDY)
        yield Check("pool_space", "The pool has room", result, evidence, remedy, pool.name)


def _zvol_clone(facts: Facts) -> Iterator[Check]:
    if any(store.state == "active" and store.kind == VMFS for store in facts.stores):
        result, evidence = (OK, "XCOPY clones blocks") if facts.zvol_clone else (FAILED, "XCOPY reads and writes")
        remedy = "apt install zvaai-zvol-clone-dkms; systemctl restart zvol_clone; journalctl -b -u zvol_clone"
        yield Check("zvol_clone", "The kernel module zvol_clone is loaded", result, evidence, "" if facts.zvol_clone else remedy)


def _keys(facts: Facts) -> Iterator[Check]:
    title = "The pool's key was exported"
    for key in facts.keys:
        pool = key.pool
        if not key.stored:
            remedy = f"zvaai key enter {quote(pool)}; enter the key that was exported on the pool's former server"
            yield Check(
                "key", "The pool's key is stored", FAILED, "without it its encrypted datastores are unreadable", remedy, pool
            )
        elif key.confirmed_at is None:
            state = "it was never exported" if key.exported_at is None else "the export of the key was not confirmed"
            evidence = f"{state}: if the disk of this server fails, all encrypted data is lost"
            remedy = f"zvaai key export {quote(pool)}; write it down elsewhere; zvaai key confirm {quote(pool)}"
            yield Check("key", title, FAILED, evidence, remedy, pool)
        else:
            yield Check("key", title, OK, "it was exported, and confirmed", "", pool)


def _target(facts: Facts) -> Iterator[Check]:
    title, problem = "The iSCSI target runs", facts.target_problem
    if problem or facts.status is None:
        yield Check("target", title, FAILED, problem or "it was not queried", "systemctl start zvaai-target")
        return
    lost = obstacles(facts.portals, facts.local)
    for portal, reason in lost.items():
        yield Check("portal", "Hosts reach the portal", WARNING, reason, portal_remedy(portal), portal)
    portals = reachable([portal for portal in facts.status.portals if portal not in lost], facts.local)
    listening = ", ".join(facts.status.portals) or "no address"
    yield Check("target", title, OK, f"version {facts.status.version}, listening at {listening}")
    count = paths(facts.status.portals, facts.local)
    title, addresses = "Hosts have two paths", ", ".join(portals)
    if not portals:
        remedy = "zvaai portal add ADDRESS:3260, with an address of the storage network"
        remedy = RETURN if lost else remedy
        yield Check("portals", "Hosts reach a portal", FAILED, f"it listens at {listening} only", remedy)
        return
    everywhere = next((portal for portal in facts.status.portals if portal.startswith(EVERYWHERE)), None)
    replacing = f"zvaai portal add --interface NAME1 --replace {everywhere}; zvaai portal add --interface NAME2 --group 2"
    if count < 2:
        remedy = "Give a second network interface an address in another network"
        if lost:
            remedy = RETURN
        elif everywhere:
            remedy += f". Then each network its portal: {replacing}"
        yield Check("portals", title, WARNING, f"all paths use one network interface, or one network: {addresses}", remedy)
    elif everywhere:
        evidence = f"hosts use all networks of this server, perhaps also that of the management: {addresses}"
        yield Check("portals", title, WARNING, evidence, f"Each storage network its portal: {replacing}")
    else:
        yield Check("portals", title, OK, f"{count} paths: {addresses}")


def _datastores(facts: Facts) -> Iterator[Check]:
    served = {lun.lun.uuid: lun for target in facts.targets if target.name == facts.target_name for lun in target.luns}
    remedies = copy_remedies(facts.stores, facts.datasets, facts.pools)
    for store in absent(facts.pools, facts.stores):
        what = "exported" if store.kind == NFS else "served"
        yield Check(what, f"The datastore is {what}", FAILED, "its dataset is missing", absent_remedy(store), store.id)
    for finding in of_readonly(facts.stores, facts.pools):
        yield Check("writable", "Hosts can write", FAILED, "the datastore is read-only", finding.remedy, finding.subject)
    for store in facts.stores:
        if store.state == "copy" and (remedy := remedies.get(store.dataset)):
            yield Check("copy", "The copy is not served", WARNING, store.copy_reason or "", remedy, store.dataset)
        if store.state != "active" or store.kind != VMFS:
            continue
        title, lun = "The datastore is served", served.get(store.uuid or "")
        if lun is None:
            result, evidence = UNKNOWN if facts.target_problem else FAILED, "the target has no LUN for it"
            yield Check("served", title, result, evidence, "zvaai reconcile; see the alerts", store.id)
        elif lun.state != "serving":
            yield Check("served", title, FAILED, lun.reason, LUN_REMEDY, store.id)
        else:
            yield Check("served", title, OK, f"LUN {lun.lun.number}, {lun.naa or 'without an NAA name'}", "", store.id)
        if not store.host_groups:
            evidence, remedy = "it is presented to no host group", f"zvaai datastore change {quote(store.name)} --add-group GROUP"
            yield Check("presented", "Hosts see the datastore", WARNING, evidence, remedy, store.id)
        if store.sync == "disabled":
            evidence = "sync=disabled: a power cut loses acknowledged writes"
            yield Check("sync", "Writes are stable", FAILED, evidence, f"zfs set sync=standard {quote(store.dataset)}", store.id)
        if store.block_size > 1 << 20:
            evidence = f"blocks of {store.block_size} bytes are larger than VMFS reclaims"
            remedy = "The block size cannot change. Create a datastore with 64 KiB (the default) and move the VMs"
            yield Check("unmap", "VMFS reclaims space", FAILED, evidence, remedy, store.id)


def _hosts(facts: Facts, session: Session, seal: Seal) -> Iterator[Check]:
    logged_in = {logged.initiator for logged in facts.sessions}
    groups = {group.id: group for group in session.scalars(select(HostGroup))}
    by_iscsi = {group_id for store in facts.stores if store.kind == VMFS for group_id in store.host_groups}
    by_nfs = {group_id for store in facts.stores if store.kind == NFS for group_id in store.host_groups}
    setting = session.get(Setting, "iscsi")
    chap_required = bool(setting and setting.value.get("chap_required"))
    iqns = all_initiators(session)
    listening = [portal.address for portal in facts.portals if not portal.problem]
    # A portal at every address also listens where hosts need not log in.
    several = paths(listening, facts.local) > 1 and not any(portal.startswith(EVERYWHERE) for portal in listening)
    for host in session.scalars(select(Host).order_by(Host.name)):
        group, change = groups.get(host.group_id or ""), f"zvaai host change {quote(host.name)}"
        if group is None:
            evidence, remedy = "it is in none, and sees nothing", f"{change} --group GROUP"
            yield Check("grouped", "The host is in a group", WARNING, evidence, remedy, host.id)
        elif group.disabled:
            evidence = f"group {group.name} is not offered {', '.join(group.disabled)}"
            remedy = f"zvaai group change {quote(group.name)} {' '.join(f'--enable {offload}' for offload in group.disabled)}"
            yield Check("offloads", "The host is offered all offloads", WARNING, evidence, remedy, host.id)
        names = iqns.get(host.id, [])
        if host.group_id in by_nfs and not host.addresses:
            evidence = "it may mount nothing: no address is known"
            remedy = f"{ON_HOST} esxcli network ip interface ipv4 get. {HERE} {change} --add-address ADDRESS"
            yield Check("address", "The host has an address", FAILED, evidence, remedy, host.id)
        if not names and host.group_id in by_nfs and host.group_id not in by_iscsi:
            continue  # it has no LUN to see
        if not names:
            evidence = "no iSCSI name of it is known"
            names_it = f"{ENABLE}; esxcli iscsi adapter list"
            remedy = f"{ON_HOST} {names_it}. {HERE} {change} --add-iqn IQN"
            yield Check("initiator", "The host has an iSCSI name", FAILED, evidence, remedy, host.id)
        elif host.group_id in by_iscsi:
            seen = [name for name in names if name in logged_in]
            result = UNKNOWN if facts.target_problem else OK if seen else WARNING
            evidence, remedy = ", ".join(seen) or "no session of it", "" if seen else ENTER
            used = {logged.portal for logged in facts.sessions if logged.initiator in names}
            if len(used) == 1 and several:
                result, evidence = WARNING, f"logged in at one portal only: {used.pop()}"
                remedy = f"zvaai network ping {quote(host.name)}. Then {ENTER}"
            yield Check("logged_in", "The host is logged in", result, evidence, remedy, host.id)
        yield from _chap(facts, host, names, seal, required=chap_required)


def _chap(facts: Facts, host: Host, names: list[str], seal: Seal, *, required: bool) -> Iterator[Check]:
    """`names`: iSCSI names of the host."""
    title, again = "The host has a CHAP secret", f"zvaai host chap {quote(host.name)}"
    if host.chap_secret is None:
        if required:
            yield Check("chap", title, FAILED, "CHAP is required, and the host has no secret", again, host.id)
        return
    try:
        seal.open(host.chap_secret)
    except SealedError as error:
        yield Check("chap", title, FAILED, str(error), f"Restore the key. Or set the secret again: {again}", host.id)
        return
    if required and any(logged.initiator in names and logged.account is None for logged in facts.sessions):
        evidence = "it logged in before CHAP was required: its secret is not proven, and the next login can fail"
        remedy = "Put the host into maintenance mode and reboot it: zvaai host sessions then shows its account"
        remedy += f". If it cannot log in, set the secret again on both sides: {again}"
        yield Check("chap", "The CHAP secret of the host is proven", WARNING, evidence, remedy, host.id)
