# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery, Page
from appliance.api.types import Answer
from appliance.domain.fields import Bytes, Time
from appliance.worker.file_operations import FileResponse


class FileQuery(ListQuery):
    """A page of them: the files' statistics take time, and their cursors are long."""

    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=2048)


class FilePageResponse(Page[FileResponse]):
    """Files, by the bytes of their paths. `complete` is false if some are missing: too deep, too many, or undecodable names."""

    complete: bool


class FolderQuery(ListQuery):
    """Which folder of the snapshot; empty for its root."""

    folder: Annotated[str, Field(max_length=1023, pattern=r"^[^\x00]*$")] = ""


class FolderEntryResponse(Answer):
    """Entry of a folder in a snapshot."""

    name: str
    kind: Literal["folder", "file", "other"]
    size: Bytes
    modified_at: Time
