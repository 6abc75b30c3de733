# SPDX-License-Identifier: Apache-2.0
"""The network of the server."""

from appliance.api.types import Answer
from appliance.worker.network import ClockResponse, InterfaceResponse


class NetworkResponse(Answer):
    """The network of the server, read-only: Cockpit or nmtui changes it."""

    hostname: str
    dns_servers: list[str]
    search_domains: list[str]
    time: ClockResponse
    interfaces: list[InterfaceResponse]
