# SPDX-License-Identifier: Apache-2.0
"""Updates of the server, its reboot and its shutdown."""

from __future__ import annotations

from typing import Literal

from appliance.api.schemas.journal import JobResponse
from appliance.api.types import Answer
from appliance.domain.fields import Model, Password, Time


class PackageUpdateResponse(Answer):
    """A package that serves hosts or the console, and what its upgrade does to them. `installed` is null for a new one."""

    name: str
    installed: str | None
    version: str
    effect: str


class UpdatesResponse(Answer):
    """Pending updates as apt would install them; `others` counts those without an effect on hosts."""

    packages: list[PackageUpdateResponse]
    others: int
    refreshed_at: Time | None
    """Time of the last `apt update`."""
    obstacles: list[str]
    reboot: list[str]
    """Why the server needs a reboot; empty if it needs none."""
    notes: str
    """Changes of the new zvaai (Markdown), if its repository publishes them."""


class PowerResponse(Answer):
    """Users of the server now: hosts by name, users of the console, jobs that run or wait."""

    iscsi_hosts: list[str]
    nfs_clients: list[str]
    console_users: list[str]
    unknown: list[str]
    """Servers that do not answer: their users are unknown."""
    jobs: list[JobResponse]
    warning: str
    """A kernel of the next boot without OpenZFS, with the remedy; else empty."""


class PowerUpdate(Model):
    """Reboot or shutdown, and the caller's own password."""

    action: Literal["reboot", "off"]
    password: Password
