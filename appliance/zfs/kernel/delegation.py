# SPDX-License-Identifier: Apache-2.0
"""Rights of users without privileges: zfs-allow(8)."""

from __future__ import annotations

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel.commands import ZFS, run

SECONDS = 30.0


def allow_reservation(pool: str, user: int) -> None:
    """Lets a user set the property `reservation` in a pool, which has the headroom of thin LUNs. Raises ZfsError."""
    result = run([ZFS, "allow", "-u", str(user), "reservation", pool], seconds=SECONDS)
    if result.status != 0:
        raise UnexpectedFailure("allow", result.complaint.strip())
