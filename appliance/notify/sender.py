# SPDX-License-Identifier: Apache-2.0
"""Sends what waits for webhooks, in the background, in the worker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.orm import Session

from appliance.database.models import Webhook, WebhookDelivery
from appliance.database.store import Store
from appliance.domain import webhooks
from appliance.domain.journal import Finding, settle
from appliance.domain.secrets import Seal, SealedError
from appliance.notify.delivery import Network, Outcome, deliver

_LOOK_S = 1.0
_AT_ONCE = 4
_TOLD_AFTER = 3
"""Failed tries of one delivery, after which an alert tells of it."""
_log = logging.getLogger(__name__)


class Sender:
    """Of one installation. What was sent and not yet written down when the process died is sent again."""

    def __init__(self, store: Store, seal: Seal, trusted: Sequence[Network]) -> None:
        self._store, self._seal, self._trusted = store, seal, tuple(trusted)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """In the background."""
        self._thread.start()

    def stop(self) -> None:
        """After what is under way."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                done = self.turn(time.time())
            except Exception:  # a full disk, a locked database: it must go on when that is over
                _log.exception("sending")
                done = 0
            if not done:
                self._stopping.wait(_LOOK_S)

    def turn(self, now: float) -> int:
        """Tries what is due by then, one of each destination; how many."""
        with self._store.reading() as session:
            due = webhooks.next_deliveries(session, now)
        if due:
            with ThreadPoolExecutor(min(_AT_ONCE, len(due))) as pool:
                list(pool.map(lambda one: self.one(one, now), due))
        return len(due)

    def one(self, delivery_id: int, now: float) -> None:
        """Tries a delivery and writes down how it ended; the next try is so long after `now`."""
        with self._store.reading() as session:
            delivery = session.get(WebhookDelivery, delivery_id)
            hook = session.get(Webhook, delivery.webhook_id) if delivery is not None else None
        if delivery is None or hook is None:
            return
        try:
            url, secret = webhooks.url_of(self._seal, hook), self._seal.open(hook.secret)
        except SealedError as error:
            outcome = Outcome(None, f"{error}; give it its URL again, and a new secret")
        else:
            outcome = deliver(url, secret, delivery.event, delivery.body, certificate=hook.certificate, trusted=self._trusted)
        if outcome.problem is not None:
            _log.warning("webhook %s: %s", hook.name, outcome.problem)
        with self._store.session() as session:
            tried = webhooks.ended(session, delivery_id, outcome.status, outcome.problem, now)
            if tried is not None and tried.kind != "test":
                self._settle(session, hook, tried)

    def _settle(self, session: Session, hook: Webhook, tried: WebhookDelivery) -> None:
        area = webhooks.area(hook.id)
        findings = []
        if tried.problem is not None:
            if tried.attempts < _TOLD_AFTER and tried.state == webhooks.PENDING:
                return
            text = f"webhook {hook.name} is not reached: {tried.problem}"
            findings = [Finding(f"{area}:failing", "warning", hook.name, text, "zvaai webhook test tells more")]
        settle(session, area, findings)
