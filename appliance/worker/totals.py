# SPDX-License-Identifier: Apache-2.0
"""Total offloaded bytes: target and NFS server count from their start, and drop the counters of a removed LUN or export."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from appliance.database.models import Setting
from appliance.database.store import Store

SETTING = "offload_totals"
"""`totals` by plane, and what was last counted of each LUN and export that is there."""
LUNS, EXPORTS = "luns", "exports"
_KEYS = {LUNS: "uuid", EXPORTS: "export"}
Counts = dict[str, int]


class Totals:
    """Totals of an installation. A lower count means a restart from 0."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.Lock()

    def take(self, plane: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Adds what was counted since the last time; all totals, as `offload` of statistics.get has them."""
        with self._lock:
            with self._store.reading() as session:
                setting = session.get(Setting, SETTING)
                kept: dict[str, Any] = setting.value if setting else {}
            totals: dict[str, Counts] = {name: dict(kept.get("totals", {}).get(name, {})) for name in _KEYS}
            before: dict[str, Counts] = kept.get(plane, {})
            now = {str(row[_KEYS[plane]]): _flat(row["offload"]) for row in rows}
            for name, counts in now.items():
                old = before.get(name, {})
                began_anew = any(value < old.get(kind, 0) for kind, value in counts.items())
                for kind, value in counts.items():
                    totals[plane][kind] = totals[plane].get(kind, 0) + value - (0 if began_anew else old.get(kind, 0))
            if now != before:
                with self._store.session() as session:
                    session.merge(Setting(name=SETTING, value={**kept, "totals": totals, plane: now}))
        return {name: _nested(counts) for name, counts in totals.items()}


def _flat(offload: Mapping[str, Any]) -> Counts:
    """Bytes by kind, those of fallbacks as "fallback_bytes.REASON"."""
    plain = {kind: int(value) for kind, value in offload.items() if isinstance(value, int)}
    return plain | {f"fallback_bytes.{reason}": int(value) for reason, value in offload.get("fallback_bytes", {}).items()}


def _nested(counts: Counts) -> dict[str, Any]:
    nested: dict[str, Any] = {"fallback_bytes": {}}
    for kind, value in counts.items():
        name, _, reason = kind.partition(".")
        if reason:
            nested[name][reason] = value
        else:
            nested[name] = value
    return nested
