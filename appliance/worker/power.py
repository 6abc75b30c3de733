# SPDX-License-Identifier: Apache-2.0
"""Who uses this server now, before it is rebooted or shut down."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import select

from appliance.database.models import Host, HostInitiator, LoginSession, User
from appliance.domain.access import SESSION_IDLE_S, SESSION_LONGEST_S
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
    present, now = Users(), time.time()
    with context.store.reading() as session:
        hosts = session.scalars(select(Host))
        by_address = {address: f"{host.name} ({address})" for host in hosts for address in host.addresses}
        named = select(HostInitiator.iqn, Host.name).join(Host, Host.id == HostInitiator.host_id)
        by_iqn = dict(session.execute(named).tuples().all())
        live = (LoginSession.used_at >= now - SESSION_IDLE_S) & (LoginSession.created_at >= now - SESSION_LONGEST_S)
        logged_in = select(User.name).join(LoginSession, LoginSession.user_id == User.id).where(live, ~User.disabled)
        present.console_users = sorted(set(session.scalars(logged_in)))
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
