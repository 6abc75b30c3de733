# SPDX-License-Identifier: Apache-2.0
"""Portals of the iSCSI target. The target stores them: they belong to this server's network, and to no backup."""

from appliance.dataplane.target import Portal
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context


def change(context: Context, address: str, portal: Portal, *, force: bool) -> None:
    """Replaces the portal at `address`. Raises ConflictError for hosts whose connections end, unless `force`."""
    _check(context, {other.group_tag for other in _others(context, address)} | {portal.group_tag}, force)
    context.target.change_portal(address, portal)


def delete(context: Context, address: str, *, force: bool) -> None:
    """Removes a portal. Raises ConflictError for hosts whose connections end, unless `force`."""
    _check(context, {other.group_tag for other in _others(context, address)}, force)
    context.target.delete_portal(address)


def _others(context: Context, address: str) -> list[Portal]:
    """All portals except that at this address. Raises NotFoundError."""
    portals = context.target.portals()
    if all(portal.address != address for portal in portals):
        raise NotFoundError("portal", address)
    return [portal for portal in portals if portal.address != address]


def _check(context: Context, groups: set[int], force: bool) -> None:
    """Connections end with the last portal of their portal group."""
    if force:
        return
    ending = sorted({session.initiator for session in context.sessions() if session.portal_group not in (None, *groups)})
    if ending:
        raise ConflictError(
            "the last portal of a group would be deleted, and these hosts would lose their connections", ending, can_force=True
        )
