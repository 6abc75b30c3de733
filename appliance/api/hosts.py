# SPDX-License-Identifier: Apache-2.0
"""Hosts, host groups, and who is logged in."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import hosts as schemas
from appliance.api.schemas.common import EmptyResponse, ForceQuery, ListQuery, Page
from appliance.database.models import Host, HostGroup
from appliance.domain import hosts
from appliance.domain.access import Role
from appliance.domain.datastores import NFS, VMFS, kinds_shown
from appliance.worker.service import ClientResponse

resource = Resource("hosts")


def _host(
    session: Session, host: Host, iqns: list[str] | None = None, seen: Mapping[str, float] | None = None
) -> schemas.HostResponse:
    return schemas.HostResponse(
        id=host.id, name=host.name, group=host.group_id, addresses=host.addresses, chap_name=host.chap_name,
        chap_revision=host.chap_revision, iqns=hosts.initiators(session, host.id) if iqns is None else iqns,
        last_seen_at=(hosts.last_seen(session) if seen is None else seen).get(host.id), created_at=host.created_at,
    )  # fmt: skip


def _group(session: Session, group: HostGroup) -> schemas.GroupResponse:
    members = session.scalars(select(Host.id).where(Host.group_id == group.id).order_by(Host.name)).all()
    values = {"disabled_offloads": group.disabled, "hosts": list(members), "created_at": group.created_at}
    return schemas.GroupResponse.model_validate({"id": group.id, "name": group.name, **values})


def _using(call: Call, host_id: str) -> set[str]:
    """iSCSI names that are logged in, and addresses that use NFS datastores. Queries only data planes that serve the host."""
    with call.context.store.reading() as session:
        kinds = kinds_shown(session, hosts.host(session, host_id).group_id)
    names = set(_logged_in(call)) if VMFS in kinds else set()
    return names | (call.context.nfs_addresses() if NFS in kinds else set())


def _logged_in(call: Call) -> list[str]:
    return [session.initiator for session in call.context.sessions()]


@resource.operation("GET", "/hosts", role=Role.VIEWER)
def list_hosts(call: Call, session: Session, query: ListQuery) -> Page[schemas.HostResponse]:
    """All hosts, by name."""
    rows, iqns = session.scalars(select(Host).order_by(Host.name)).all(), hosts.all_initiators(session)
    seen = hosts.last_seen(session)
    return page(
        schemas.HostResponse, rows, query, lambda host: host.name, lambda host: _host(session, host, iqns.get(host.id, []), seen)
    )


@resource.operation("POST", "/hosts", role=Role.OPERATOR, audit="host.create", status=201)
def create_host(call: Call, session: Session, body: hosts.HostCreate) -> schemas.HostResponse:
    """A new host."""
    call.changed()
    return _host(session, hosts.add_host(session, call.context.seal, body))


@resource.operation("GET", "/hosts/<host_id>", role=Role.VIEWER)
def read_host(call: Call, session: Session, host_id: str) -> schemas.HostResponse:
    """A host."""
    return _host(session, hosts.host(session, host_id))


@resource.operation("PATCH", "/hosts/<host_id>", role=Role.OPERATOR, audit="host.change", matches=True)
def change_host(call: Call, host_id: str, body: schemas.HostUpdate) -> schemas.HostResponse:
    """Name, group, iSCSI names, addresses.

    Needs `force` to remove a name or address that is in use, or to move a host in use to a group that sees fewer datastores.
    """
    moves = "group" in body.model_fields_set
    checks_use = not body.force and (moves or body.iqns is not None or body.addresses is not None)
    logged_in = _using(call, host_id) if checks_use else set()
    with call.changing() as session:
        host = hosts.host(session, host_id)
        call.match(_host(session, host))
        if moves and host.group_id not in (None, body.group) and not hosts.sees_all_of(session, body.group, host.group_id):
            hosts.check_unused(session, host_id, logged_in, body.force)
        if body.iqns is not None:
            removed = set(hosts.initiators(session, host_id)) - {name.lower() for name in body.iqns}
            hosts.check_unused(session, host_id, logged_in & removed, body.force)
        if body.addresses is not None and (gone := set(host.addresses) - set(hosts.check_addresses(body.addresses))):
            hosts.check_unused(session, host_id, logged_in & gone, body.force)
        host = hosts.change_host(session, host_id, name=body.name, iqns=body.iqns, addresses=body.addresses)
        if moves:
            host = hosts.move_host(session, host_id, body.group)
        call.changed()
        return _host(session, host)


@resource.operation("DELETE", "/hosts/<host_id>", role=Role.OPERATOR, audit="host.delete", matches=True)
def delete_host(call: Call, host_id: str, query: ForceQuery) -> EmptyResponse:
    """It can't log in any more. Refused while it is logged in, unless forced."""
    logged_in = set() if query.force else _using(call, host_id)
    with call.changing() as session:
        call.match(_host(session, hosts.host(session, host_id)))
        hosts.check_unused(session, host_id, logged_in, query.force)
        hosts.delete_host(session, host_id)
    call.changed()
    return EmptyResponse()


@resource.operation("PUT", "/hosts/<host_id>/chap", role=Role.OPERATOR, audit="host.chap", matches=True)
def set_chap(call: Call, host_id: str, body: schemas.ChapUpdate) -> schemas.HostResponse:
    """Sets its CHAP name and secret, for its next login.

    Refused if CHAP is required and the host is logged in by its present secret, unless forced.
    """
    return _with_chap(call, host_id, (body.name, body.secret), body.force)


@resource.operation("DELETE", "/hosts/<host_id>/chap", role=Role.OPERATOR, audit="host.chap", matches=True)
def delete_chap(call: Call, host_id: str, query: ForceQuery) -> schemas.HostResponse:
    """Removes its secret. While CHAP is required the host cannot log in then: refused if it is logged in, unless forced."""
    return _with_chap(call, host_id, None, query.force)


def _with_chap(call: Call, host_id: str, chap: tuple[str, str] | None, force: bool) -> schemas.HostResponse:
    logged_in = [] if force else _logged_in(call)
    with call.changing() as session:
        host = hosts.host(session, host_id)
        hosts.check_chap_unused(session, host_id, logged_in, force)
        call.match(_host(session, host))
        hosts.set_chap(session, call.context.seal, host_id, chap)
        call.changed()
        return _host(session, host)


@resource.operation("GET", "/host-groups", role=Role.VIEWER)
def list_groups(call: Call, session: Session, query: ListQuery) -> Page[schemas.GroupResponse]:
    """All host groups, by name."""
    rows = session.scalars(select(HostGroup).order_by(HostGroup.name)).all()
    return page(schemas.GroupResponse, rows, query, lambda group: group.name, lambda group: _group(session, group))


@resource.operation("POST", "/host-groups", role=Role.OPERATOR, audit="host_group.create", status=201)
def create_group(call: Call, session: Session, body: schemas.GroupCreate) -> schemas.GroupResponse:
    """A new host group, without hosts."""
    call.changed()
    return _group(session, hosts.add_group(session, body.name, body.disabled_offloads))


@resource.operation("GET", "/host-groups/<group_id>", role=Role.VIEWER)
def read_group(call: Call, session: Session, group_id: str) -> schemas.GroupResponse:
    """A host group."""
    return _group(session, hosts.group(session, group_id))


@resource.operation("PATCH", "/host-groups/<group_id>", role=Role.OPERATOR, audit="host_group.change", matches=True)
def change_group(call: Call, session: Session, group_id: str, body: schemas.GroupUpdate) -> schemas.GroupResponse:
    """Its name, and the offloads its hosts are not offered."""
    call.match(_group(session, hosts.group(session, group_id)))
    call.changed()
    return _group(session, hosts.change_group(session, group_id, name=body.name, disabled=body.disabled_offloads))


@resource.operation("DELETE", "/host-groups/<group_id>", role=Role.OPERATOR, audit="host_group.delete", matches=True)
def delete_group(call: Call, session: Session, group_id: str) -> EmptyResponse:
    """Refused while it has hosts, or datastores are presented to it."""
    call.match(_group(session, hosts.group(session, group_id)))
    hosts.delete_group(session, group_id)
    call.changed()
    return EmptyResponse()


@resource.operation("GET", "/sessions", role=Role.VIEWER)
def list_sessions(call: Call, query: ListQuery) -> Page[schemas.IscsiSessionResponse]:
    """Sessions of the iSCSI target, with their paths."""
    sessions = sorted(call.context.sessions(), key=lambda session: (session.initiator, session.peer))
    return page(schemas.IscsiSessionResponse, sessions, query, lambda session: f"{session.initiator}\0{session.peer}")


@resource.operation("GET", "/unknown-initiators", role=Role.VIEWER)
def list_unknown(call: Call, query: ListQuery) -> Page[schemas.UnknownInitiatorResponse]:
    """The last 32 iSCSI initiators of no host that tried to log in or looked for targets, since the target started."""
    with call.context.store.reading() as session:
        known = {iqn for iqns in hosts.all_initiators(session).values() for iqn in iqns}
    unknown = [initiator for initiator in call.context.target.unknown_initiators() if initiator.initiator not in known]
    unknown.sort(key=lambda initiator: (initiator.initiator, initiator.address))
    return page(schemas.UnknownInitiatorResponse, unknown, query, lambda initiator: f"{initiator.initiator}\0{initiator.address}")


@resource.operation("GET", "/nfs-clients", role=Role.VIEWER)
def list_clients(call: Call, query: ListQuery) -> Page[ClientResponse]:
    """Clients that the NFS server knows, and the datastores each may be using."""
    return page(ClientResponse, call.worker.nfs_clients(), query, lambda client: client.address)
