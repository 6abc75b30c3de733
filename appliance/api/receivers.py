# SPDX-License-Identifier: Apache-2.0
"""Receivers of alerts. For admins only: a URL may have a token in it, and the appliance connects to where it leads."""

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.pages import before_number, newest_first, page
from appliance.api.schemas import receivers as schemas
from appliance.api.schemas.common import EmptyResponse, ListQuery, Page
from appliance.database.models import Delivery, Receiver
from appliance.domain import receivers
from appliance.domain.access import Role
from appliance.domain.certificate import check_trusted
from appliance.domain.errors import ConflictError
from appliance.domain.journal import update_alerts
from appliance.domain.secrets import Seal, SealedError
from appliance.notify.sender import Sender

resource = Resource("receivers")


def _shown(session: Session, seal: Seal, receiver: Receiver) -> schemas.ReceiverResponse:
    try:
        url = receivers.url_of(seal, receiver)
    except SealedError:
        url = "(its key is lost: set the address again)"
    last, waiting = receivers.last(session, receiver.id), receivers.waiting(session, receiver.id)
    columns = {name: getattr(receiver, name) for name in Receiver.__table__.columns.keys()}  # noqa: SIM118  # no dictionary
    return schemas.ReceiverResponse.model_validate(
        {**columns, "url": url, "kind": receivers.kind_of(url), "last_delivery": last, "waiting": waiting}
    )


def _with_secret(session: Session, seal: Seal, receiver: Receiver, secret: str | None) -> schemas.ReceiverSecretResponse:
    return schemas.ReceiverSecretResponse.model_validate({**dict(_shown(session, seal, receiver)), "secret": secret})


def _check(call: Call, url: str, certificate: str | None = None) -> None:
    receivers.check_url(url, bool(call.context.configuration.alerts.trusted_networks))
    check_trusted(certificate)


@resource.operation("GET", "/receivers", role=Role.ADMIN)
def list_receivers(call: Call, session: Session, query: ListQuery) -> Page[schemas.ReceiverResponse]:
    """All of them, with how their last delivery ended."""
    rows, seal = session.scalars(select(Receiver).order_by(Receiver.name)).all(), call.context.seal
    shown = [_shown(session, seal, receiver) for receiver in rows]
    return page(schemas.ReceiverResponse, shown, query, lambda receiver: receiver.name)


@resource.operation("POST", "/receivers", role=Role.ADMIN, audit="receiver.create", status=201)
def create_receiver(call: Call, body: receivers.ReceiverCreate) -> schemas.ReceiverSecretResponse:
    """Adds a receiver. Only this response has the secret of a webhook."""
    _check(call, body.url, body.certificate)
    with call.changing() as session:
        receiver, secret = receivers.add(session, call.context.seal, body)
        return _with_secret(session, call.context.seal, receiver, secret)


@resource.operation("GET", "/receivers/<receiver_id>", role=Role.ADMIN)
def read_receiver(call: Call, session: Session, receiver_id: str) -> schemas.ReceiverResponse:
    """A receiver."""
    return _shown(session, call.context.seal, receivers.find(session, receiver_id))


@resource.operation("PATCH", "/receivers/<receiver_id>", role=Role.ADMIN, audit="receiver.change", matches=True)
def change_receiver(call: Call, receiver_id: str, body: receivers.ReceiverUpdate) -> schemas.ReceiverResponse:
    """Changes the given fields. Waiting deliveries go to the new address."""
    if body.url is not None or body.certificate is not None:
        _check(call, body.url or "https://unchanged/", body.certificate)
    with call.changing() as session:
        receiver = receivers.find(session, receiver_id)
        call.match(_shown(session, call.context.seal, receiver))
        receivers.change(session, call.context.seal, receiver, body.values())
        if body.enabled is False:  # without attempts, the end of the problem would never be found
            update_alerts(session, receivers.area(receiver_id), [])
        return _shown(session, call.context.seal, receiver)


@resource.operation("DELETE", "/receivers/<receiver_id>", role=Role.ADMIN, audit="receiver.delete", matches=True)
def delete_receiver(call: Call, session: Session, receiver_id: str) -> EmptyResponse:
    """With what waits for it."""
    receiver = receivers.find(session, receiver_id)
    call.match(_shown(session, call.context.seal, receiver))
    session.delete(receiver)
    update_alerts(session, receivers.area(receiver_id), [])
    return EmptyResponse()


@resource.operation("POST", "/receivers/<receiver_id>/secret", role=Role.ADMIN, audit="receiver.secret", status=201, matches=True)
def renew_secret(call: Call, session: Session, receiver_id: str) -> schemas.ReceiverSecretResponse:
    """Gives a webhook another secret. Only this response has it; the former one is no longer used."""
    receiver, secret = receivers.find(session, receiver_id), receivers.new_secret()
    if receivers.kind_of(receivers.url_of(call.context.seal, receiver)) != receivers.WEBHOOK:
        raise ConflictError("only webhooks have a secret that signs; change the password of a mail server instead")
    call.match(_shown(session, call.context.seal, receiver))
    receiver.secret = call.context.seal.seal(secret)
    return _with_secret(session, call.context.seal, receiver, secret)


@resource.operation("POST", "/receivers/<receiver_id>/test", role=Role.ADMIN, audit="receiver.test")
def test_receiver(call: Call, receiver_id: str) -> schemas.DeliveryResponse:
    """Sends a test now, once, and reports how it ended. It takes up to 20 s."""
    context = call.context
    with context.store.session() as session:
        begun = receivers.begin_test(session, receiver_id).id
    trusted = context.configuration.alerts.trusted_networks
    Sender(context.store, context.seal, trusted).try_delivery(begun, time.time())
    with context.store.reading() as session:
        delivery = session.get(Delivery, begun)
        if delivery is None:
            receivers.find(session, receiver_id)
        return schemas.DeliveryResponse.model_validate(delivery)


@resource.operation("GET", "/receivers/<receiver_id>/deliveries", role=Role.ADMIN)
def list_deliveries(call: Call, session: Session, receiver_id: str, query: ListQuery) -> Page[schemas.DeliveryResponse]:
    """Sent and pending deliveries, newest first. The newest 200 completed deliveries are stored."""
    receivers.find(session, receiver_id)
    chosen = (
        select(Delivery)
        .where(Delivery.receiver_id == receiver_id, Delivery.id < before_number(query))
        .order_by(Delivery.id.desc())
        .limit(query.limit + 1)
    )
    return newest_first(schemas.DeliveryResponse, session.scalars(chosen), query, lambda delivery: delivery.id)
