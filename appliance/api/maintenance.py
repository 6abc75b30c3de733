# SPDX-License-Identifier: Apache-2.0
"""Updates of the server, its reboot and its shutdown."""

from sqlalchemy import select

from appliance import updates
from appliance.api.operation import Call, Resource
from appliance.api.schemas.common import EmptyResponse
from appliance.api.schemas.journal import JobResponse
from appliance.api.schemas.maintenance import PowerResponse, PowerUpdate, UpdatesResponse
from appliance.api.sessions import confirm_password
from appliance.database.models import Job
from appliance.domain import jobs
from appliance.domain.access import Role
from appliance.domain.errors import DomainError, UnavailableError
from appliance.worker import power

resource = Resource("maintenance")
_LIMIT_S = 50
"""The HTTP process waits 60 s."""


@resource.operation("GET", "/updates", role=Role.VIEWER)
def read_updates(call: Call) -> UpdatesResponse:
    """Pending updates by apt's lists, obstacles, and whether the server needs a reboot. apt installs them, in a shell."""
    try:
        unhealthy = ", ".join(f"{pool.name} is {pool.health}" for pool, *_ in call.worker.pools() if pool.health != "ONLINE")
    except DomainError as error:
        unhealthy = str(error)
    try:
        return UpdatesResponse.model_validate(updates.read(unhealthy, _LIMIT_S))
    except updates.UpdatesError as error:
        raise UnavailableError(str(error)) from error


@resource.operation("GET", "/power", role=Role.ADMIN)
def read_power(call: Call) -> PowerResponse:
    """Hosts, NFS clients, users of the console and jobs that a reboot interrupts, and whether the next kernel has OpenZFS."""
    used = power.users(call.context)
    kernel = updates.unprepared_kernel()
    warning = ". Run: ".join(updates.without_openzfs(kernel)) if kernel else ""
    with call.context.store.reading() as session:
        running = session.scalars(select(Job).where(Job.state.in_(jobs.ACTIVE)).order_by(Job.sequence))
        return PowerResponse(**vars(used), jobs=[JobResponse.model_validate(job) for job in running], warning=warning)


@resource.operation("POST", "/power", role=Role.ADMIN, audit="power.change")
def change_power(call: Call, body: PowerUpdate) -> EmptyResponse:
    """Reboots the server, or shuts it down. Hosts wait, and running jobs continue afterwards."""
    confirm_password(call, body.password, "password")
    call.context.shut_down(body.action == "reboot")
    return EmptyResponse()
