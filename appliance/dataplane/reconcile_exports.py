# SPDX-License-Identifier: Apache-2.0
"""Makes ganesha export what it should: looks at what is wanted and at what is, and does the difference.

An export is compared by its path, the path clients mount, what each client may, and the file it comes back with after a restart.
Exports that lie elsewhere than datastores do, and have no file in the folder, are somebody else's and left alone. It takes away
before it gives, as the reconciler of the target does (reconcile.py). Run again it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.dataplane.ganesha import (
    Export,
    ExportControl,
    ExportRefusedError,
    GaneshaUnreachableError,
    NoSuchExportError,
    ServedExport,
    client_names,
)
from appliance.dataplane.reconcile import Failure, Outcome

Step = Callable[[ExportControl], None]


@dataclass(frozen=True)
class WantedExports:
    """What is to be exported."""

    exports: Mapping[int, Export]
    below: str
    """Where datastores are mounted: what is exported from below it and not wanted is taken away."""
    subjects: Mapping[int, str] = field(default_factory=dict)
    """The datastore of each number."""
    kept: frozenset[int] = frozenset()
    """Numbers of datastores that can't be seen now or are in doubt: their exports stay as they are."""
    copies: frozenset[str] = frozenset()
    """Paths at which copies are mounted: what is exported from there is taken away, though its number be kept."""


@dataclass(frozen=True)
class Difference:
    """One step, and in words what was not as it should be."""

    text: str
    apply: Step
    subject: str = ""


def differences(wanted: WantedExports, served: list[ServedExport]) -> list[Difference]:
    """The steps from what is to what is wanted; what is taken away comes first."""
    taken, changed, given = [], [], []
    there = {export.export_id: export for export in served}
    for number, found in there.items():
        right = wanted.exports.get(number)
        subject = wanted.subjects.get(number, "")
        if right is None:
            if found.served and found.path in wanted.copies and _is_ours(found, wanted.below):
                taken.append(Difference(f"export {number} ({found.pseudo}) is of a copy", _remove(number), subject))
            elif number not in wanted.kept and _is_ours(found, wanted.below):
                taken.append(
                    Difference(f"export {number} ({found.pseudo or 'a file'}) should not be there", _remove(number), subject)
                )
        elif not found.served or (found.path, found.pseudo) != (str(right.path), right.pseudo):
            if found.served:
                taken.append(Difference(f"export {number} is of another path", _remove(number), subject))
            given.append(Difference(f"export {number} ({right.pseudo}) is not served", _add(right), subject))
        elif found.clients != client_names(right):
            changed.append(Difference(f"export {number} ({right.pseudo}) has other clients", _change(right), subject))
        elif found.text != right.block():
            changed.append(Difference(f"export {number} ({right.pseudo}) is kept otherwise", _change(right), subject))
    for number, right in sorted(wanted.exports.items()):
        if number not in there:
            given.append(
                Difference(f"export {number} ({right.pseudo}) is not served", _add(right), wanted.subjects.get(number, ""))
            )
    return taken + changed + given


def _is_ours(export: ServedExport, below: str) -> bool:
    return export.text is not None or export.path.startswith(below.rstrip("/") + "/")


def _remove(number: int) -> Step:
    return lambda control: control.remove(number)


def _change(export: Export) -> Step:
    return lambda control: control.change(export)


def _add(export: Export) -> Step:
    return lambda control: control.add(export)


def reconcile(control: ExportControl, wanted: WantedExports) -> Outcome:
    """One round. What is refused is told, and the rest is done. Raises GaneshaUnreachableError."""
    found: list[str] = []
    failures: list[Failure] = []
    for step in differences(wanted, control.served()):
        found.append(step.text)
        try:
            step.apply(control)
        except GaneshaUnreachableError:
            raise
        except (ExportRefusedError, NoSuchExportError, ValueError, OSError) as error:  # one export's, of its folder or its values
            failures.append(Failure(step.subject, f"{step.text}: {error}"))
    return Outcome(tuple(found), tuple(failures))
