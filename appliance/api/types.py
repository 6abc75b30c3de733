# SPDX-License-Identifier: Apache-2.0
"""Types of fields that several schemas have: sizes and GUIDs as strings, times, names."""

import datetime
import hashlib
import json
import re
from collections.abc import Set
from typing import Annotated, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict


class Model(BaseModel):
    """Base class of all schemas. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


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


def _from_digits(value: object) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,19}", value, re.ASCII):
        raise ValueError("a size is a string of 1 to 19 decimal digits, in bytes")
    return int(value)


def _in_range(value: int) -> int:
    if not 1 << 30 <= value <= 64 << 40:
        raise ValueError("use a size from 1 GiB to 64 TiB")
    return value


_DIGITS = {"type": "string", "pattern": "^[0-9]{1,19}$"}
Bytes = Annotated[int, PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "pattern": "^[0-9]+$"})]
Guid = Bytes
BytesInput = Annotated[int, BeforeValidator(_from_digits), AfterValidator(_in_range), WithJsonSchema(_DIGITS)]


def _as_time(value: float) -> str:
    return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[float, PlainSerializer(_as_time, return_type=str), WithJsonSchema({"type": "string", "format": "date-time"})]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _.@-]*$"
_DATASTORE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,41}$"
_SNAPSHOT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
PATTERNS = {
    _NAME: "use letters, digits, space and _ . @ - only, and begin with a letter or digit",
    _DATASTORE_NAME: "use at most 42 letters, digits and _ . - only, and begin with a letter or digit",
    _SNAPSHOT_NAME: "use at most 64 letters, digits and _ . : - only, and begin with a letter or digit",
}
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=_NAME)]
DatastoreName = Annotated[str, Field(pattern=_DATASTORE_NAME)]
SnapshotName = Annotated[str, Field(pattern=_SNAPSHOT_NAME)]
Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-z-]+$")]
Lun = Annotated[int, Field(ge=0, le=1023)]
Percent = Annotated[int, Field(ge=1, le=99)]
Password = Annotated[str, Field(min_length=1, max_length=256)]
