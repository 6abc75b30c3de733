# SPDX-License-Identifier: Apache-2.0
"""Hosts, host groups, sessions of hosts."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from appliance.api.types import Answer, Versioned
from appliance.domain import hosts
from appliance.domain.errors import InvalidError
from appliance.domain.fields import Identifier, Model, Name, Time

Offload = Literal["compare_and_write", "extended_copy", "write_same", "unmap", "token"]


class Chap(Model):
    """CHAP name and secret of a host. The secret is never returned."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
    secret: Annotated[str, Field(min_length=12, max_length=255, pattern=r"^[ -~]+$")]


def _checked(check: Callable[[list[str]], object]) -> AfterValidator:
    """By the domain's rule, so that one refusal names all fields that are wrong."""

    def validate(values: list[str]) -> list[str]:
        try:
            check(values)
        except InvalidError as error:
            raise ValueError(f"{error.reason}; allowed: {error.allowed}") from error
        return values

    return AfterValidator(validate)


Iqns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=223)]],
    Field(max_length=32),
    _checked(lambda names: hosts.check_iqns([name.lower() for name in names])),
]
Addresses = Annotated[
    list[Annotated[str, Field(min_length=2, max_length=45)]], Field(max_length=32), _checked(hosts.check_addresses)
]


class HostResponse(Versioned):
    """An ESXi host."""

    id: str
    name: str
    group: str | None
    iqns: list[str]
    addresses: list[str]
    chap_name: str | None
    chap_revision: int
    """How often its CHAP name and secret were set or taken away: a host with another secret is another version."""
    created_at: Time


class ChapUpdate(Chap):
    """`force`: also while the host is logged in by its present secret."""

    force: bool = False


class HostCreate(Model):
    """A new host."""

    name: Name
    group: Identifier | None = None
    iqns: Iqns = []
    addresses: Addresses = []
    chap: Chap | None = None


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
    disabled_offloads: Annotated[list[Offload], Field(max_length=5)] = []


class GroupUpdate(Model):
    """Fields to change."""

    name: Name | None = None
    disabled_offloads: Annotated[list[Offload], Field(max_length=5)] | None = None


class SessionOfHost(Answer):
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
