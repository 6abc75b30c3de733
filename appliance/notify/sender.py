# SPDX-License-Identifier: Apache-2.0
"""Sends what waits for receivers, in the background, in the worker."""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from shlex import quote

from sqlalchemy.orm import Session

from appliance.database.models import Delivery, Receiver
from appliance.database.store import Store
from appliance.domain import receivers
from appliance.domain.journal import Finding, open_alerts, update_alerts
from appliance.domain.secrets import Seal, SealedError
from appliance.notify.connection import Network, Outcome
from appliance.notify.delivery import Destination, deliver

_AT_ONCE = 4
_REPORTED_AFTER = 3
"""Failed attempts of one delivery before an alert reports it."""
_log = logging.getLogger(__name__)


class Sender:
    """Sends the deliveries of an installation. A delivery that was sent but not recorded before a crash is sent again."""

    def __init__(self, store: Store, seal: Seal, trusted: Sequence[Network]) -> None:
        self._store, self._seal, self._trusted = store, seal, tuple(trusted)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="receivers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._store.wake()
        self._thread.join()

    def _run(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            try:
                while self.turn(time.time()):
                    pass
                with self._store.reading() as session:
                    due = receivers.next_due(session)
                seen = self._store.wait_for_commit(seen, None if due is None else max(0.0, due - time.time()))
            except Exception:  # a full disk, a locked database: try again later
                _log.exception("sending")
                self._stopping.wait(1)

    def turn(self, now: float) -> int:
        """Attempts due deliveries, one of each destination. Returns their number."""
        with self._store.reading() as session:
            due = receivers.next_deliveries(session, now)
        if due:
            with ThreadPoolExecutor(min(_AT_ONCE, len(due))) as pool:
                list(pool.map(lambda delivery_id: self.try_delivery(delivery_id, now), due))
        return len(due)

    def try_delivery(self, delivery_id: int, now: float) -> None:
        """Tries a delivery and writes down how it ended; the next try is so long after `now`."""
        with self._store.reading() as session:
            delivery = session.get(Delivery, delivery_id)
            receiver = session.get(Receiver, delivery.receiver_id) if delivery is not None else None
        if delivery is None or receiver is None:
            return
        try:
            to = Destination(
                receivers.url_of(self._seal, receiver), self._seal.open(receiver.secret) if receiver.secret else "",
                receiver.certificate, receiver.sender, receiver.recipients, receiver.user,
            )  # fmt: skip
        except SealedError as error:
            outcome = Outcome(None, f"{error}; set its address and its secret again")
        else:
            outcome = deliver(to, delivery.event, delivery.kind, delivery.body, self._trusted)
        if outcome.problem is not None:
            _log.warning("receiver %s: %s", receiver.name, outcome.problem)
        with self._store.session() as session:
            tried = receivers.ended(
                session, delivery_id, outcome.status, outcome.problem, now, refused=outcome.refused, partial=outcome.partial
            )
            if tried is not None and (tried.kind != "test" or tried.problem is None):
                self._update_alert(session, receiver, tried, now)

    def _update_alert(self, session: Session, receiver: Receiver, tried: Delivery, now: float) -> None:
        area = receivers.area(receiver.id)
        if tried.state == receivers.DELIVERED and open_alerts(session, area):  # it works again
            receivers.queue_failed(session, receiver, now)
        findings = []
        if tried.problem is not None:
            if tried.attempts < _REPORTED_AFTER and tried.state == receivers.PENDING:
                return
            partial = tried.state == receivers.DELIVERED
            who = f"some recipients of {receiver.name} do not get" if partial else f"receiver {receiver.name} does not get"
            text = f"{who} alerts: {tried.problem}"
            commands = (f"zvaai receiver {verb} {quote(receiver.name)}" for verb in ("deliveries", "test"))
            remedy = f"Check its address and the network. Run: {'; '.join(commands)}"
            findings = [Finding(f"{area}:failing", "warning", receiver.name, text, remedy)]
        update_alerts(session, area, findings)
