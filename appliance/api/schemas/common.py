# SPDX-License-Identifier: Apache-2.0
"""Shared by all resources: empty responses, problems, pages of lists."""

from pydantic import Field

from appliance.api.types import Answer
from appliance.domain.fields import Model


class EmptyResponse(Answer):
    """No content."""


class FieldProblemResponse(Answer):
    """Error of a field."""

    field: str
    reason: str
    allowed: str = ""


class Problem(Answer):
    """RFC 9457. `code` names the kind of problem for programs. `storage`: the code of OpenZFS, with its fields."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblemResponse] = []
    blocking: list[str] = []
    can_force: bool = False
    retry_after: int | None = None
    storage: dict[str, object] | None = None


class ListQuery(Model):
    """A page of a list: as many as `limit`, after where `cursor` points."""

    limit: int = Field(100, ge=1, le=500)
    cursor: str | None = Field(None, max_length=512)


class Page[T](Answer):
    """Part of a list, and the cursor of the next part."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def model_parametrized_name(cls, params: tuple[type, ...]) -> str:
        """The schema's name in the API: HostPageResponse of HostResponse."""
        return f"{params[0].__name__.removesuffix('Response')}PageResponse"


class ForceQuery(Model):
    """`force` does what is otherwise refused because hosts are logged in."""

    force: bool = False
