# SPDX-License-Identifier: Apache-2.0
"""All resources of the API: importing this module loads all declarations."""

from appliance.api import (
    appliance_resource,
    configuration,
    datastores,
    events,
    files,
    history,
    hosts,
    journal,
    logins,
    maintenance,
    metrics,
    network,
    pools,
    portals,
    receivers,
    schedules,
    sessions,
    snapshots,
    support,
    users,
)

RESOURCES = (
    sessions, users, logins, appliance_resource, pools, datastores, files, snapshots, schedules, hosts, network, portals, journal,
    receivers, configuration, events, history, metrics, support,
    maintenance,
)  # fmt: skip
