# SPDX-License-Identifier: Apache-2.0
"""Base classes of responses."""

import hashlib
import json
from collections.abc import Set
from typing import ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    model_validator,
)
from pydantic.config import JsonDict


class Answer(BaseModel):
    """Base class of responses."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


def entity_tag(representation: object) -> str:
    """Strong entity tag of a JSON representation (RFC 9110, 8.8.3): 32 hexadecimal digits."""
    return f'"{hashlib.sha256(json.dumps(representation, sort_keys=True).encode()).hexdigest()[:32]}"'


def _require_tag(schema: JsonDict) -> None:
    required = schema.setdefault("required", [])
    assert isinstance(required, list)
    required.append("etag")


class Versioned(Answer):
    """A representation with its version, also in lists. A change with `etag` as If-Match applies to that version only."""

    model_config = ConfigDict(json_schema_extra=_require_tag)

    MEASURED: ClassVar[Set[str]] = frozenset()
    """Fields that change without a request, and are not part of the version."""
    etag: str = ""

    @model_validator(mode="after")
    def _tag(self) -> Self:
        self.etag = entity_tag(self.model_dump(mode="json", exclude={"etag", *self.MEASURED}))
        return self
