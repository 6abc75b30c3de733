# SPDX-License-Identifier: Apache-2.0
"""Presentation of NFS datastores to hosts: export number, mount path, clients."""

import ipaddress
from collections.abc import Collection, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.database.models import Export, ExportGroup, Host
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.hosts import group
from appliance.domain.identity import EXPORTS

CLIENTS = 256
IDLE_SECONDS = 90
"""ESXi checks each mounted datastore every 12 s (NFS.HeartbeatFrequency). Who was silent for so long does not use it."""


def check_clients(clients: Sequence[str]) -> list[str]:
    """Addresses and networks (CIDR) in canonical form. Raises InvalidError."""
    try:
        networks = {ipaddress.ip_network(client) for client in clients}
        if any("%" in client for client in clients):
            raise ValueError("an address with a scope is one of this server only")
        if any(network.version == 6 and 100 <= network.prefixlen < 128 for network in networks):
            raise ValueError("ganesha reads only two digits of a prefix: write a prefix up to /99, or single addresses")
    except ValueError as error:
        raise InvalidError("clients", str(error), "IPv4 or IPv6 addresses, or networks such as 192.0.2.0/24") from error
    if len(networks) > CLIENTS:
        raise InvalidError("clients", f"{len(networks)} of them", f"{CLIENTS} at most")
    return sorted(str(network.network_address if network.num_addresses == 1 else network) for network in networks)


def free_number(
    session: Session, recorded: Collection[int | None], preferred: int | None, taken_elsewhere: Collection[int | None] = ()
) -> int:
    """A number that neither an export nor one of those has: the preferred one if it is free, else the lowest.

    The lowest is none of `recorded`, as a restore gives a deleted datastore its number again: hosts' handles contain it.
    """
    taken = {*session.scalars(select(Export.number)), *taken_elsewhere}
    if preferred is not None and preferred not in taken:
        return preferred
    taken |= {*recorded}
    for number in range(1, EXPORTS + 1):
        if number not in taken:
            return number
    raise ConflictError(f"all {EXPORTS} numbers of exports are taken, also by deleted datastores. Purge some of these")


def free_share(session: Session, name: str, uuid: str, preferred: str | None, pending: Collection[str | None] = ()) -> str:
    """The path that hosts mount: the earlier one, or one from the name; with a part of the UUID if that is in use."""
    taken = {*session.scalars(select(Export.share)), *pending}
    for share in (preferred, f"/{name}", f"/{name}-{uuid[:8]}"):
        if share is not None and share not in taken:
            return share
    return f"/{uuid}"


def check(session: Session, uuid: str, number: int, share: str) -> None:
    """Raises ConflictError where number or path of an export are another datastore's."""
    others = select(Export.datastore).where((Export.number == number) | (Export.share == share), Export.datastore != uuid)
    if other := session.scalar(others.limit(1)):
        raise ConflictError(f"export {number} or its path {share} is another datastore's", [other])


def show(
    session: Session,
    uuid: str,
    number: int,
    share: str,
    *,
    clients: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> None:
    """Exports a datastore under this number and path. Values of None do not change, or get their default. Raises ConflictError if
    another datastore has the number or path.
    """
    check(session, uuid, number, share)
    export = session.get(Export, uuid)
    if export is None:
        export = Export(datastore=uuid, number=number, share=share, clients=[])
        session.add(export)
    export.number, export.share = number, share
    if clients is not None:
        export.clients = list(clients)
    session.flush()
    if groups is not None:
        session.execute(delete(ExportGroup).where(ExportGroup.datastore == uuid))
        session.add_all(ExportGroup(datastore=uuid, group_id=group(session, group_id).id) for group_id in sorted(set(groups)))
    session.flush()


def forget(session: Session, uuid: str) -> None:
    session.execute(delete(ExportGroup).where(ExportGroup.datastore == uuid))
    session.execute(delete(Export).where(Export.datastore == uuid))


def addresses(session: Session, groups: Collection[str]) -> dict[str, str]:
    """Addresses of the hosts in these groups, and the hosts' names."""
    names = {}
    for host in session.scalars(select(Host).where(Host.group_id.in_(groups)).order_by(Host.name)):
        names.update(dict.fromkeys(host.addresses, host.name))
    return names


def is_within(address: str, clients: Collection[str]) -> bool:
    """Whether an address or network equals one of these, or is in one of these networks."""
    try:
        network = ipaddress.ip_network(address)
    except ValueError:
        return False
    return any(_is_in(network, ipaddress.ip_network(client)) for client in clients)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _is_in(inner: Network, other: Network) -> bool:
    return inner.version == other.version and other.prefixlen <= inner.prefixlen and inner.network_address in other
