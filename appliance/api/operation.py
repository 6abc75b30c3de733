# SPDX-License-Identifier: Apache-2.0
"""How every operation of the API is declared, and how the worker carries it out.

A declaration says the path, who may (`role`; None: anybody), what the audit calls it (`audit`; all that changes something has
one), what it takes and what it returns. The HTTP process (appliance/gateway) makes routes and the OpenAPI document of these,
and runs no view. The worker runs it, in this order: caller, CSRF, role, body, idempotency key, audit, the view, end of the audit.

To add an operation, write a view with `Resource.operation` in the module of its resource. A new module also needs a place in
RESOURCES of appliance/api/resources.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from appliance.api.problems import Problem, headers_of, invalid, problem, problem_of
from appliance.api.schemas.common import ListQuery
from appliance.api.schemas.journal import JobResponse
from appliance.api.types import Versioned, entity_tag
from appliance.api.wire import HttpRequest, Refusal, Response, Stream
from appliance.database.models import Host, HostGroup, IdempotencyKey, Job, Receiver, Schedule, Token, User
from appliance.database.store import Store
from appliance.domain import access, jobs, recovery
from appliance.domain.access import Caller, Role
from appliance.domain.errors import (
    ConflictError,
    DomainError,
    ForbiddenError,
    InvalidError,
    UnauthenticatedError,
)
from appliance.domain.journal import complete, record, rotate, withdraw
from appliance.domain.requests import Request
from appliance.domain.secrets import SealedError, is_sealed
from appliance.worker.context import Context
from appliance.worker.service import Service

COOKIE = "__Host-zvaai"
CSRF_HEADER = "X-CSRF-Token"
SUBMIT_S = 54
"""Time for a job to be queued: the HTTP process waits 60 s for its answer."""
_KEYS_KEPT_S = 86400
_ROTATED_AFTER = 100
_LONGEST_WAIT_S = 30
_LONGEST_AUDITED = 4096
_TELLING = {200, 201, 401}
"""What came of attempts of nobody in particular: logins, and those that failed, which have to wait."""
_log = logging.getLogger(__name__)
_ended = threading.Condition()
_running: set[str | None] = set()
"""Keys of requests that are carried out now. Guarded by `_ended`, which is notified at the end of each."""
SECRET_FIELDS = {"password", "recovery_key", "secret", "code", "current", "new", "chap", "url", "file"}
""""url" of a receiver: it may have a token in it. "file" is a sealed copy of the configuration."""


_IN_RECOVERY_MODE = ("recovery", "setup", "session", "alert", "configuration.backup")
"""What is done in recovery mode, by its name in the audit: nothing that the configuration is about."""


_NAMED: dict[str, type[Host | HostGroup | Schedule | User | Token | Receiver | Job]] = {
    "host_id": Host, "group_id": HostGroup, "schedule_id": Schedule, "user_id": User, "token_id": Token, "receiver_id": Receiver,
    "job_id": Job,
}  # fmt: skip
"""Tables with names, by parameters of paths."""


class PreconditionError(DomainError):
    """If-Match names another version than there is."""

    code = "precondition_failed"

    def __str__(self) -> str:
        return "it has changed since it was read; read it again"


class _TakenBack(Exception):  # noqa: N818  # not a failure
    """Ends a transaction of which nothing is to stay."""


class Refused(Exception):  # noqa: N818  # not a failure
    """Refusal of a request by the API process or a schema."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


@dataclass
class Call:
    """One request: the caller, what is requested, and what the audit is to say."""

    worker: Service
    request: HttpRequest
    caller: Caller | None = None
    subject: str = ""
    name: str = ""
    """Values of the subject before the change."""
    key: str | None = None
    """The request's idempotency key, with the caller and what is requested."""
    running: bool = False
    """It is in `_running`."""
    entry: int | None = None
    """Identifier of the started audit entry."""
    before: dict[str, object] | None = None
    cookies: list[tuple[str, int | None]] = field(default_factory=list)
    _transaction: tuple[Session, contextlib.ExitStack] | None = None
    _tells_worker: bool = False

    @property
    def address(self) -> str:
        """Address of the client."""
        return self.request.address[:64]

    @property
    def context(self) -> Context:
        """The worker's: configuration, database, data planes."""
        return self.worker.context

    @property
    def who(self) -> Caller:
        """The caller of an operation that has a role."""
        assert self.caller is not None
        return self.caller

    def submit(self, job: Request) -> BaseModel:
        """A job, checked and queued. If it cannot be queued in time, it is not queued."""
        until = time.monotonic() + SUBMIT_S
        job_id = self.worker.executor.submit(job, self.who.name, key=self.key, until=until)
        with self.context.store.reading() as session:
            return JobResponse.model_validate(jobs.job(session, job_id))

    def begun_before(self) -> BaseModel | None:
        """The job of this very request, whose answer was lost with who was to give it. What it changes may be another by now."""
        with self.context.store.reading() as session:
            job_id = jobs.job_of_key(session, self.key)
            return JobResponse.model_validate(jobs.job(session, job_id)) if job_id is not None else None

    @contextlib.contextmanager
    def changing(self) -> Iterator[Session]:
        """The transaction of this request, once.

        It is committed with the end of the audit's entry and the answer for the idempotency key: who is killed has done all of it
        or nothing, and the same request again finds which.
        """
        assert self._transaction is None
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(self.context.store.session())
            yield session
            session.flush()
            self._transaction = (session, stack.pop_all())

    @contextlib.contextmanager
    def ending(self, made: bool) -> Iterator[Session]:
        """The same transaction, at its end; another when there is none, or nothing was `made`."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None and not made:
            with contextlib.suppress(_TakenBack), transaction[1]:
                raise _TakenBack
            transaction = None
        if transaction is None:
            with self.context.store.session() as session:
                yield session
        else:
            with transaction[1]:
                yield transaction[0]
        if self._tells_worker and made:
            self.worker.scheduler.request()

    def changed(self) -> None:
        """The worker reconciles as soon as the change is committed."""
        self._tells_worker = True

    def match(self, current: BaseModel) -> None:
        """Refuses when If-Match names another version; the operation is declared as one that `matches`."""
        representation = current.model_dump_json(exclude={"etag"} if isinstance(current, Versioned) else None)
        self.before = _without_secrets(json.loads(representation))
        expected = self.request.if_match
        if expected is not None and expected.strip() != "*" and etag(current) not in [one.strip() for one in expected.split(",")]:
            raise PreconditionError


View = TypeVar("View", bound=Callable[..., BaseModel | Response])
"""What an operation's function is: takes the call, then path, body and query by name."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of an operation."""

    name: str
    view: Callable[..., BaseModel | Response]
    method: str
    path: str
    role: Role | None
    audit: str | None
    answer: type[BaseModel]
    status: int
    body: type[BaseModel] | None
    query: type[BaseModel] | None
    media: str | None = None
    """The response's media type, where it is no JSON."""
    conflicts: bool = False
    """Something can be in the way, as with all that changes something."""
    matches: bool = False
    """If-Match is heeded: it changes something that has a version."""
    local: bool = False
    """The HTTP process responds by itself."""

    @property
    def tells_secret(self) -> bool:
        """Whether the response has a secret, which is shown once."""
        return "secret" in self.answer.model_fields

    @property
    def is_list(self) -> bool:
        """Whether the response is a list, without a version of its own."""
        return bool({"items", "checks"} & self.answer.model_fields.keys())

    @property
    def measures(self) -> bool:
        """Whether the response has values that change by themselves, and are not in its version."""
        return issubclass(self.answer, Versioned) and bool(self.answer.MEASURED)


DECLARATIONS: dict[str, Declaration] = {}
"""By name: of the resource, a dot, and the view's."""


def etag(model: BaseModel) -> str:
    """Of a representation: what an admin may change, not what is measured."""
    return model.etag if isinstance(model, Versioned) else entity_tag(model.model_dump(mode="json"))


class Resource:
    """Operations of one resource."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.declarations: list[Declaration] = []

    def operation(
        self,
        method: str,
        path: str,
        *,
        role: Role | None,
        answer: type[BaseModel],
        audit: str | None = None,
        body: type[BaseModel] | None = None,
        query: type[BaseModel] | None = None,
        status: int = 200,
        media: str | None = None,
        conflicts: bool = False,
        matches: bool = False,
        local: bool = False,
    ) -> Callable[[View], View]:
        """Declares one. The view takes the call, then path, body and query by name."""
        assert (audit is not None) == (method != "GET"), "all that changes something is audited"

        def declare(view: View) -> View:
            name = f"{self.name}.{view.__name__}"
            declared = Declaration(
                name, view, method, f"/api/v1{path}", role, audit, answer, status, body, query, media,
                conflicts or method != "GET", matches, local,
            )  # fmt: skip
            DECLARATIONS[name] = declared
            self.declarations.append(declared)
            return view

        return declare


# --- carrying out


@dataclass
class Outcome:
    """The response, before it goes to the HTTP process."""

    status: int
    headers: dict[str, str]
    content: bytes | Path | Stream
    cookie: tuple[str, int | None] | None = None


def carry_out(worker: Service, sent: HttpRequest) -> Outcome:
    """A request that anybody may have made up: nothing of it is believed but that it has arrived."""
    declared = DECLARATIONS.get(sent.operation)
    if declared is None or declared.local:
        return _refusal(problem(404, "not_found", "there is no such operation"))
    call = Call(worker, sent)
    call.subject = "/".join(str(value) for value in sent.path.values())
    try:
        return _carried_out(declared, call)
    finally:
        if call.running:
            with _ended:
                _running.discard(call.key)
                _ended.notify_all()


def _carried_out(declared: Declaration, call: Call) -> Outcome:
    sent = call.request
    claimed: str | None = None
    try:
        call.caller = _who(declared, call)
        if sent.refusal is not None:
            raise Refused(_believable(sent.refusal))
        if declared.method != "GET" and not declared.matches and (sent.if_match or "*").strip() != "*":
            raise PreconditionError  # a resource without a version, or whose version is not checked, matches none
        if declared.method != "GET" and not (declared.audit or "").startswith(_IN_RECOVERY_MODE):
            with call.context.store.reading() as session:
                recovery.check_inactive(session)
        claimed, earlier = _claim(declared, call)
        if earlier is not None:
            return earlier
        _begin(declared, call)
        outcome = _viewed(declared, call)
    except DomainError as error:
        outcome = _refusal(problem_of(error))
    except Refused as error:
        outcome = _refusal(error.problem)
    except Exception:
        _finish(declared, call, None, claimed)
        raise
    if call.cookies:
        outcome.cookie = call.cookies[-1]
    _finish(declared, call, outcome, claimed)
    if outcome.status >= 400 or declared.method != "GET":
        _log.info("%s %s: %d", declared.method, urlsplit(sent.target).path[:256], outcome.status)
    return outcome


def failed() -> Outcome:
    """A request that failed by our fault."""
    return _refusal(problem(500, "internal", "the service is at fault; see its log"))


def _refusal(body: Problem) -> Outcome:
    return Outcome(body["status"], headers_of(body), json.dumps(body).encode())


def _believable(refusal: Refusal) -> Problem:
    """What the HTTP process says of a request is a refusal, whatever it says."""
    status = refusal.status if 400 <= refusal.status < 500 else 400
    return problem(status, refusal.code, refusal.detail, errors=refusal.errors)


def _viewed(declared: Declaration, call: Call) -> Outcome:
    arguments: dict[str, object] = dict(call.request.path)
    try:
        if declared.body is not None:
            arguments["body"] = declared.body.model_validate(_json(call.request.body))
        if declared.query is not None:
            arguments["query"] = declared.query.model_validate(call.request.query)
    except ValidationError as error:
        raise Refused(invalid(error)) from error
    begun = call.begun_before() if declared.status == 202 else None
    response = begun or declared.view(call, **arguments)
    if isinstance(response, Response):
        headers = {"Content-Type": response.content_type}
        if response.download_name is not None:
            headers["Content-Disposition"] = f"attachment; filename={response.download_name}"
        return Outcome(declared.status, headers, response.content)
    headers = {"Content-Type": "application/json"}
    if declared.status == 202:
        headers["Location"] = f"/api/v1/jobs/{response.model_dump()['id']}"
    try:
        content = response.model_dump_json()
    except ValueError:  # half a character, which only escapes can express
        content = json.dumps(response.model_dump(mode="json"))
    return Outcome(declared.status, headers, content.encode())


def _json(text: str | None) -> object:
    """Raises Refused."""
    try:
        found: object = json.loads(text or "null")
        return found
    except (ValueError, RecursionError) as error:
        raise Refused(problem(400, "bad_request", "the body is not JSON")) from error


def _who(declared: Declaration, call: Call) -> Caller | None:
    if declared.role is None:
        return None
    store = call.context.store
    authorization, cookie = call.request.authorization or "", call.request.cookie
    with store.reading() as session:
        if authorization:
            kind, _, token = authorization.partition(" ")
            if kind.lower() != "bearer":
                raise UnauthenticatedError("the kind of authorization is Bearer")
            caller = access.by_token(session, token.strip())
            touch = access.token_needs_touch(session, caller.credential)
        elif cookie:
            caller = access.by_cookie(session, cookie)
            touch = access.session_needs_touch(session, caller.credential)
        else:
            raise UnauthenticatedError
    if caller.cookie and declared.method != "GET" and call.request.csrf != access.csrf_token(cookie or ""):
        raise ForbiddenError(f"the header {CSRF_HEADER} is missing or not the session's")
    if touch:
        with store.session() as session:
            (access.touch_session if caller.cookie else access.touch_token)(session, caller.credential)
    if caller.role < declared.role:
        call.caller = caller  # for the audit
        raise ForbiddenError(f"this needs the role {declared.role.label}; you are {caller.role.label}")
    return caller


def _claim(declared: Declaration, call: Call) -> tuple[str | None, Outcome | None]:
    """Takes the idempotency key for this request; or the answer of the one that had it before."""
    key = call.request.idempotency_key
    if key is None or declared.method == "GET" or call.caller is None:
        return None, None
    if not 1 <= len(key) <= 128 or not key.isprintable():
        raise InvalidError("Idempotency-Key", "not a key", "1 to 128 printable characters")
    parts = [declared.method.encode(), call.request.target.encode(), (call.request.body or "").encode()]
    parts.append(call.caller.credential.encode() if declared.tells_secret else b"")
    digest = call.context.seal.digest(b"\0".join(parts))
    call.key = f"{call.caller.user_id} {digest} {key}"
    store, actor, now = call.context.store, call.caller.user_id, time.time()
    with _ended:  # the HTTP process may have died, and the client sent it again: that waits for the end of the first one
        if not _ended.wait_for(lambda: call.key not in _running, _LONGEST_WAIT_S):
            raise ConflictError("the request with this idempotency key is under way", [key])
        _running.add(call.key)
        call.running = True
    with store.session() as session:
        session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now - _KEYS_KEPT_S))
    try:
        with store.session() as session:
            session.add(IdempotencyKey(actor=actor, key=key, digest=digest, headers={}, body="", created_at=now))
        return key, None
    except IntegrityError:
        with store.reading() as session:
            earlier = session.get(IdempotencyKey, (actor, key))
    if earlier is None or earlier.digest != digest:
        raise ConflictError("this idempotency key was used for another request", [key])
    if earlier.status is None:
        raise ConflictError("the request with this idempotency key is under way", [key])
    if declared.tells_secret and earlier.status < 400:
        raise ConflictError("it is done already, and its secret is shown only once", [key])
    try:
        body = call.context.seal.open(earlier.body) if is_sealed(earlier.body) else earlier.body
    except SealedError as error:
        raise ConflictError("it is done already, and the key that its answer was sealed with is gone", [key]) from error
    return None, Outcome(earlier.status, dict(earlier.headers), body.encode())


def forget_unfinished(store: Store) -> None:
    """At the start: requests of a process that was killed may be sent again with their keys."""
    with store.session() as session:
        session.execute(delete(IdempotencyKey).where(IdempotencyKey.status.is_(None)))


def _begin(declared: Declaration, call: Call) -> None:
    """The audit, before anything is changed: whoever dies while changing it has left a trace."""
    if declared.audit is not None:
        call.name = _name(call)
        with call.context.store.session() as session:
            call.entry = _record(session, declared, call, None)


def _name(call: Call) -> str:
    """Of what the request is about, as it is called now: it may be renamed or gone later."""
    names: list[str] = []
    for field_name, value in call.request.path.items():
        if (table := _NAMED.get(field_name)) is not None:
            with call.context.store.reading() as session:
                names += session.scalars(select(table.name).where(table.id == str(value)))
        elif field_name == "datastore_id":
            with contextlib.suppress(DomainError):
                names += [store.name for store in call.worker.datastores() if store.id == value]
        else:
            names.append(str(value))
    body = _parsed(call.request.body)
    if not names and isinstance(body, dict):
        names += [str(body["name"])] if isinstance(body.get("name"), str) else []
    return "/".join(names)[:512]


def _record(session: Session, declared: Declaration, call: Call, status: int | None) -> int:
    with_body = declared.body is not None and call.caller is not None and status not in (400, 413, 415)
    return record(
        session, actor=call.caller.name if call.caller else "", token=call.caller.token if call.caller else None,
        address=call.address, action=declared.audit or "",
        subject=call.subject[:512], name=call.name, status=status, before=call.before,
        after=_without_secrets(_parsed(call.request.body)) if with_body else None,
    )  # fmt: skip


def _finish(declared: Declaration, call: Call, outcome: Outcome | None, key: str | None) -> None:
    """Audit, and the answer for the idempotency key. A request that failed by our fault may be sent again with its key."""
    try:
        _write_end(declared, call, outcome, key)
    except Exception:
        with contextlib.suppress(Exception), call.context.store.session() as session:
            session.execute(delete(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.status.is_(None)))
        raise


def _write_end(declared: Declaration, call: Call, outcome: Outcome | None, key: str | None) -> None:
    status = outcome.status if outcome is not None else 500
    if declared.audit is None or (call.caller is None and declared.role is not None):
        return  # who is nobody fills no disk
    with call.ending(made=status < 400) as session:
        if call.caller is None and status not in _TELLING:
            if call.entry is None:
                return
            withdraw(session, call.entry)  # or who is nobody turns the audit over until nothing of it is left
        elif call.entry is None:
            call.entry = _record(session, declared, call, status)
        else:
            complete(session, call.entry, subject=call.subject[:512], status=status, before=call.before)
        if call.entry % _ROTATED_AFTER == 0:
            rotate(session, call.context.configuration.audit_directory)
        if key is not None and call.caller is not None:
            row = session.get(IdempotencyKey, (call.caller.user_id, key))
            if row is not None and outcome is not None and isinstance(outcome.content, bytes) and status < 500:
                body = "" if declared.tells_secret else outcome.content.decode()
                row.status, row.body = status, call.context.seal.seal(body) if body else ""  # it may have a URL with a token
                row.headers = {name: value for name, value in outcome.headers.items() if name in ("Content-Type", "Location")}
            elif row is not None:
                session.delete(row)


def _parsed(body: str | None) -> object:
    with contextlib.suppress(Refused):
        return _json(body)
    return None


def _without_secrets(value: object) -> dict[str, object] | None:
    if not isinstance(value, dict):
        return None
    try:
        hidden = _hidden(value)
        assert isinstance(hidden, dict)
        return hidden if len(json.dumps(hidden)) <= _LONGEST_AUDITED else {"long": True}
    except RecursionError:
        return {"deep": True}


def _hidden(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: "(secret)" if name in SECRET_FIELDS and field is not None else _hidden(field) for name, field in value.items()
        }
    return [_hidden(item) for item in value] if isinstance(value, list) else value


# --- pages


@dataclass(frozen=True)
class Page[T]:
    """Part of a list, and the cursor of the next part."""

    items: list[T]
    next_cursor: str | None

    def each[R](self, make: Callable[[T], R]) -> Page[R]:
        """The same page of what `make` makes of its items."""
        return Page([make(one) for one in self.items], self.next_cursor)


def page[T](items: Sequence[T], query: ListQuery, key: Callable[[T], str]) -> Page[T]:
    """A page of a list in memory, sorted by a unique `key`."""
    begin = after(query)
    rest = [item for item in items if begin is None or key(item) > begin]
    shown = rest[: query.limit]
    return Page(shown, encoded(key(shown[-1])) if len(rest) > len(shown) else None)


def after(query: ListQuery) -> str | None:
    """The key of the last of the page before."""
    return _decode(query.cursor)


def newest_first[T](items: Iterable[T], query: ListQuery, number: Callable[[T], int]) -> Page[T]:
    """A page of a list that the database has sorted, with one item more than the page."""
    found = list(items)
    shown = found[: query.limit]
    return Page(shown, encoded(str(number(shown[-1]))) if len(found) > len(shown) else None)


def before_number(query: ListQuery) -> int:
    """Where a page of `newest_first` begins."""
    text = _decode(query.cursor)
    if text is None:
        return 1 << 62
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidError("cursor", "not a cursor of this list", "next_cursor of the page before")
    return int(text)


def encoded(key: str) -> str:
    """A cursor that points after this key."""
    return base64.urlsafe_b64encode(key.encode()).decode()


def _decode(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise InvalidError("cursor", "not a cursor of this list", "next_cursor of the page before") from error
