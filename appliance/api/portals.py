# SPDX-License-Identifier: Apache-2.0
"""Portals of the iSCSI target: address, port, group, by network interface."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas.common import EmptyResponse, ForceQuery, ListQuery, Page
from appliance.api.schemas.portals import PortalCreate, PortalResponse, PortalUpdate
from appliance.dataplane.target import Portal
from appliance.domain.access import Role
from appliance.domain.addresses import Address, join_portal, local_addresses, obstacle, reachable, split_portal
from appliance.domain.errors import InvalidError, NotFoundError
from appliance.worker import portals

resource = Resource("portals")
ISCSI_PORT = 3260
_EXAMPLES = "192.0.2.1:3260 or [2001:db8::1]:3260"


def _shown(portal: Portal, local: list[Address]) -> PortalResponse:
    interfaces = {address.address: address.interface for address in local}
    used = [split_portal(portal_address)[0] for portal_address in reachable([portal.address], local)]
    reached = sorted({interfaces[address] for address in used if address in interfaces})
    reason = portal.problem or obstacle(portal.address, local)
    return PortalResponse(**vars(portal) | {"problem": reason}, interfaces=reached)


def _checked(field: str, portal: str) -> str:
    try:
        return join_portal(*split_portal(portal))
    except ValueError as error:
        raise InvalidError(field, str(error), _EXAMPLES) from error


def _address(body: PortalCreate) -> str:
    if (body.address is None) == (body.interface is None):
        raise InvalidError("address", "give either an address or an interface", _EXAMPLES)
    if body.address is not None:
        return _checked("address", body.address)
    local = local_addresses()
    for address in local:
        if address.interface == body.interface:
            return join_portal(address.address, ISCSI_PORT)
    names = ", ".join(sorted({address.interface for address in local}))
    raise InvalidError("interface", f"{body.interface} has no address", f"an interface with an address: {names or 'none'}")


@resource.operation("GET", "/portals", role=Role.VIEWER)
def list_portals(call: Call, query: ListQuery) -> Page[PortalResponse]:
    """All portals, with the network interfaces that lead to them."""
    local = local_addresses()
    shown = [_shown(portal, local) for portal in call.context.target.portals()]
    return page(PortalResponse, sorted(shown, key=lambda portal: portal.address), query, lambda portal: portal.address)


@resource.operation("POST", "/portals", role=Role.ADMIN, audit="portal.create", status=201)
def create_portal(call: Call, body: PortalCreate) -> PortalResponse:
    """Adds a portal, or puts it in the place of another."""
    address = _address(body)
    portal = Portal(address, body.group_tag, None if body.advertised is None else _checked("advertised", body.advertised))
    replaces = None if body.replaces is None else _checked("replaces", body.replaces)
    call.subject = address
    if replaces is None:
        call.context.target.create_portal(portal)
    else:
        portals.change(call.context, replaces, portal, force=body.force)
    return _shown(portal, local_addresses())


@resource.operation("PATCH", "/portals/<portal>", role=Role.ADMIN, audit="portal.change")
def change_portal(call: Call, portal: str, body: PortalUpdate) -> PortalResponse:
    """Changes the given fields. Refused if hosts lose connections or could not log in again, unless forced."""
    for current in call.context.target.portals():
        if current.address == portal:
            break
    else:
        raise NotFoundError("portal", portal)
    advertised = current.advertised if "advertised" not in body.model_fields_set else None
    changed = Portal(
        current.address if body.address is None else _checked("address", body.address),
        body.group_tag or current.group_tag,
        advertised if body.advertised is None else _checked("advertised", body.advertised),
    )
    portals.change(call.context, portal, changed, force=body.force)
    return _shown(changed, local_addresses())


@resource.operation("DELETE", "/portals/<portal>", role=Role.ADMIN, audit="portal.delete")
def delete_portal(call: Call, portal: str, query: ForceQuery) -> EmptyResponse:
    """Stops listening at a portal. Refused if hosts lose connections or could not log in again, unless forced."""
    call.subject = portal
    portals.delete(call.context, portal, force=query.force)
    return EmptyResponse()
