# SPDX-License-Identifier: Apache-2.0
"""Who uses this server now, before it is rebooted or shut down."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import select

from appliance.database.models import Host, HostInitiator
from appliance.domain.access import logged_in
from appliance.domain.errors import DomainError
from appliance.worker.context import Context


@dataclass
class Users:
    """Names of hosts, or else the initiator or address; `unknown`: what did not answer."""

    iscsi_hosts: list[str] = field(default_factory=list)
    nfs_clients: list[str] = field(default_factory=list)
    console_users: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def users(context: Context) -> Users:
    present = Users()
    with context.store.reading() as session:
        hosts = session.scalars(select(Host))
        by_address = {address: f"{host.name} ({address})" for host in hosts for address in host.addresses}
        named = select(HostInitiator.iqn, Host.name).join(Host, Host.id == HostInitiator.host_id)
        by_iqn = dict(session.execute(named).tuples().all())
        present.console_users = logged_in(session)
    with _or_unknown(present, "iSCSI target"):
        present.iscsi_hosts = sorted({by_iqn.get(each.initiator, each.initiator) for each in context.sessions()})
    with _or_unknown(present, "NFS server"):
        present.nfs_clients = sorted(by_address.get(address, address) for address in context.nfs_addresses())
    return present


@contextlib.contextmanager
def _or_unknown(present: Users, server: str) -> Iterator[None]:
    try:
        yield
    except DomainError:
        present.unknown.append(server)
