# SPDX-License-Identifier: Apache-2.0
"""The appliance as a whole: status, readiness, settings, reconciling."""

import contextlib
import logging

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from appliance import __version__
from appliance.api import certificate
from appliance.api.operation import Call, Resource
from appliance.api.schemas.service import (
    CertificateResponse,
    CertificateUpdate,
    HealthResponse,
    IscsiSettingsResponse,
    IscsiSettingsUpdate,
    OffloadsResponse,
    PoolStateResponse,
    ReadinessResponse,
    ReconcileResponse,
    StatusResponse,
    TargetStateResponse,
)
from appliance.database.models import Alert, Host, Job, Setting
from appliance.dataplane.target import TargetError
from appliance.domain import hosts, jobs
from appliance.domain.access import Role
from appliance.domain.addresses import local_addresses, reachable
from appliance.domain.capacity import fullness, room
from appliance.domain.certificate import describe, described
from appliance.domain.errors import DomainError, UnavailableError
from appliance.domain.esxcli import esxcli_lines, host_lines
from appliance.domain.hosts import ChapCreate
from appliance.worker.offloads import nested
from appliance.worker.portals import obstacles

resource = Resource("appliance")
_log = logging.getLogger(__name__)


@resource.operation("GET", "/health/live", role=None, local=True)
def read_liveness(call: Call) -> HealthResponse:
    """Checks that this process answers. If it does not, restart it."""
    return HealthResponse(status="ok")


@resource.operation("GET", "/health/ready", role=None)
def read_health(call: Call) -> HealthResponse:
    """Checks that worker and database answer too. Otherwise 503 with the name of the part that does not."""
    try:
        with call.context.store.reading() as session:
            session.scalar(select(func.count()).select_from(Setting))
    except SQLAlchemyError as error:
        _log.warning("the database does not answer: %s", error)
        raise UnavailableError("the database does not answer") from error
    return HealthResponse(status="ok")


@resource.operation("GET", "/status", role=Role.VIEWER)
def read_status(call: Call) -> StatusResponse:
    """Overview of the appliance."""
    with call.context.store.reading() as session:
        new = (Alert.cleared_at.is_(None), Alert.acknowledged_at.is_(None), Alert.severity != "info")
        unacknowledged = session.scalar(select(func.count()).select_from(Alert).where(*new)) or 0
        active = session.scalar(select(func.count()).select_from(Job).where(Job.state.in_(jobs.ACTIVE))) or 0
    reconciling, pools, problem = call.context.reconciling, [], None
    try:
        pools = [
            PoolStateResponse(
                name=pool.name, health=pool.health, size=pool.size, usable=room(pool, root)[1] if root else None,
                used_percent=fullness(pool, root)[0], problem=pool.status,
                warning_percent=limits.warning, critical_percent=limits.critical,
            )
            for pool, limits, root in call.worker.pools()
        ]  # fmt: skip
    except DomainError as error:
        problem = str(error)
    return StatusResponse(
        version=__version__, target=_target(call), pools=pools, storage_problem=problem,
        reconciled_at=reconciling.at or None, reconcile_problem=reconciling.problem,
        unacknowledged_alerts=unacknowledged, active_jobs=active,
    )  # fmt: skip


def _target(call: Call) -> TargetStateResponse:
    try:
        status = call.worker.target()
    except DomainError as error:
        return TargetStateResponse(
            running=False, version="", portals=[], luns_serving=0, luns_failed=0, sessions=0, problem=str(error)
        )
    return TargetStateResponse.model_validate({**vars(status), "running": True, "problem": None})


@resource.operation("GET", "/certificate", role=Role.VIEWER)
def read_certificate(call: Call) -> CertificateResponse:
    """Certificate of the appliance, with the fingerprint that a browser or a program compares."""
    try:
        return CertificateResponse.model_validate(describe(call.context.configuration.http.certificate))
    except (OSError, ValueError) as error:
        _log.warning("the certificate can't be read: %s", error)
        raise UnavailableError("the certificate's file can't be read; see the log of the API") from error


@resource.operation("PUT", "/certificate", role=Role.ADMIN, audit="certificate.change")
def change_certificate(call: Call, body: CertificateUpdate) -> CertificateResponse:
    """Replaces the certificate. nginx serves the new one within seconds, and ends no connection."""
    given = certificate.check(body.certificate, body.private_key)
    uploads = call.context.configuration.http.uploads
    try:
        certificate.hand_over(uploads, given)
    except OSError as error:
        _log.warning("the certificate can't be handed to nginx: %s", error)
        raise UnavailableError(f"{uploads} cannot be written, from where nginx takes the certificate") from error
    return CertificateResponse.model_validate(described(given.certificate))


@resource.operation("GET", "/readiness", role=Role.VIEWER)
def read_readiness(call: Call) -> ReadinessResponse:
    """One check for each condition of the offloads, and the commands to type once on each ESXi host."""
    local = local_addresses()
    checks = call.worker.readiness(local)
    portals = []
    with contextlib.suppress(TargetError):
        known = call.context.target.portals()
        lost = obstacles(known, local)
        portals = reachable([portal.advertised or portal.address for portal in known if portal.address not in lost], local)
    name = call.context.target_name
    naas: list[str] = []
    vendors: set[str] = set()
    with call.context.store.reading() as session:
        chap = (session.get(Setting, "iscsi") or Setting(value={})).value.get("chap_required")
        iqns = hosts.all_initiators(session)
        rows = [
            {"host": host.id, "esxcli": host_lines(iqns.get(host.id, []), host.chap_name if chap else None)}
            for host in session.scalars(select(Host).order_by(Host.name))
        ]
    with contextlib.suppress(DomainError):
        luns = [lun for target in call.context.served_targets() for lun in target.luns]
        naas = [lun.naa for lun in luns if lun.state == "serving" and lun.naa]
        vendors = {names.vendor for lun in luns if (names := lun.lun.designation) and names.vendor}
    lines = esxcli_lines(name, portals, naas, vendors)
    return ReadinessResponse.model_validate(
        {"checks": checks, "esxcli": lines, "target": name, "portals": portals, "hosts": rows}
    )


@resource.operation("GET", "/settings/iscsi", role=Role.VIEWER)
def read_iscsi(call: Call, session: Session) -> IscsiSettingsResponse:
    """Whether hosts have to prove themselves by CHAP, and whether the target can."""
    return _iscsi(session)


def _iscsi(session: Session) -> IscsiSettingsResponse:
    setting = session.get(Setting, "iscsi")
    required = bool(setting and setting.value.get("chap_required"))
    return IscsiSettingsResponse(chap_required=required, target_chap_name=hosts.mutual_name(session))


@resource.operation("PUT", "/settings/iscsi", role=Role.ADMIN, audit="settings.iscsi", matches=True)
def change_iscsi(call: Call, body: IscsiSettingsUpdate) -> IscsiSettingsResponse:
    """Applies to each host's next login.

    Requiring CHAP is refused if hosts without a secret are logged in, and its end if hosts are logged in by CHAP, unless forced.
    """
    with call.context.store.reading() as session:
        changes = _iscsi(session).chap_required != body.chap_required
    sessions = call.context.sessions() if changes and not body.force else []
    with call.changing() as session:
        call.match(_iscsi(session))
        required = _iscsi(session).chap_required
        if body.chap_required and not required:
            hosts.check_not_locked_out(session, [session.initiator for session in sessions], body.force)
        if required and not body.chap_required:
            by_chap = [session.initiator for session in sessions if session.account is not None]
            hosts.check_not_by_chap(session, by_chap, body.force)
        session.merge(Setting(name="iscsi", value={"chap_required": body.chap_required}))
        call.changed()
        return _iscsi(session)


@resource.operation("PUT", "/settings/iscsi/target-chap", role=Role.ADMIN, audit="settings.target_chap")
def set_target_chap(call: Call, body: ChapCreate) -> IscsiSettingsResponse:
    """Sets the name and secret by which the target proves itself to hosts (mutual CHAP). No host may have this secret."""
    return _with_target_chap(call, (body.name, body.secret))


@resource.operation("DELETE", "/settings/iscsi/target-chap", role=Role.ADMIN, audit="settings.target_chap")
def delete_target_chap(call: Call) -> IscsiSettingsResponse:
    """Removes them: hosts that request mutual CHAP cannot log in then."""
    return _with_target_chap(call, None)


def _with_target_chap(call: Call, chap: tuple[str, str] | None) -> IscsiSettingsResponse:
    with call.changing() as session:
        hosts.set_mutual(session, call.context.seal, chap)
        session.flush()
        call.changed()
        return _iscsi(session)


@resource.operation("POST", "/reconcile", role=Role.OPERATOR, audit="reconcile")
def reconcile(call: Call) -> ReconcileResponse:
    """Reconciles the data planes with the desired state now. Returns the differences it found."""
    return ReconcileResponse.model_validate(call.context.reconciling.reconcile("request"))


@resource.operation("GET", "/offloads", role=Role.VIEWER)
def read_offloads(call: Call) -> OffloadsResponse:
    """Offloads as the iSCSI target and the NFS server count them, with the reason of each byte that was not cloned."""
    offloads = call.worker.offloads.read(call.worker.fresh)
    totals = {plane: nested(counts) for plane, counts in offloads.totals.items()}
    return OffloadsResponse(luns=offloads.luns, **vars(offloads.nfs), totals=totals)
