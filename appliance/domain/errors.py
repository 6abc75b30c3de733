# SPDX-License-Identifier: Apache-2.0
"""Errors of the domain. The API converts each to a problem+json, the CLI to a line and an exit code."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


class DomainError(Exception):
    """Any refusal; nothing was changed."""

    code: ClassVar[str] = "refused"
    reason: str

    def __str__(self) -> str:
        return self.reason

    def details(self) -> dict[str, Any]:
        return {}


@dataclass(eq=False)
class NotFoundError(DomainError):
    kind: str
    name: str
    code: ClassVar[str] = "not_found"

    def __str__(self) -> str:
        return f"there is no {self.kind} {self.name!r}"


@dataclass(eq=False)
class InvalidError(DomainError):
    """A value is invalid; `allowed` describes the valid ones."""

    field_name: str
    reason: str
    allowed: str = ""
    code: ClassVar[str] = "invalid"

    def __str__(self) -> str:
        return f"{self.field_name}: {self.reason}" + (f"; allowed: {self.allowed}" if self.allowed else "")

    def details(self) -> dict[str, Any]:
        return {"errors": [{"field": self.field_name, "reason": self.reason, "allowed": self.allowed}]}


@dataclass(eq=False)
class ConflictError(DomainError):
    """The present state forbids the request. `blocking` names obstacles that `reason` does not name; `can_force`: whether
    `force` overrides them. `field_name` is the conflicting field of the request, if it is one field. `retry_after`: seconds after
    which the same request is answered.
    """

    reason: str
    blocking: Sequence[str] = ()
    can_force: bool = False
    field_name: str | None = None
    retry_after: int | None = None
    code: ClassVar[str] = "conflict"

    def __str__(self) -> str:
        return self.reason + (f": {', '.join(self.blocking[:5])}" if self.blocking else "")

    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = {"blocking": list(self.blocking[:100]), "can_force": self.can_force}
        details["retry_after"] = self.retry_after
        if self.field_name is not None:
            details["errors"] = [{"field": self.field_name, "reason": self.reason, "allowed": ""}]
        return details


@dataclass(eq=False)
class UnauthenticatedError(DomainError):
    reason: str = "log in, or send a token"
    code: ClassVar[str] = "unauthenticated"


@dataclass(eq=False)
class ForbiddenError(DomainError):
    reason: str
    code: ClassVar[str] = "forbidden"


@dataclass(eq=False)
class TooManyError(DomainError):
    reason: str
    retry_after: int
    code: ClassVar[str] = "too_many_requests"

    def __str__(self) -> str:
        return f"{self.reason}; try again in {self.retry_after} s"

    def details(self) -> dict[str, Any]:
        return {"retry_after": self.retry_after}


@dataclass(eq=False)
class UnavailableError(DomainError):
    """The worker, the helper or the target does not answer. Whether a change was made is unknown."""

    reason: str
    code: ClassVar[str] = "unavailable"


@dataclass(eq=False)
class InternalError(DomainError):
    """The worker is at fault: a retry does not help."""

    reason: str = "the worker is at fault; see its log"
    code: ClassVar[str] = "internal"


@dataclass(eq=False)
class StorageError(DomainError):
    """OpenZFS refused, by the code of appliance.zfs.errors."""

    zfs_code: str
    reason: str
    fields: dict[str, Any] = field(default_factory=dict)
    code: ClassVar[str] = "storage"

    def details(self) -> dict[str, Any]:
        return {"storage": {"code": self.zfs_code, **self.fields}}


def to_wire(error: DomainError) -> dict[str, Any]:
    """For the worker's socket, and for a failed job."""
    return {"code": error.code, "text": str(error), "fields": dict(vars(error))}
