# SPDX-License-Identifier: Apache-2.0
"""How every operation of the API is declared.

A declaration says the path, who may (`role`; None: anybody), what the audit calls it (`audit`; all that changes something has
one), what it takes and what it returns. The HTTP process (appliance/gateway) makes routes and the OpenAPI document of these,
and runs no view. The worker does (execution.py).

To add an operation, write a view with `Resource.operation`, or declare a job with `Resource.job`, in the module of its resource.
A new module also needs a place in RESOURCES of appliance/api/resources.py.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel
from sqlalchemy.orm import Session

from appliance.api.schemas.common import EmptyResponse
from appliance.api.schemas.journal import JobResponse
from appliance.api.types import Versioned, entity_tag
from appliance.api.wire import HttpRequest, Response
from appliance.domain import jobs
from appliance.domain.access import Caller, Role
from appliance.domain.errors import DomainError
from appliance.domain.requests import Request
from appliance.worker.context import Context
from appliance.worker.executor import BY_REQUEST
from appliance.worker.service import Service

COOKIE = "__Host-zvaai"
CSRF_HEADER = "X-CSRF-Token"
SUBMIT_S = 54
"""Time for a job to be queued: the HTTP process waits 60 s for its answer."""
_LONGEST_AUDITED = 4096
SECRET_FIELDS = {"password", "recovery_key", "secret", "code", "current", "new", "chap", "url", "file", "private_key", "binding"}
""""url" of a receiver: it may have a token in it. "file" is a sealed copy of the configuration."""


class PreconditionError(DomainError):
    """If-Match names another version than there is."""

    code = "precondition_failed"

    def __str__(self) -> str:
        return "it has changed since it was read; read it again"


class _TakenBack(Exception):  # noqa: N818  # not a failure
    """Ends a transaction that must be rolled back."""


@dataclass
class Call:
    """One request: the caller, the requested values, and the data for the audit."""

    worker: Service
    request: HttpRequest
    caller: Caller | None = None
    subject: str = ""
    name: str = ""
    key: str | None = None
    """The request's idempotency key, with the caller and a digest of the request."""
    running: bool = False
    entry: int | None = None
    before: dict[str, object] | None = None
    cookies: list[tuple[str, int | None]] = field(default_factory=list)
    _transaction: tuple[Session, contextlib.ExitStack] | None = None
    _requests_reconciliation: bool = False

    @property
    def address(self) -> str:
        return self.request.address[:64]

    @property
    def context(self) -> Context:
        """The worker's: configuration, database, data planes."""
        return self.worker.context

    @property
    def who(self) -> Caller:
        assert self.caller is not None
        return self.caller

    def submit(self, job: Request) -> JobResponse:
        """A job, checked and queued. If it cannot be queued in time, it is not queued."""
        until = time.monotonic() + SUBMIT_S
        job_id = self.worker.executor.submit(job, self.who.name, key=self.key, until=until)
        with self.context.store.reading() as session:
            return JobResponse.model_validate(jobs.job(session, job_id))

    def begun_before(self) -> JobResponse | None:
        """The job of this request if its answer was lost. Its subject can have changed in the meantime."""
        with self.context.store.reading() as session:
            job_id = jobs.job_of_key(session, self.key)
            return JobResponse.model_validate(jobs.job(session, job_id)) if job_id is not None else None

    @contextlib.contextmanager
    def changing(self) -> Iterator[Session]:
        """The transaction of this request, once. It commits together with the end of the audit entry and the answer for the
        idempotency key. After a crash, everything or nothing is done, and the repeated request finds out which.
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
        if self._requests_reconciliation and made:
            self.worker.scheduler.request()

    def changed(self) -> None:
        """The worker reconciles as soon as the change is committed."""
        self._requests_reconciliation = True

    def match(self, current: BaseModel) -> None:
        """Raises an error if If-Match names another version; only for an operation declared with `matches`."""
        representation = current.model_dump_json(exclude={"etag"} if isinstance(current, Versioned) else None)
        self.before = without_secrets(json.loads(representation))
        expected = self.request.if_match
        if expected is not None and expected.strip() != "*" and etag(current) not in [tag.strip() for tag in expected.split(",")]:
            raise PreconditionError


View = TypeVar("View", bound=Callable[..., BaseModel | Response])
"""Function of an operation: takes the call, then path, body and query by name. With a parameter `session` it gets a
transaction: a read-only transaction for GET, otherwise `Call.changing`.
"""


@dataclass(frozen=True)
class Declaration:
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
    """The response's media type, unless it is JSON."""
    conflicts: bool = False
    """Something can be in the way, as with all that changes something."""
    matches: bool = False
    """If-Match is heeded: it changes something that has a version."""
    local: bool = False
    """The HTTP process responds by itself."""
    session: bool = False
    """The view takes the transaction."""

    @property
    def returns_secret(self) -> bool:
        """Whether the response has a secret, which is shown once."""
        return bool({"secret", "recovery_codes"} & self.answer.model_fields.keys())

    @property
    def is_list(self) -> bool:
        """Whether the response is a list, which has no version."""
        return bool({"items", "checks"} & self.answer.model_fields.keys())

    @property
    def measures(self) -> bool:
        """Whether the response has values that change by themselves, and are not in its version."""
        return issubclass(self.answer, Versioned) and bool(self.answer.MEASURED)


DECLARATIONS: dict[str, Declaration] = {}
"""By name: of the resource, a dot, and the view's."""


def etag(model: BaseModel) -> str:
    """ETag of a representation: the fields that an admin can change, without measured values."""
    return model.etag if isinstance(model, Versioned) else entity_tag(model.model_dump(mode="json"))


class Resource:
    def __init__(self, name: str, /, **names: str) -> None:
        """`names`: of requests for jobs, what the path names."""
        self.name, self.names = name, names
        self.declarations: list[Declaration] = []

    def operation(
        self,
        method: str,
        path: str,
        *,
        role: Role | None,
        audit: str | None = None,
        status: int = 200,
        media: str | None = None,
        conflicts: bool = False,
        matches: bool = False,
        local: bool = False,
    ) -> Callable[[View], View]:
        """Declares an operation. The types of the view are those of the operation."""
        assert (audit is not None) == (method != "GET"), "all that changes something is audited"

        def declare(view: View) -> View:
            name, types = f"{self.name}.{view.__name__}", get_type_hints(view)
            returned = EmptyResponse if types["return"] is Response else types["return"]
            declared = Declaration(
                name, view, method, f"/api/v1{path}", role, audit, returned, status, types.get("body"), types.get("query"), media,
                conflicts or method != "GET", matches, local, "session" in types,
            )  # fmt: skip
            DECLARATIONS[name] = declared
            self.declarations.append(declared)
            return view

        return declare

    def job(
        self,
        method: str,
        path: str,
        role: Role,
        request: type[Request],
        *,
        query: bool = False,
        matches: Callable[..., BaseModel] | None = None,
        check: Callable[[Call, Any], object] | None = None,
    ) -> None:
        """Declares that a request starts a job, which is its response. Its text and its name in the audit are the operation's.

        The fields of the request are the body, or with `query` the query. `matches` returns what If-Match is about, by the path.
        `check` may refuse the request, or set what only the appliance knows.
        """
        operation = BY_REQUEST[request]

        def view(call: Call, body: Request | None = None, query: Request | None = None, **path: str) -> JobResponse:
            if matches is not None:
                call.match(matches(call, *path.values()))
            sent = (body or query or request()).of(**{self.names.get(name, name): value for name, value in path.items()})
            if check is not None:
                check(call, sent)
            return call.submit(sent)

        noun, verb = operation.kind.split(".")
        view.__name__, view.__doc__ = f"{verb}_{noun}", operation.__doc__
        view.__annotations__ = {"return": JobResponse}
        if request.model_fields:
            view.__annotations__["query" if query else "body"] = request
        self.operation(method, path, role=role, audit=operation.kind, status=202, matches=matches is not None)(view)


def without_secrets(value: object) -> dict[str, object] | None:
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
