# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted datastores that exist on this server only: with its system disk all that they encrypt is lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from appliance.domain.errors import ConflictError
from appliance.domain.journal import Finding
from appliance.zfs.model import KeyStatus

AREA = "key"
CRITICAL_AFTER_S = 86400.0


@dataclass(frozen=True)
class PoolKey:
    """The encryption root of a pool, and its key; without times unless it is `stored` on this server."""

    pool: str
    dataset: str
    algorithm: str
    key_status: KeyStatus
    stored: bool
    made_at: int | None
    exported_at: int | None
    confirmed_at: int | None


def unexported(keys: Iterable[PoolKey], now: float) -> list[Finding]:
    """An alert for each key that was never exported: at once, and critical after a day."""
    findings = []
    for key in keys:
        if key.made_at is None or key.exported_at is not None:
            continue
        pool = key.pool
        text = f"The encryption key of pool {pool} was never exported. If the system disk fails, all encrypted data is lost"
        remedy = f"Run: zvaai key export {quote(pool)}. Store the key elsewhere. Then run: zvaai key confirm {quote(pool)}"
        severity = "critical" if now - key.made_at >= CRITICAL_AFTER_S else "warning"
        findings.append(Finding(f"{AREA}:unexported:{pool}", severity, pool, text, remedy))
    return findings


def check_exported(keys: Iterable[PoolKey], pool: str, encrypted: int) -> None:
    """Refuses another encrypted datastore while the pool's key was never exported. Raises ConflictError. `encrypted`: how many
    datastores of the pool are encrypted.
    """
    if encrypted and any(key.pool == pool and key.stored and key.exported_at is None for key in keys):
        reason = f"Cannot create another encrypted datastore: the key of pool {pool} was never exported"
        raise ConflictError(f"{reason}. Run: zvaai key export {quote(pool)}")
