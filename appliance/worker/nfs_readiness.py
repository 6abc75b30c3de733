# SPDX-License-Identifier: Apache-2.0
"""Readiness of NFS: one check for each thing that keeps ESXi from a datastore, or from its offloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from appliance.dataplane.ganesha import ServedExport
from appliance.domain.addresses import Address, nearest
from appliance.domain.datastores import NFS, Datastore
from appliance.domain.esxcli import nfs_lines
from appliance.worker.file_operations import Admitted

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"
Row = tuple[str, str, str, str, str, str]
"""Of appliance.worker.readiness.Check: id, title, result, evidence, remedy, subject."""


@dataclass
class NfsFacts:
    """Input of the checks."""

    exports: list[ServedExport] = field(default_factory=list)
    problem: str | None = None
    counters_problem: str | None = None
    thick: Mapping[str, Admitted] = field(default_factory=dict)
    """What files need, of thick datastores by UUID."""


def checks(facts: NfsFacts, stores: Sequence[Datastore], own: Sequence[Address]) -> Iterator[Row]:
    """None while there is no NFS datastore."""
    exported = [store for store in stores if store.kind == NFS and store.state == "active"]
    if not exported:
        return
    if facts.problem:
        remedy = "systemctl start nfs-ganesha; packaging/dbus for who may ask it"
        yield "nfs", "The NFS server runs", FAILED, facts.problem, remedy, ""
    else:
        count = sum(one.served for one in facts.exports)
        yield "nfs", "The NFS server runs", OK, f"it serves {count} export{'' if count == 1 else 's'}", "", ""
    if facts.counters_problem:
        remedy = "Control_Socket and Control_User of /etc/zvaai/vaai-nas.conf; restart nfs-ganesha"
        yield "vaai_nas", "VAAI-NAS answers", WARNING, facts.counters_problem, remedy, ""
    elif not facts.problem:
        evidence = "its counters can be had; no ESXi plug-in of a vendor was tried with it"
        remedy = "hosts need a VAAI-NAS plug-in that speaks NFSv3 procedure 22; without one they copy over the network"
        yield "vaai_nas", "VAAI-NAS answers", OK, evidence, remedy, ""
    there = {one.export_id: one for one in facts.exports if one.served}
    for store in exported:
        yield from _store(store, there.get(store.export or 0), own, unknown=facts.problem is not None)
        if store.id in facts.thick:
            yield _thick(store, facts.thick[store.id])


def _store(store: Datastore, export: ServedExport | None, own: Sequence[Address], *, unknown: bool) -> Iterator[Row]:
    title = "The datastore is exported"
    if export is None or export.pseudo != store.share:
        evidence = f"{store.share} is not exported" if store.mounted else f"{store.dataset} is not mounted"
        yield "exported", title, UNKNOWN if unknown else FAILED, evidence, "zvaai reconcile; see the alerts", store.id
    else:
        yield "exported", title, OK, f"export {export.export_id} as {export.pseudo}, from {export.path}", "", store.id
        title, clients = "Hosts may mount it", sorted(one.split(" ")[0] for one in export.clients)
        if clients:
            server = nearest(own, clients)
            lines = nfs_lines(server, store.share or "", store.name, store.versions) if server else []
            yield "clients", title, OK, ", ".join(clients), "; ".join(lines), store.id
        else:
            remedy = "set its clients, or a host group whose hosts have addresses"
            yield "clients", title, WARNING, "no address may", remedy, store.id
    if store.squash != "none":
        remedy = f"zvaai datastore change {store.name} --squash none"
        yield "squash", "ESXi may write as root", FAILED, f"squash is {store.squash}: ESXi writes as root", remedy, store.id
    if "3" not in store.versions:
        evidence = "NFSv3 is off, by which plug-ins ask (procedure 22)"
        yield "version", "Plug-ins can ask for offloads", WARNING, evidence, "add version 3", store.id
    if "4" not in store.versions:
        evidence = "version 4 is off: by the program of its own VAAI-NAS refuses this export, and clones from another export"
        yield "version", "Clones from other exports are made", WARNING, evidence, "add version 4", store.id
    if store.sync == "disabled":
        evidence = "sync=disabled: a power cut loses acknowledged writes"
        yield "sync", "Writes are stable", FAILED, evidence, "zfs set sync=standard", store.id


def _thick(store: Datastore, space: Admitted) -> Row:
    title, remedy = "The space of its files is counted", "zvaai reconcile; see the log of nfs-ganesha"
    if space.admitted is None or space.problem:
        return "thick", title, UNKNOWN if space.admitted is None else FAILED, space.problem, remedy, store.id
    if space.counting:
        return "thick", title, WARNING, "the NFS server still counts: files do not grow by more than 1 MiB", "wait", store.id
    return "thick", title, OK, f"its files need {space.admitted} of {store.size} bytes", "", store.id
