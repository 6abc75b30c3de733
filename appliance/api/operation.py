# SPDX-License-Identifier: Apache-2.0
"""How every operation of the API is declared and carried out.

A declaration says the path, who may (`role`; None: anybody), what the audit calls it (`audit`; all that changes something has
one), what it takes and what it answers. Carried out in this order: who asks, CSRF, role, body, idempotency key, the view, audit.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from apiflask import APIBlueprint
from flask import Response, current_app, g, request
from pydantic import BaseModel
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from werkzeug.exceptions import BadRequest, HTTPException, UnsupportedMediaType

from appliance.api.problems import answer_of, problem_of
from appliance.api.schemas.journal import JobTold
from appliance.api.types import Versioned, entity_tag
from appliance.config import Configuration
from appliance.database.models import IdempotencyKey
from appliance.database.store import Store
from appliance.domain import access, jobs, recovery
from appliance.domain.access import Caller, Role
from appliance.domain.errors import (
    ConflictError,
    DomainError,
    ForbiddenError,
    InvalidError,
    UnauthenticatedError,
    UnavailableError,
)
from appliance.domain.journal import complete, record, rotate, withdraw
from appliance.domain.requests import Request
from appliance.domain.secrets import Seal, SealedError, is_sealed
from appliance.worker.client import WorkerClient

COOKIE = "__Host-zvaai"
CSRF_HEADER = "X-CSRF-Token"
_KEYS_KEPT_S = 86400
_ROTATED_AFTER = 100
_LONGEST_AUDITED = 4096
_TELLING = {200, 201, 401}
"""What came of attempts of nobody in particular: logins, and those that failed, which have to wait."""
SECRET_FIELDS = {"password", "recovery_key", "passphrase", "secret", "code", "current", "new", "chap", "url"}
""""url" of a webhook: it may have a token in it."""


_IN_RECOVERY_MODE = ("recovery", "setup", "session", "alert", "configuration.backup")
"""What is done in recovery mode, by its name in the audit: nothing that the configuration is about."""


class PreconditionError(DomainError):
    """If-Match names another version than there is."""

    code = "precondition_failed"

    def __str__(self) -> str:
        return "it has changed since it was read; read it again"


class _TakenBack(Exception):  # noqa: N818  # not a failure
    """Ends a transaction of which nothing is to stay."""


@dataclass
class Services:
    """What views ask."""

    configuration: Configuration
    store: Store
    worker: WorkerClient
    seal: Seal


@dataclass
class Call:
    """One request: who asks, what is asked, and what the audit is to say."""

    services: Services
    caller: Caller | None
    address: str
    subject: str = ""
    key: str | None = None
    """The request's idempotency key, with who asks and what is asked for."""
    entry: int | None = None
    """Of the audit, when it has begun."""
    before: dict[str, Any] | None = None
    cookies: list[tuple[str, int | None]] = field(default_factory=list)
    _transaction: tuple[Session, contextlib.ExitStack] | None = None
    _tells_worker: bool = False

    @property
    def who(self) -> Caller:
        """The caller of an operation that has a role."""
        assert self.caller is not None
        return self.caller

    def submit(self, job: Request) -> BaseModel:
        """A job, checked and queued."""
        job_id = self.services.worker.submit(job, self.who.name, self.key)
        with self.services.store.reading() as session:
            return JobTold.model_validate(jobs.job(session, job_id))

    def begun_before(self) -> BaseModel | None:
        """The job of this very request, whose answer was lost with who was to give it. What it changes may be another by now."""
        with self.services.store.reading() as session:
            job_id = jobs.asked_before(session, self.key)
            return JobTold.model_validate(jobs.job(session, job_id)) if job_id is not None else None

    @contextlib.contextmanager
    def changing(self) -> Iterator[Session]:
        """The transaction of this request, once.

        It is committed with the end of the audit's entry and the answer for the idempotency key: who is killed has done all of it
        or nothing, and the same request again finds which.
        """
        assert self._transaction is None
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(self.services.store.session())
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
            with self.services.store.session() as session:
                yield session
        else:
            with transaction[1]:
                yield transaction[0]
        if self._tells_worker and made:
            with contextlib.suppress(UnavailableError):
                self.services.worker.call("reconcile")

    def changed(self) -> None:
        """The worker is to look as soon as it is changed. When it can't, it does at its start."""
        self._tells_worker = True

    def match(self, current: BaseModel) -> None:
        """Refuses when If-Match names another version; the operation is declared as one that `matches`."""
        told = current.model_dump_json(exclude={"etag"} if isinstance(current, Versioned) else None)
        self.before = _without_secrets(json.loads(told))
        asked = request.headers.get("If-Match")
        if asked is not None and asked.strip() != "*" and etag(current) not in [one.strip() for one in asked.split(",")]:
            raise PreconditionError


View = TypeVar("View", bound=Callable[..., BaseModel | Response])
"""What an operation's function is: takes the call, then path, body and query by name."""


@dataclass(frozen=True)
class Declaration:
    """What is declared of an operation."""

    method: str
    path: str
    role: Role | None
    audit: str | None
    status: int
    has_body: bool
    has_query: bool
    tells_secret: bool
    is_list: bool
    media: str | None = None
    """The answer's media type, where it is no JSON."""
    conflicts: bool = False
    """Something can be in the way, as with all that changes something."""
    matches: bool = False
    """If-Match is heeded: it changes something that is told with a version."""
    measures: bool = False
    """What is told has values that change by themselves, and are not in its version."""


DECLARATIONS: dict[str, Declaration] = {}
"""By endpoint."""


def services() -> Services:
    """Of this application."""
    found: Services = current_app.extensions["zvaai"]
    return found


def etag(model: BaseModel) -> str:
    """Of a representation: what an admin may change, not what is measured."""
    return model.etag if isinstance(model, Versioned) else entity_tag(model.model_dump(mode="json"))


class Resource:
    """Operations of one resource."""

    def __init__(self, name: str) -> None:
        self.blueprint = APIBlueprint(name, __name__, url_prefix="/api/v1")
        self._name = name

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
    ) -> Callable[[View], View]:
        """Declares one."""
        assert (audit is not None) == (method != "GET"), "all that changes something is audited"

        def declare(view: View) -> View:
            endpoint = f"{self._name}.{view.__name__}"
            declared = Declaration(
                method,
                f"/api/v1{path}",
                role,
                audit,
                status,
                body is not None,
                query is not None,
                "secret" in answer.model_fields,
                bool({"items", "checks"} & answer.model_fields.keys()),
                media,
                conflicts or method != "GET",
                matches,
                issubclass(answer, Versioned) and bool(answer.MEASURED),
            )
            DECLARATIONS[endpoint] = declared
            function: Any = view

            def answered(**asked: Any) -> BaseModel | Response:
                call: Call = g.zvaai_call
                return _as_response((call.begun_before() if status == 202 else None) or function(call, **asked), status)

            plain: Any = wraps(function)(answered)
            plain = self.blueprint.output(answer, status_code=status)(plain)
            if body is not None:
                plain = self.blueprint.input(body, location="json", arg_name="body")(plain)
            if query is not None:
                plain = self.blueprint.input(query, location="query", arg_name="query")(plain)
            carried_out = wraps(plain)(lambda **asked: _carry_out(declared, plain, asked))
            route: Any = self.blueprint.route(path, methods=[method])
            route(carried_out)
            return view

        return declare


def _as_response(told: BaseModel | Response, status: int) -> BaseModel | Response:
    """Serialized at once by pydantic: a page of 500 takes a fifth of the time."""
    if isinstance(told, BaseModel):
        with contextlib.suppress(ValueError):  # half a character, which only escapes can tell
            return Response(told.model_dump_json(), status, content_type="application/json")
    return told


# --- carrying out


def _carry_out(declared: Declaration, view: Callable[..., Any], asked: dict[str, Any]) -> Response:
    call = Call(services(), None, request.remote_addr or "")
    g.zvaai_call = call
    call.subject = "/".join(str(value) for value in asked.values())
    claimed: str | None = None
    try:
        call.caller = _who(declared, call)
        if declared.has_body:
            _read_body()
        if declared.method != "GET" and not declared.matches and request.headers.get("If-Match", "*").strip() != "*":
            raise PreconditionError  # of what has no version, or no one that is looked at, none matches
        if declared.method != "GET" and not (declared.audit or "").startswith(_IN_RECOVERY_MODE):
            with call.services.store.reading() as session:
                recovery.check_inactive(session)
        claimed, earlier = _claim(declared, call)
        if earlier is not None:
            return earlier
        _begin(declared, call)
        response: Response = current_app.make_response(view(**asked))
    except (DomainError, HTTPException) as error:
        response = answer_of(problem_of(error))
    except Exception as error:
        if not hasattr(error, "status_code"):  # APIFlask's own are answers
            _finish(declared, call, None, claimed)
            raise
        response = answer_of(problem_of(error))
    for value, age in call.cookies:
        response.set_cookie(COOKIE, value, max_age=age, secure=True, httponly=True, samesite="Strict", path="/")
    if declared.method == "GET" and response.status_code == 200 and response.is_json and not response.is_streamed:
        # A list has none that If-Match could name: it is not taken apart for its tag. What is in it has its own.
        told: Any = response.get_data(as_text=True) if declared.is_list else response.get_json()
        tag: str = ("" if declared.is_list else told.get("etag")) or entity_tag(told)
        response.headers["ETag"] = tag
        if not declared.measures and tag in [one.strip() for one in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status=304, headers={"ETag": tag})
    if response.status_code == 202:
        response.headers["Location"] = f"/api/v1/jobs/{response.get_json()['id']}"
    _finish(declared, call, response, claimed)
    return response


def _who(declared: Declaration, call: Call) -> Caller | None:
    if declared.role is None:
        return None
    store = call.services.store
    authorization = request.headers.get("Authorization", "")
    cookie = request.cookies.get(COOKIE)
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
    if caller.cookie and declared.method != "GET" and request.headers.get(CSRF_HEADER) != access.csrf_token(cookie or ""):
        raise ForbiddenError(f"the header {CSRF_HEADER} is missing or not the session's")
    if touch:
        with store.session() as session:
            (access.touch_session if caller.cookie else access.touch_token)(session, caller.credential)
    if caller.role < declared.role:
        call.caller = caller  # for the audit
        raise ForbiddenError(f"this needs the role {declared.role.label}; you are {caller.role.label}")
    return caller


def _read_body() -> None:
    if request.mimetype != "application/json":  # what a form of another site can't send
        raise UnsupportedMediaType("the body has to be application/json")
    try:
        request.get_json()
    except RecursionError as error:
        raise BadRequest("the JSON is too deep") from error


def _claim(declared: Declaration, call: Call) -> tuple[str | None, Response | None]:
    """Takes the idempotency key for this request; or the answer of the one that had it before."""
    key = request.headers.get("Idempotency-Key")
    if key is None or declared.method == "GET" or call.caller is None:
        return None, None
    if not 1 <= len(key) <= 128 or not key.isprintable():
        raise InvalidError("Idempotency-Key", "not a key", "1 to 128 printable characters")
    asked = [declared.method.encode(), request.full_path.encode(), request.get_data()]
    asked.append(call.caller.credential.encode() if declared.tells_secret else b"")
    digest = call.services.seal.digest(b"\0".join(asked))
    call.key = f"{call.caller.user_id} {digest} {key}"
    store, actor, now = call.services.store, call.caller.user_id, time.time()
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
        raise ConflictError("it is done already, and its secret is told once", [key])
    try:
        told = call.services.seal.open(earlier.body) if is_sealed(earlier.body) else earlier.body
    except SealedError as error:
        raise ConflictError("it is done already, and the key that its answer was sealed with is gone", [key]) from error
    return None, Response(told, earlier.status, earlier.headers)


def forget_unfinished(store: Store) -> None:
    """At the start: requests of a process that was killed may be sent again with their keys."""
    with store.session() as session:
        session.execute(delete(IdempotencyKey).where(IdempotencyKey.status.is_(None)))


def _begin(declared: Declaration, call: Call) -> None:
    """The audit, before anything is changed: whoever dies while changing it has left a trace."""
    if declared.audit is not None:
        with call.services.store.session() as session:
            call.entry = _record(session, declared, call, None)


def _record(session: Session, declared: Declaration, call: Call, status: int | None) -> int:
    with_body = declared.has_body and call.caller is not None and status not in (400, 413, 415)
    return record(
        session, actor=call.caller.name if call.caller else "", token=call.caller.token if call.caller else None,
        address=call.address, action=declared.audit or "",
        subject=call.subject[:512], status=status, before=call.before,
        after=_without_secrets(request.get_json(silent=True)) if with_body else None,
    )  # fmt: skip


def _finish(declared: Declaration, call: Call, response: Response | None, key: str | None) -> None:
    """Audit, and the answer for the idempotency key. A request that failed by our fault may be sent again with its key."""
    try:
        _write_end(declared, call, response, key)
    except Exception:
        with contextlib.suppress(Exception), call.services.store.session() as session:
            session.execute(delete(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.status.is_(None)))
        raise


def _write_end(declared: Declaration, call: Call, response: Response | None, key: str | None) -> None:
    status = response.status_code if response is not None else 500
    if declared.audit is None or (call.caller is None and declared.role is not None):
        return  # who is nobody fills no disk
    with call.ending(made=status < 400) as session:
        if call.entry is None:
            call.entry = _record(session, declared, call, status)
        elif call.caller is None and status not in _TELLING:
            withdraw(session, call.entry)  # or who is nobody turns the audit over until nothing of it is left
        else:
            complete(session, call.entry, subject=call.subject[:512], status=status, before=call.before)
        if call.entry % _ROTATED_AFTER == 0:
            rotate(session, call.services.configuration.audit_directory)
        if key is not None and call.caller is not None:
            kept = session.get(IdempotencyKey, (call.caller.user_id, key))
            if kept is not None and response is not None and status < 500:
                told = "" if declared.tells_secret else response.get_data(as_text=True)
                kept.status, kept.body = status, call.services.seal.seal(told) if told else ""  # it may have a URL with a token
                kept.headers = {
                    name: response.headers[name] for name in ("Content-Type", "Location", "ETag") if name in response.headers
                }
            elif kept is not None:
                session.delete(kept)


def _without_secrets(asked: Any) -> dict[str, Any] | None:
    if not isinstance(asked, dict):
        return None
    try:
        told: dict[str, Any] = _hidden(asked)
        return told if len(json.dumps(told)) <= _LONGEST_AUDITED else {"long": True}
    except RecursionError:
        return {"deep": True}


def _hidden(asked: Any) -> Any:
    if isinstance(asked, dict):
        return {
            name: "(secret)" if name in SECRET_FIELDS and value is not None else _hidden(value) for name, value in asked.items()
        }
    return [_hidden(value) for value in asked] if isinstance(asked, list) else asked


# --- pages


def page(items: Sequence[Any], query: Any, key: Callable[[Any], str]) -> dict[str, Any]:
    """A page of a list in memory, sorted by `key`, which is different for each: whole, or with one more than is asked for."""
    begin = after(query)
    rest = [item for item in items if begin is None or key(item) > begin]
    shown = rest[: query.limit]
    return {"items": shown, "next_cursor": encoded(key(shown[-1])) if len(rest) > len(shown) else None}


def after(query: Any) -> str | None:
    """The key of the last of the page before."""
    return _decode(query.cursor)


def newest_first(items: Iterable[Any], query: Any, number: Callable[[Any], int]) -> dict[str, Any]:
    """A page of a list that the database has sorted, one more than asked for."""
    found = list(items)
    shown = found[: query.limit]
    return {"items": shown, "next_cursor": encoded(str(number(shown[-1]))) if len(found) > len(shown) else None}


def before_number(query: Any) -> int:
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
