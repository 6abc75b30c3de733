# SPDX-License-Identifier: Apache-2.0
"""Permissions of unprivileged users: zfs-allow(8)."""

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel.commands import ZFS, run

SECONDS = 30.0


def allow_reservation(pool: str, user: int) -> None:
    """Permits a user to set `reservation` in a pool, for the headroom of thin LUNs. Raises ZfsError."""
    result = run([ZFS, "allow", "-u", str(user), "reservation", pool], seconds=SECONDS)
    if result.status != 0:
        raise UnexpectedFailure("allow", result.complaint.strip())
