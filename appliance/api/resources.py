# SPDX-License-Identifier: Apache-2.0
"""All resources of the API: whoever imports this has all declarations."""

from __future__ import annotations

from appliance.api import (
    appliance_resource,
    configuration,
    datastores,
    events,
    files,
    hosts,
    journal,
    metrics,
    pools,
    schedules,
    sessions,
    snapshots,
    support,
    users,
    webhooks,
)

RESOURCES = (
    sessions, users, appliance_resource, pools, datastores, files, snapshots, schedules, hosts, journal, webhooks, configuration,
    events, metrics, support,
)  # fmt: skip
