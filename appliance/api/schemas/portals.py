# SPDX-License-Identifier: Apache-2.0
"""Portals: where hosts reach the iSCSI target."""

from typing import Annotated

from pydantic import Field

from appliance.api.types import Answer
from appliance.domain.fields import Model

PortalAddress = Annotated[str, Field(min_length=3, max_length=64)]
GroupTag = Annotated[int, Field(ge=1, le=65535)]


class PortalResponse(Answer):
    """A portal. Paths of different groups are different target ports to hosts."""

    address: str
    """With port. 0.0.0.0 and [::] mean every address of their family."""
    group_tag: int
    advertised: str | None
    """The address that discovery reports instead of this one."""
    interfaces: list[str]
    """Network interfaces by which hosts reach it."""
    problem: str
    """Why hosts do not reach it, or empty."""


class PortalCreate(Model):
    """Where to listen: an `address` with port, or the first address of an `interface` at port 3260.

    `replaces` is the portal whose place it takes. A portal at every address excludes all others: replace it.
    """

    address: PortalAddress | None = None
    interface: Annotated[str, Field(min_length=1, max_length=15)] | None = None
    group_tag: GroupTag = 1
    advertised: PortalAddress | None = None
    replaces: PortalAddress | None = None
    force: bool = False


class PortalUpdate(Model):
    """Fields to change; an `advertised` of null takes it away. `force`: also if hosts lose connections."""

    address: PortalAddress | None = None
    group_tag: GroupTag | None = None
    advertised: PortalAddress | None = None
    force: bool = False
