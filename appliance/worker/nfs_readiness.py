# SPDX-License-Identifier: Apache-2.0
"""Readiness of NFS: one check for each condition that ESXi needs for a datastore or its offloads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from appliance.dataplane.ganesha import ServedExport
from appliance.domain.addresses import Address, nearest
from appliance.domain.datastores import NFS, Datastore
from appliance.domain.esxcli import nfs_lines
from appliance.domain.readiness import FAILED, OK, UNKNOWN, WARNING, Check
from appliance.worker.file_operations import Admitted


@dataclass
class NfsFacts:
    exports: list[ServedExport] = field(default_factory=list)
    problem: str | None = None
    counters_problem: str | None = None
    thick: Mapping[str, Admitted] = field(default_factory=dict)
    """Space that the files of thick datastores need, by UUID."""


def checks(facts: NfsFacts, stores: Sequence[Datastore], local: Sequence[Address]) -> Iterator[Check]:
    """None while there is no NFS datastore, not even a missing one."""
    exported = [store for store in stores if store.kind == NFS and store.state == "active"]
    if not exported and not any(store.kind == NFS and store.state == "missing" for store in stores):
        return
    if facts.problem:
        remedy = "Run: systemctl start nfs-ganesha. If it runs, check /usr/share/dbus-1/system.d/zvaai-nfs.conf"
        yield Check("nfs", "The NFS server runs", FAILED, facts.problem, remedy, "")
    else:
        count = sum(export.served for export in facts.exports)
        yield Check("nfs", "The NFS server runs", OK, f"it serves {count} export{'' if count == 1 else 's'}", "", "")
    if facts.counters_problem:
        remedy = "Check Control_Socket and Control_User in /etc/zvaai/vaai-nas.conf. Then run: systemctl restart nfs-ganesha"
        yield Check("vaai_nas", "VAAI-NAS answers", WARNING, facts.counters_problem, remedy, "")
    elif not facts.problem:
        evidence = "the control socket answers; no vendor's plug-in was tested"
        remedy = "hosts need a VAAI-NAS plug-in that speaks NFSv3 procedure 22; without one they copy over the network"
        yield Check("vaai_nas", "VAAI-NAS answers", OK, evidence, remedy, "")
    served = {export.export_id: export for export in facts.exports if export.served}
    for store in exported:
        yield from _store(store, served.get(store.export or 0), local, unknown=facts.problem is not None)
        if store.id in facts.thick:
            yield _thick(store, facts.thick[store.id])


def _store(store: Datastore, export: ServedExport | None, local: Sequence[Address], *, unknown: bool) -> Iterator[Check]:
    title = "The datastore is exported"
    if export is None or export.pseudo != store.share:
        evidence = f"{store.share} is not exported" if store.mounted else f"{store.dataset} is not mounted"
        yield Check("exported", title, UNKNOWN if unknown else FAILED, evidence, "zvaai reconcile; see the alerts", store.id)
    else:
        yield Check("exported", title, OK, f"export {export.export_id} as {export.pseudo}, from {export.path}", "", store.id)
        title, clients = "Hosts may mount it", sorted(client.split(" ")[0] for client in export.clients)
        if clients:
            server = nearest(local, clients)
            lines = nfs_lines(server, store.share or "", store.name) if server else []
            yield Check("clients", title, OK, ", ".join(clients), "; ".join(lines), store.id)
        else:
            remedy = f"zvaai datastore change {quote(store.name)} --add-client ADDRESS, or --add-group GROUP"
            yield Check("clients", title, WARNING, "no client may mount it", remedy, store.id)
    if store.sync == "disabled":
        evidence = "sync=disabled: a power cut loses acknowledged writes"
        yield Check("sync", "Writes are stable", FAILED, evidence, f"zfs set sync=standard {quote(store.dataset)}", store.id)


def _thick(store: Datastore, space: Admitted) -> Check:
    title, remedy = "The space of its files is counted", "zvaai reconcile; see the log of nfs-ganesha"
    if space.admitted is None or space.problem:
        return Check("thick", title, UNKNOWN if space.admitted is None else FAILED, space.problem, remedy, store.id)
    if space.counting:
        evidence = "the NFS server still counts: a file can grow by 1 MiB at a time"
        remedy = "The count runs in the background. Check again in some minutes"
        return Check("thick", title, WARNING, evidence, remedy, store.id)
    return Check("thick", title, OK, f"its files need {space.admitted} of {store.size} bytes", "", store.id)
