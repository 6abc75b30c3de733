# SPDX-License-Identifier: Apache-2.0
"""Support bundles as files of the state directory."""

import re
from dataclasses import dataclass
from pathlib import Path

from appliance.domain.errors import NotFoundError
from appliance.domain.fields import Bytes, Time

RETAINED = 5
_SUFFIX = ".tar.gz"


@dataclass(frozen=True)
class BundleResponse:
    """A support bundle."""

    id: str
    created_at: Time
    size: Bytes


def file_of(folder: Path, bundle_id: str) -> Path:
    """Path of an existing or future bundle. Raises NotFoundError for an invalid identifier."""
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bundle_id):
        raise NotFoundError("support bundle", bundle_id)
    return folder / f"{bundle_id}{_SUFFIX}"


def bundles(folder: Path) -> list[BundleResponse]:
    files = [(file, file.stat()) for file in folder.glob(f"*{_SUFFIX}")] if folder.is_dir() else []
    listed = [BundleResponse(file.name.removesuffix(_SUFFIX), status.st_mtime, status.st_size) for file, status in files]
    return sorted(listed, key=lambda bundle: (-bundle.created_at, bundle.id))


def existing(folder: Path, bundle_id: str) -> Path:
    """Path of an existing bundle. Raises NotFoundError."""
    file = file_of(folder, bundle_id)
    if not file.is_file():
        raise NotFoundError("support bundle", bundle_id)
    return file


def forget_old(folder: Path) -> None:
    for old in bundles(folder)[RETAINED:]:
        file_of(folder, old.id).unlink(missing_ok=True)
