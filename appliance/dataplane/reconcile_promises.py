"""Makes ganesha promise new files their space where a datastore is to be thick by default (docs/vaai_nas.md).

What is to be is set on the dataset, which the daemon looks at by itself from time to time: it is asked to look at once where it
follows something else. Run again it does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.reconcile import Failure, Outcome
from appliance.dataplane.vaai_nas import FileControl, FileRefusedError, NobodyListensError, Promises

REMEDY = (
    "where the pool lacks space: make room in it; where blocks are deduplicated: zfs set dedup=off, or make the datastore thin; "
    "else: the log of nfs-ganesha"
)
"""Of a `problem` of Promises."""
TOLD_SECONDS = 15.0
"""For `told` altogether: somebody waits for it."""


@dataclass(frozen=True)
class WantedPromises:
    """Of an export that is served."""

    datastore: str
    """Its UUID."""
    share: str
    thick: bool
    """Whether a file that a host makes larger than 1 MiB is promised its size."""
    pool: str = ""
    """The pool of its dataset."""


@dataclass
class _Asking:
    """In one round the daemon is waited for once where nobody listens, and once for each pool in which it does not answer."""

    control: FileControl
    away: NobodyListensError | None = None
    silent: dict[tuple[str, bool], GaneshaUnreachableError] = field(default_factory=dict)
    """By the pool, and whether the daemon was to look: what it knows it may tell while a look takes long."""

    def space(self, number: int, pool: str, *, refresh: bool = False) -> Promises:
        if self.away is not None:
            raise self.away
        if (before := self.silent.get((pool, refresh))) is not None:
            raise before
        try:
            return self.control.space(number, refresh=refresh)
        except NobodyListensError as error:
            self.away = error
            raise
        except GaneshaUnreachableError as error:
            self.silent[pool, refresh] = error
            raise


def reconcile(control: FileControl, wanted: Mapping[int, WantedPromises]) -> Outcome:
    """One round; `wanted` by the exports' numbers. That nothing is known is told of datastores that are to be thick."""
    found, failures = [], []
    asking = _Asking(control)
    for number, one in sorted(wanted.items()):
        differs = False
        try:
            promises = asking.space(number, one.pool)
            if differs := promises.thick_default != one.thick:
                what = "promises new files their space" if promises.thick_default else "promises new files nothing"
                promises = asking.space(number, one.pool, refresh=True)
                if promises.thick_default == one.thick:
                    found.append(f"export {number} ({one.share}) {what}")
        except (GaneshaUnreachableError, FileRefusedError) as error:
            why = "the NFS server does not follow" if differs else "whether the NFS server does so is not known"
            failures += [_failure(one, f"{why}: {error}")] if differs or one.thick else []
            continue
        if promises.thick_default != one.thick:
            failures.append(_failure(one, "the NFS server does not follow"))
        elif promises.problem and (one.thick or promises.files):
            text = f"not all that files of {one.share} are promised may hold: {promises.problem}"
            failures.append(Failure(one.datastore, text, remedy=REMEDY, promise=True))
    return Outcome(tuple(found), tuple(failures))


def _failure(wanted: WantedPromises, why: str) -> Failure:
    what = "promised their space" if wanted.thick else "thin"
    remedy = "see the log of nfs-ganesha; zvaai reconcile"
    return Failure(wanted.datastore, f"new files of {wanted.share} are to be {what}, and {why}", remedy=remedy, promise=True)


def told(control: FileControl, exports: Iterable[int | None], within_s: float = TOLD_SECONDS) -> dict[int, Promises | str]:
    """What files of these exports are promised, or why that is not known."""
    found: dict[int, Promises | str] = {}
    until = time.monotonic() + within_s
    for number in exports:
        left = until - time.monotonic()
        if number is None:
            continue
        if left <= 0:
            found[number] = "the NFS server takes too long to tell"
            continue
        try:
            found[number] = control.space(number, timeout_s=min(left, TOLD_SECONDS / 3))
        except NobodyListensError:
            break
        except (FileRefusedError, GaneshaUnreachableError) as error:
            found[number] = str(error)
    return found
