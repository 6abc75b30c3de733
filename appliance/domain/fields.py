# SPDX-License-Identifier: Apache-2.0
"""Types of fields of requests and responses: sizes and GUIDs as strings, times, names, numbers with their ranges."""

import datetime
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema


class Model(BaseModel):
    """Base class of request bodies. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


Bytes = Annotated[int, PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "pattern": "^[0-9]+$"})]
Guid = Bytes


def _as_time(value: float) -> str:
    return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[float, PlainSerializer(_as_time, return_type=str), WithJsonSchema({"type": "string", "format": "date-time"})]


def _from_digits(value: object) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,19}", value, re.ASCII):
        raise ValueError("a size is a string of 1 to 19 decimal digits, in bytes")
    return int(value)


def _in_range(value: int) -> int:
    if not 1 << 30 <= value <= 64 << 40:
        raise ValueError("use a size from 1 GiB to 64 TiB")
    return value


_DIGITS = {"type": "string", "pattern": "^[0-9]{1,19}$"}
BytesInput = Annotated[int, BeforeValidator(_from_digits), AfterValidator(_in_range), WithJsonSchema(_DIGITS)]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _.@-]*$"
DATASTORE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,41}$"
"""VMFS allows 42 characters (VMware KB)."""
_SNAPSHOT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
ASCII = r"^[ -~]+$"
PATTERNS = {
    ASCII: "use ASCII characters only",
    _NAME: "use letters, digits, space and _ . @ - only, and begin with a letter or digit",
    DATASTORE_NAME: "use at most 42 letters, digits and _ . - only, and begin with a letter or digit",
    _SNAPSHOT_NAME: "use at most 64 letters, digits and _ . : - only, and begin with a letter or digit",
}
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=_NAME)]
DatastoreName = Annotated[str, Field(pattern=DATASTORE_NAME)]
SnapshotName = Annotated[str, Field(pattern=_SNAPSHOT_NAME)]
Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-z-]+$")]
Lun = Annotated[int, Field(ge=0, le=1023)]
Percent = Annotated[int, Field(ge=1, le=99)]
Password = Annotated[str, Field(min_length=1, max_length=256)]
