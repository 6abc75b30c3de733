# SPDX-License-Identifier: Apache-2.0
"""Portals of the iSCSI target. The target stores them: they belong to this server's network, and to no backup."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from appliance.dataplane.target import Portal
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors


def listed(context: Context) -> dict[str, Any]:
    """All portals; `fixed` if the command line of the target sets them."""
    with as_domain_errors():
        portals, fixed = context.target.portals()
    return {"portals": [asdict(portal) for portal in portals], "fixed": fixed}


def create(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Adds a portal, or replaces the portal `replaces`."""
    portal = Portal(arguments["address"], arguments["group_tag"], arguments["advertised"])
    if (replaces := arguments.get("replaces")) is not None:
        return change(context, {**arguments, "portal": replaces})
    with as_domain_errors():
        context.target.create_portal(portal)
    return asdict(portal)


def change(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replaces `portal`. Raises ConflictError for hosts whose connections end, unless `force`."""
    portal = Portal(arguments["address"], arguments["group_tag"], arguments["advertised"])
    others = _others(context, arguments["portal"])
    _check(context, {one.group_tag for one in others} | {portal.group_tag}, arguments["force"])
    with as_domain_errors():
        context.target.change_portal(arguments["portal"], portal)
    return asdict(portal)


def delete(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Removes a portal. Raises ConflictError for hosts whose connections end, unless `force`."""
    _check(context, {one.group_tag for one in _others(context, arguments["portal"])}, arguments["force"])
    with as_domain_errors():
        context.target.delete_portal(arguments["portal"])
    return {}


def _others(context: Context, address: str) -> list[Portal]:
    """All but the one at this address. Raises NotFoundError."""
    with as_domain_errors():
        portals, _ = context.target.portals()
    if all(portal.address != address for portal in portals):
        raise NotFoundError("portal", address)
    return [portal for portal in portals if portal.address != address]


def _check(context: Context, groups: set[int], force: bool) -> None:
    """Connections end with the last portal of their portal group."""
    if force:
        return
    with as_domain_errors():
        sessions = context.target.sessions(context.configuration.target.name)
    ending = sorted({one.initiator for one in sessions if one.portal_group not in (None, *groups)})
    if ending:
        raise ConflictError("the last portal of a group goes, and these hosts lose their connections", ending, can_force=True)
