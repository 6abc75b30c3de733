# SPDX-License-Identifier: Apache-2.0
"""Portals of the iSCSI target. The target stores them: they belong to this server's network, and to no backup."""

from collections.abc import Sequence

from appliance.dataplane.target import Portal
from appliance.domain.addresses import Address, covers, obstacle
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context


def obstacles(portals: Sequence[Portal], local: Sequence[Address]) -> dict[str, str]:
    """Why hosts cannot reach portals, by address; without those that have no known obstacle."""
    reasons = {portal.address: portal.problem or obstacle(portal.address, local) for portal in portals}
    return {address: reason for address, reason in reasons.items() if reason}


def change(context: Context, address: str, portal: Portal, *, force: bool) -> None:
    """Replaces the portal at `address`. Raises ConflictError for hosts that lose their path, unless `force`."""
    _check(context, address, [*_others(context, address), portal], force)
    context.target.change_portal(address, portal)


def delete(context: Context, address: str, *, force: bool) -> None:
    """Removes a portal. Raises ConflictError for hosts that lose their path, unless `force`."""
    _check(context, address, _others(context, address), force)
    context.target.delete_portal(address)


def _others(context: Context, address: str) -> list[Portal]:
    """All portals except that at this address. Raises NotFoundError."""
    portals = context.target.portals()
    if all(portal.address != address for portal in portals):
        raise NotFoundError("portal", address)
    return [portal for portal in portals if portal.address != address]


def _check(context: Context, before: str, after: Sequence[Portal], force: bool) -> None:
    """Connections end with the last portal of their portal group. Others stay, but their hosts cannot log in again there."""
    if force:
        return
    sessions, groups = context.sessions(), {None, *(portal.group_tag for portal in after)}
    if ending := sorted({session.initiator for session in sessions if session.portal_group not in groups}):
        raise ConflictError(
            "the last portal of a group would be deleted, and these hosts would lose their connections", ending, can_force=True
        )
    left = {
        session.initiator
        for session in sessions
        if covers(before, session.portal) and not any(covers(portal.address, session.portal) for portal in after)
    }
    if left:
        raise ConflictError(
            "no portal would listen at the address that these hosts use, and they could not log in there again",
            sorted(left),
            can_force=True,
        )
