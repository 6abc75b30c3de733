# SPDX-License-Identifier: Apache-2.0
"""Holds on snapshots (zfs-hold(8)): they prevent the destruction of a snapshot. The tag of a hold identifies its owner."""

from collections.abc import Iterable
from typing import Literal

from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.retention import PROTECTED
from appliance.zfs.errors import InvalidName
from appliance.zfs.names import hold_tag

MOST = 64
"""Limit of holds on one snapshot through the appliance."""
Owner = Literal["user", "appliance", "openzfs"]
_ALLOWED = "1 to 64 of A-Z, a-z, 0-9, '_', '.', ':', '-', the first a letter or digit; not beginning with zvaai"


def owner(tag: str) -> Owner:
    """Owner of a hold. `zfs send` creates `.send-...` and releases it; tags that begin with zvaai belong to the appliance."""
    if tag.startswith("."):
        return "openzfs"
    return "appliance" if tag.lower().startswith("zvaai") else "user"


def check_new(tag: str, existing: Iterable[str]) -> None:
    """Raises InvalidError for a tag of the appliance, ConflictError for an existing tag or too many holds."""
    if owner(tag) != "user":
        raise InvalidError("tag", "tags that begin with zvaai are for the appliance's schedules, replicas and jobs", _ALLOWED)
    tags = list(existing)
    if tag in tags:
        raise ConflictError("it is held by this tag already", [tag], field_name="tag")
    if len(tags) >= MOST:
        raise ConflictError(f"a snapshot has at most {MOST} holds", tags)


def check_release(tag: str, existing: Iterable[str]) -> None:
    """Raises NotFoundError for a missing hold. Raises ConflictError for a hold that a program needs, and for one with a tag that
    hold_tag refuses.
    """
    if tag not in existing:
        raise NotFoundError("hold", tag)
    if owner(tag) == "openzfs":
        raise ConflictError("a hold of OpenZFS itself; it ends with the zfs send that made it", [tag])
    if tag == PROTECTED:
        raise ConflictError("the snapshot is protected: the hold ends with the protection, and cannot be ended before", [tag])
    if owner(tag) == "appliance":
        text = "a hold of the appliance's own; it ends with the schedule, the replica or the job that needs the snapshot"
        raise ConflictError(text, [tag])
    try:
        hold_tag(tag)
    except InvalidName as error:
        text = "created by another program, with a tag that the appliance does not pass to OpenZFS: release it with zfs release"
        raise ConflictError(text, [tag]) from error
