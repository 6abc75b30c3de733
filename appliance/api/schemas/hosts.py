# SPDX-License-Identifier: Apache-2.0
"""Hosts, host groups, sessions of hosts."""

from typing import Annotated

from pydantic import Field

from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Identifier, Model, Name, Time
from appliance.domain.hosts import Addresses, ChapCreate, Iqns, Offload


class HostResponse(Versioned):
    """An ESXi host."""

    MEASURED = frozenset({"last_seen_at"})
    id: str
    name: str
    group: str | None
    iqns: list[str]
    addresses: list[str]
    chap_name: str | None
    chap_revision: int
    """How often its CHAP name and secret were set or taken away: a host with another secret is another version."""
    last_seen_at: Time | None
    """When it last had an iSCSI session or used NFS, to the minute; null if it never did."""
    created_at: Time


class ChapUpdate(ChapCreate):
    """`force`: also while the host is logged in by its present secret."""

    force: bool = False


class HostUpdate(Model):
    """Fields to change; a `group` of null takes it out of its group. `force`: also while it is logged in."""

    name: Name | None = None
    group: Identifier | None = None
    iqns: Iqns | None = None
    addresses: Addresses | None = None
    force: bool = False


class GroupResponse(Versioned):
    """A host group."""

    id: str
    name: str
    disabled_offloads: list[Offload]
    hosts: list[str]
    created_at: Time


class GroupCreate(Model):
    """A new host group."""

    name: Name
    disabled_offloads: Annotated[list[Offload], Field(max_length=4)] = []


class GroupUpdate(Model):
    """Fields to change."""

    name: Name | None = None
    disabled_offloads: Annotated[list[Offload], Field(max_length=4)] | None = None


class IscsiSessionResponse(Answer):
    """An iSCSI session."""

    initiator: str
    target: str
    peer: str
    portal: str
    logged_in_at: Time
    account: str | None


class UnknownInitiatorResponse(Answer):
    """An iSCSI initiator of no host. It tried to log in or looked for targets, last `at`."""

    initiator: str
    address: str
    at: Time
