# SPDX-License-Identifier: Apache-2.0
"""Offload counters of the data planes, and total offloaded bytes.

Target and NFS server count from their start. The target drops the counters of a removed LUN; the NFS server keeps those of
the 256 last used exports, which continue if their share comes again.
"""

import threading
from dataclasses import dataclass, field

import msgspec

from appliance import decoding
from appliance.database.models import Setting
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.domain.statistics import Json, Row, row
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors

SETTING = "offload_totals"
LUNS, EXPORTS = "luns", "exports"
Counts = dict[str, int]
"""Bytes by kind, those of fallbacks as "fallback_bytes.REASON"."""


class _StoredTotals(msgspec.Struct):
    """The setting: totals by plane, and the last counters of each present LUN and export."""

    totals: dict[str, Counts] = {}
    luns: dict[str, Counts] = {}
    exports: dict[str, Counts] = {}


@dataclass(frozen=True)
class NfsCounters:
    """Counters of the NFS server: each export, with its datastore if it has one. `nfs_problem` is the reason for missing
    counters.
    """

    exports: list[Json] = field(default_factory=list)
    nfs_problem: str | None = None


@dataclass(frozen=True)
class Counters:
    """Counters of both data planes, and their totals, which never decrease."""

    luns: list[Json]
    nfs: NfsCounters
    totals: dict[str, Counts]


class Offloads:
    def __init__(self, context: Context) -> None:
        self._context, self._lock = context, threading.Lock()
        self._stored = 0
        """How often totals were stored."""

    def read(self, newest: float) -> Counters:
        """Reads all counters and stores the totals; `newest` as in Context.scan. Raises DomainError."""
        context, stored = self._context, self._stored
        with as_domain_errors():
            target = context.target.statistics(context.target_name)
        nfs = self._nfs(newest)
        counted = {LUNS: [row(lun, "uuid") for lun in target["luns"]]}
        if nfs is not None and nfs.nfs_problem is None:
            counted[EXPORTS] = [row(export, "export") for export in nfs.exports]
        totals = self._take(counted, stored)
        return Counters(target["luns"], nfs or NfsCounters(), totals)

    def nfs(self, newest: float) -> NfsCounters:
        return self._nfs(newest) or NfsCounters()

    def _nfs(self, newest: float) -> NfsCounters | None:
        """None without exports: the NFS server need not run. Its earlier counters continue with the next export."""
        exported = [store for store in self._context.datastores(newest) if store.export is not None]
        if not exported:
            return None
        by_path = {path: store.id for store in exported for path in (store.path, store.share)}
        try:
            counted = self._context.files.counters()
        except GaneshaUnreachableError as error:
            return NfsCounters(nfs_problem=str(error))
        exports = [{**export, "datastore": by_path.get(str(export.get("export")))} for export in counted.get("exports", ())]
        return NfsCounters(exports)

    def _take(self, planes: dict[str, list[Row]], before: int) -> dict[str, Counts]:
        """Adds the increase of the counters, and returns all totals. A lower count means a restart from 0.

        Adds nothing if another thread has stored totals since there were `before`: its counters can be newer, and these lower.
        """
        with self._lock:
            with self._context.store.reading() as session:
                setting = session.get(Setting, SETTING)
                stored = decoding.convert(setting.value, _StoredTotals) if setting else _StoredTotals()
            totals = {name: stored.totals.get(name, {}) for name in (LUNS, EXPORTS)}
            if self._stored != before:
                return totals
            last = {LUNS: stored.luns, EXPORTS: stored.exports}
            now = last | {plane: {row.subject: _counts(row) for row in rows} for plane, rows in planes.items()}
            for plane in planes:
                for name, counts in now[plane].items():
                    old = last[plane].get(name, {})
                    began_anew = any(value < old.get(kind, 0) for kind, value in counts.items())
                    for kind, value in counts.items():
                        totals[plane][kind] = totals[plane].get(kind, 0) + value - (0 if began_anew else old.get(kind, 0))
            if now != last:
                with self._context.store.session() as session:
                    session.merge(Setting(name=SETTING, value={"totals": totals, **now}))
                self._stored += 1
        return totals


def _counts(counted: Row) -> Counts:
    return counted.offload | {f"fallback_bytes.{reason}": value for reason, value in counted.fallback_bytes.items()}


def nested(counts: Counts) -> Json:
    plain: Json = {kind: value for kind, value in counts.items() if "." not in kind}
    return plain | {"fallback_bytes": {kind.partition(".")[2]: value for kind, value in counts.items() if "." in kind}}
