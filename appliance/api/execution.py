# SPDX-License-Identifier: Apache-2.0
"""How the worker carries out an operation: caller, CSRF, role, body, idempotency key, audit, the view, end of the audit."""

import contextlib
import json
import logging
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from appliance.api.operation import CSRF_HEADER, DECLARATIONS, Call, Declaration, PreconditionError, without_secrets
from appliance.api.problems import Problem, headers_of, invalid, problem, problem_of
from appliance.api.wire import HttpRequest, Refusal, Response, Stream
from appliance.database.models import Host, HostGroup, IdempotencyKey, Job, Receiver, Schedule, Token, User
from appliance.database.store import Store
from appliance.domain import access, jobs, recovery
from appliance.domain.access import Caller
from appliance.domain.errors import ConflictError, DomainError, ForbiddenError, InvalidError, UnauthenticatedError
from appliance.domain.journal import complete, record, rotate
from appliance.domain.secrets import SealedError
from appliance.worker.errors import as_domain_errors
from appliance.worker.service import Service

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_KEY_LIFETIME_S = 86400
_KEYS_PER_USER = 1000
"""Answers that are stored for one user: nobody fills the system disk with them."""
_ROTATED_AFTER = 100
_LONGEST_WAIT_S = 30
_TELLING = {200, 201, 401, 403}
"""Statuses of anonymous requests that the audit records: logins, and failed attempts with a delay."""
_log = logging.getLogger(__name__)
_ended = threading.Condition()
_running: set[str | None] = set()
"""Keys of requests that are carried out now. Guarded by `_ended`, which is notified at the end of each."""
_IN_RECOVERY_MODE = ("recovery", "setup", "session", "alert", "token", "configuration.backup", "power")
"""Operations that are permitted in recovery mode, by audit name: none depends on the configuration."""


_NAMED: dict[str, type[Host | HostGroup | Schedule | User | Token | Receiver | Job]] = {
    "host_id": Host, "group_id": HostGroup, "schedule_id": Schedule, "user_id": User, "token_id": Token, "receiver_id": Receiver,
    "job_id": Job,
}  # fmt: skip


class Refused(Exception):  # noqa: N818  # not a failure
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


@dataclass
class Outcome:
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
        arguments = _arguments(declared, call)
        if declared.method != "GET" and not declared.matches and (sent.if_match or "*").strip() != "*":
            raise PreconditionError  # a resource without a version, or whose version is not checked, matches none
        if declared.method != "GET" and not (declared.audit or "").startswith(_IN_RECOVERY_MODE):
            with call.context.store.reading() as session:
                recovery.check_inactive(session)
        claimed, earlier = _claim(declared, call)
        if earlier is not None:
            return earlier
        _begin(declared, call)
        with as_domain_errors():
            outcome = _viewed(declared, call, arguments)
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
    return _refusal(problem(500, "internal", "the service is at fault; see its log"))


def _refusal(body: Problem) -> Outcome:
    return Outcome(body["status"], headers_of(body), json.dumps(body).encode())


def _believable(refusal: Refusal) -> Problem:
    """Limits the response of the HTTP process to refusals."""
    status = refusal.status if 400 <= refusal.status < 500 else 400
    return problem(status, refusal.code, refusal.detail)


def _arguments(declared: Declaration, call: Call) -> dict[str, object]:
    """Path, body and query for the view. Raises Refused."""
    arguments: dict[str, object] = dict(call.request.path)
    if arguments.keys() != set(_PARAMETER.findall(declared.path)):
        raise Refused(problem(404, "not_found", "this path has other parameters"))
    try:
        if declared.body is not None:
            arguments["body"] = declared.body.model_validate(_json(call.request.body))
        if declared.query is not None:
            arguments["query"] = declared.query.model_validate(call.request.query)
    except ValidationError as error:
        raise Refused(invalid(error)) from error
    return arguments


def _viewed(declared: Declaration, call: Call, arguments: dict[str, object]) -> Outcome:
    begun = call.begun_before() if declared.status == 202 else None
    response = begun or _response(declared, call, arguments)
    if declared.status == 201 and not call.subject:
        call.subject = str(getattr(response, "id", ""))
    if isinstance(response, Response):
        headers = {"Content-Type": response.content_type}
        if response.download_name is not None:
            headers["Content-Disposition"] = f"attachment; filename={response.download_name}"
        if isinstance(response.content, Stream):
            headers["X-Accel-Buffering"] = "no"  # nginx would keep events until its buffer is full
        return Outcome(declared.status, headers, response.content)
    headers = {"Content-Type": "application/json"}
    if declared.status == 202:
        headers["Location"] = f"/api/v1/jobs/{response.model_dump()['id']}"
    try:
        content = response.model_dump_json()
    except ValueError:  # half a character, which only escapes can express
        content = json.dumps(response.model_dump(mode="json"))
    return Outcome(declared.status, headers, content.encode())


def _response(declared: Declaration, call: Call, arguments: dict[str, object]) -> BaseModel | Response:
    if not declared.session:
        return declared.view(call, **arguments)
    with call.context.store.reading() if declared.method == "GET" else call.changing() as session:
        return declared.view(call, session=session, **arguments)


def _json(text: str | None) -> object:
    """Raises Refused."""
    try:
        parsed: object = json.loads(text or "null")
        return parsed
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
        elif cookie:
            caller = access.by_cookie(session, cookie)
        else:
            raise UnauthenticatedError
        touch = access.needs_touch(session, caller)
    if caller.cookie and declared.method != "GET" and call.request.csrf != access.csrf_token(cookie or ""):
        raise ForbiddenError(f"the header {CSRF_HEADER} is missing or not the session's")
    if touch:
        with contextlib.suppress(OperationalError), store.session() as session:  # a full disk does not stop reading
            access.touch(session, caller)
    if caller.role < declared.role:
        call.caller = caller  # for the audit
        raise ForbiddenError(f"this needs the role {declared.role.label}; you are {caller.role.label}")
    return caller


def _claim(declared: Declaration, call: Call) -> tuple[str | None, Outcome | None]:
    """Claims the idempotency key for this request, or returns the answer of the earlier request with this key."""
    key = call.request.idempotency_key
    if key is None or declared.method == "GET" or call.caller is None:
        return None, None
    if not 1 <= len(key) <= 128 or not key.isprintable():
        raise InvalidError("Idempotency-Key", "not a key", "1 to 128 printable characters")
    parts = [declared.method.encode(), call.request.target.encode(), (call.request.body or "").encode()]
    parts.append(call.caller.credential.encode() if declared.returns_secret else b"")
    digest = call.context.seal.digest(b"\0".join(parts))
    call.key = f"{call.caller.user_id} {digest} {key}"
    store, actor, now = call.context.store, call.caller.user_id, time.time()
    with _ended:  # the HTTP process can have died, and the client repeated the request: wait for the end of the first one
        if not _ended.wait_for(lambda: call.key not in _running, _LONGEST_WAIT_S):
            raise ConflictError("the request with this idempotency key is running", [key], retry_after=2)
        _running.add(call.key)
        call.running = True
    with store.session() as session:
        session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < now - _KEY_LIFETIME_S))
        jobs.forget_keys(session, now - _KEY_LIFETIME_S)
        finished = (IdempotencyKey.actor == actor) & IdempotencyKey.status.is_not(None)
        newest = select(IdempotencyKey.key).where(finished).order_by(IdempotencyKey.created_at.desc()).limit(_KEYS_PER_USER)
        session.execute(delete(IdempotencyKey).where(finished & IdempotencyKey.key.not_in(newest)))
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
        raise ConflictError("the request with this idempotency key is running", [key])
    if declared.returns_secret:
        raise ConflictError("it is done already, and its secret is shown only once", [key])
    try:
        body = call.context.seal.open(earlier.body) if earlier.body else ""
    except SealedError as error:
        raise ConflictError("it is done already, and the key for its stored answer is lost", [key]) from error
    return None, Outcome(earlier.status, dict(earlier.headers), body.encode())


def forget_unfinished(store: Store) -> None:
    """At the start: requests of a process that was killed may be sent again with their keys."""
    with store.session() as session:
        session.execute(delete(IdempotencyKey).where(IdempotencyKey.status.is_(None)))


def _begin(declared: Declaration, call: Call) -> None:
    """Writes the audit entry before anything is changed, so that a crash during the change leaves a trace.

    Not of an anonymous request, which must not cost a commit. Its name may be a password.
    """
    if declared.audit is not None and call.caller is not None:
        call.name = _name(call)
        with call.context.store.session() as session:
            call.entry = _record(session, declared, call, None)


def _name(call: Call) -> str:
    """Present name of the request's subject: it can be renamed or deleted later."""
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
        after=without_secrets(_parsed(call.request.body)) if with_body else None,
    )  # fmt: skip


def _finish(declared: Declaration, call: Call, outcome: Outcome | None, key: str | None) -> None:
    """Audit, and the answer for the idempotency key. The key is free after a refusal or failure."""
    try:
        _write_end(declared, call, outcome, key)
    except Exception:
        with contextlib.suppress(Exception), call.context.store.session() as session:
            session.execute(delete(IdempotencyKey).where(IdempotencyKey.key == key, IdempotencyKey.status.is_(None)))
        raise


def _write_end(declared: Declaration, call: Call, outcome: Outcome | None, key: str | None) -> None:
    status = outcome.status if outcome is not None else 500
    if declared.audit is None or (call.caller is None and declared.role is not None):
        return  # anonymous requests must not fill the disk
    with call.ending(made=status < 400) as session:
        if call.caller is None and status not in _TELLING:
            return  # otherwise anonymous requests could rotate the audit until nothing is left
        if call.entry is None:
            call.entry = _record(session, declared, call, status)
        else:
            complete(session, call.entry, subject=call.subject[:512], status=status, before=call.before)
        if call.entry % _ROTATED_AFTER == 0:
            rotate(session, call.context.configuration.audit_directory)
        if key is not None and call.caller is not None:
            row = session.get(IdempotencyKey, (call.caller.user_id, key))
            if row is not None and outcome is not None and isinstance(outcome.content, bytes) and status < 400:
                body = "" if declared.returns_secret else outcome.content.decode()
                row.status, row.body = status, call.context.seal.seal(body) if body else ""  # it may have a URL with a token
                row.headers = {name: value for name, value in outcome.headers.items() if name in ("Content-Type", "Location")}
            elif row is not None:
                session.delete(row)


def _parsed(body: str | None) -> object:
    with contextlib.suppress(Refused):
        return _json(body)
    return None
