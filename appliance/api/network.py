# SPDX-License-Identifier: Apache-2.0
"""The network of the server, and whether packets of the full MTU reach hosts."""

import contextlib

from appliance.api.operation import Call, Resource
from appliance.api.schemas.common import Page
from appliance.api.schemas.network import NetworkResponse
from appliance.domain import hosts
from appliance.domain.access import Role
from appliance.domain.addresses import split_portal
from appliance.domain.errors import ConflictError, UnavailableError
from appliance.worker import network, ping

resource = Resource("network")


@resource.operation("GET", "/network", role=Role.VIEWER)
def read_network(call: Call) -> NetworkResponse:
    """Interfaces, host name, DNS and time synchronisation of the server."""
    return NetworkResponse.model_validate(network.read(call.context.configuration.nfs.bus))


@resource.operation("POST", "/hosts/<host_id>/ping", role=Role.OPERATOR, audit="host.ping")
def ping_host(call: Call, host_id: str) -> Page[ping.PingResponse]:
    """Pings each known address of a host at full MTU: those that are set, and those of its iSCSI sessions."""
    with call.context.store.reading() as session:
        host = hosts.host(session, host_id)
        addresses, iqns, name = set(host.addresses), set(hosts.initiators(session, host_id)), host.name
    with contextlib.suppress(UnavailableError):  # of the target
        addresses |= {split_portal(each.peer)[0] for each in call.context.sessions() if each.initiator in iqns}
    if not addresses:
        raise ConflictError("no address of the host is known: it is not logged in, and no address is set", [name])
    return Page[ping.PingResponse].model_validate({"items": ping.ping(sorted(addresses)), "next_cursor": None})
