# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted datastores that exist on this server only: with its system disk all that they encrypt is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from appliance.domain.errors import ConflictError
from appliance.domain.journal import Finding

AREA = "key"
CRITICAL_AFTER_S = 86400.0


def unexported(keys: Iterable[Mapping[str, Any]], now: float) -> list[Finding]:
    """An alert for each key that nobody has exported: at once, and critical after a day. `keys` as the worker lists them."""
    found = []
    for key in keys:
        if not key["kept"] or key["exported_at"] is not None:
            continue
        pool = str(key["pool"])
        text = (
            f"Nobody has exported the encryption key of pool {pool}. With this server's system disk all that it encrypts is lost"
        )
        remedy = f"Run: zvaai key export {pool}. Store the key elsewhere. Then run: zvaai key confirm {pool}"
        severity = "critical" if now - key["made_at"] >= CRITICAL_AFTER_S else "warning"
        found.append(Finding(f"{AREA}:unexported:{pool}", severity, pool, text, remedy))
    return found


def check_exported(keys: Iterable[Mapping[str, Any]], pool: str, encrypted: int) -> None:
    """Refuses another encrypted datastore while nobody has exported the pool's key. Raises ConflictError.

    `encrypted`: how many datastores of the pool are encrypted.
    """
    if encrypted and any(key["pool"] == pool and key["kept"] and key["exported_at"] is None for key in keys):
        reason = f"Cannot create another encrypted datastore: nobody has exported the key of pool {pool}"
        raise ConflictError(f"{reason}. Run: zvaai key export {pool}", [pool])
