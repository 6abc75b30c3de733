"""Makes ganesha promise new files their space where a datastore is to be thick by default (docs/vaai_nas.md).

What is to be is set on the dataset, which the daemon looks at by itself from time to time: it is asked to look at once where it
follows something else. Run again it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.reconcile import Failure, Outcome
from appliance.dataplane.vaai_nas import FileControl, FileRefusedError, Promises

REMEDY = "make room in the pool; where deduplication is the reason: zfs set dedup=off, or make the datastore thin"
"""Of what `shortcoming` tells."""


@dataclass(frozen=True)
class WantedPromises:
    """Of an export that is served."""

    datastore: str
    """Its UUID."""
    share: str
    thick: bool
    """Whether a file that a host makes larger than 1 MiB is promised its size."""


def shortcoming(promises: Promises) -> str | None:
    """Why not all that files are promised, or are to be, holds."""
    if promises.problem:
        return promises.problem
    return "OpenZFS can't hold space for files here" if promises.thick_default and promises.reservations == "never" else None


def reconcile(control: FileControl, wanted: Mapping[int, WantedPromises]) -> Outcome:
    """One round; `wanted` by the exports' numbers. That nothing is known is told of datastores that are to be thick."""
    found, failures = [], []
    away: GaneshaUnreachableError | None = None
    for number, one in sorted(wanted.items()):
        differs = False
        try:
            if away is not None:
                raise away
            promises = control.space(number)
            if differs := promises.thick_default != one.thick:
                what = "promises new files their space" if promises.thick_default else "promises new files nothing"
                found.append(f"export {number} ({one.share}) {what}")
                promises = control.space(number, refresh=True)
        except (GaneshaUnreachableError, FileRefusedError) as error:
            away = error if isinstance(error, GaneshaUnreachableError) else away
            why = "the NFS server does not follow" if differs else "whether the NFS server does so is not known"
            failures += [_failure(one, f"{why}: {error}")] if differs or one.thick else []
            continue
        if promises.thick_default != one.thick:
            failures.append(_failure(one, "the NFS server does not follow"))
        elif (shortage := shortcoming(promises)) is not None:
            text = f"not all that files of {one.share} are promised may hold: {shortage}"
            failures.append(Failure(one.datastore, text, remedy=REMEDY, promise=True))
    return Outcome(tuple(found), tuple(failures))


def _failure(wanted: WantedPromises, why: str) -> Failure:
    what = "promised their space" if wanted.thick else "thin"
    remedy = "see the log of nfs-ganesha; zvaai reconcile"
    return Failure(wanted.datastore, f"new files of {wanted.share} are to be {what}, and {why}", remedy=remedy, promise=True)


def told(control: FileControl, exports: Iterable[int | None]) -> dict[int, Promises | str]:
    """What files of these exports are promised, or why that is not known."""
    found: dict[int, Promises | str] = {}
    for number in exports:
        if number is not None:
            try:
                found[number] = control.space(number)
            except FileRefusedError as error:
                found[number] = str(error)
            except GaneshaUnreachableError:
                break
    return found
