# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: what changed, as it changes."""

import json
import threading
import time
from collections.abc import Callable, Iterator

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.wire import Response, Stream
from appliance.database.models import Event
from appliance.database.store import Store
from appliance.domain import access
from appliance.domain.access import Caller, Role
from appliance.domain.errors import TooManyError, UnauthenticatedError

resource = Resource("events")
EVENT_STREAM = "text/event-stream"
STREAMS = 8
LONGEST_S = 3600
_POLL_S = 1.0
"""Interval of the checks whether the listener has disconnected."""
_AT_ONCE = 500
_COMMENT_S = 25
"""Longer than nginx needs to detect that a browser has disconnected (packaging/nginx)."""
_free = threading.BoundedSemaphore(STREAMS)


@resource.operation("GET", "/events", role=Role.VIEWER, media=EVENT_STREAM)
def stream_events(call: Call) -> Response:
    """Server-sent events from now on, or after `Last-Event-ID`: jobs, alerts, drift. For an hour at most."""
    if not _free.acquire(blocking=False):
        raise TooManyError(f"{STREAMS} streams of events are open", 30)
    try:
        store = call.context.store
        last = call.request.last_event_id or ""
        with store.reading() as session:
            newest = session.scalar(select(func.max(Event.id))) or 0
        # After the database went back, the identifiers of new events are lower.
        after = min(int(last), newest) if last.isascii() and last.isdigit() and len(last) < 18 else newest
    except BaseException:
        _free.release()
        raise
    caller = call.who
    return Response(Stream(lambda gone: _events(store, after, caller, gone), _free.release), EVENT_STREAM)


def _allowed(session: Session, caller: Caller) -> bool:
    """Whether who listens still may: has not logged out, is not disabled, the token is still good."""
    try:
        access.again(session, caller)
    except UnauthenticatedError:
        return False
    return True


def _events(store: Store, after: int, caller: Caller, gone: Callable[[], bool]) -> Iterator[bytes]:
    yield b"retry: 2000\n\n"
    began = said = time.monotonic()
    seen = -1
    while time.monotonic() - began < LONGEST_S and not gone():
        before, seen = seen, store.wait_for_commit(seen, _POLL_S)
        silent = time.monotonic() - said > _COMMENT_S
        if seen == before and not silent:
            continue
        with store.reading() as session:
            if not _allowed(session, caller):
                return
            new = session.scalars(select(Event).where(Event.id > after).order_by(Event.id).limit(_AT_ONCE)).all()
        for event in new:
            after, said = event.id, time.monotonic()
            data = json.dumps({"at": event.at, "subject": event.subject, **event.data})
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
        if len(new) == _AT_ONCE:
            seen = -1
        elif silent and not new:
            said = time.monotonic()
            yield b": here\n\n"
