# SPDX-License-Identifier: Apache-2.0
"""Reconciles ganesha's exports: compares the desired with the served state, and applies the difference.

An export is compared by its path, the path that clients mount, the clients' rights, and its file. Exports outside the datastores'
folder without a file are never changed. It removes before it adds, as the target's reconciler (reconcile.py). A second run
changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.dataplane.ganesha import (
    Export,
    ExportControl,
    ExportRefusedError,
    GaneshaUnreachableError,
    NoSuchExportError,
    ServedExport,
)
from appliance.dataplane.reconcile import Difference, Failure, Outcome

Step = Callable[[ExportControl], None]


@dataclass(frozen=True)
class DesiredExports:
    exports: Mapping[int, Export]
    below: str
    """Folder of the datastores' mountpoints: other exports below it are removed."""
    subjects: Mapping[int, str] = field(default_factory=dict)
    retained: frozenset[int] = frozenset()
    """Export numbers of unavailable or ambiguous datastores: these exports do not change."""
    copies: frozenset[str] = frozenset()
    """Mountpoints of copies: their exports are removed, even with a retained number."""


def differences(desired: DesiredExports, served: list[ServedExport]) -> list[Difference[ExportControl]]:
    """Steps from the served to the desired state; removals come first."""
    removed, changed, added = [], [], []
    current = {export.export_id: export for export in served}
    for number, existing in current.items():
        right = desired.exports.get(number)
        subject = desired.subjects.get(number, "")
        if right is None:
            if existing.served and existing.path in desired.copies and _is_ours(existing, desired.below):
                removed.append(Difference(f"export {number} ({existing.pseudo}) is of a copy", _remove(number), subject))
            elif number not in desired.retained and _is_ours(existing, desired.below):
                removed.append(
                    Difference(f"export {number} ({existing.pseudo or 'a file'}) should not exist", _remove(number), subject)
                )
        elif not existing.served or (existing.path, existing.pseudo) != (str(right.path), right.pseudo):
            if existing.served:
                removed.append(Difference(f"export {number} is of another path", _remove(number), subject))
            added.append(Difference(f"export {number} ({right.pseudo}) is not served", _add(right), subject))
        elif existing.clients != right.client_names():
            changed.append(Difference(f"export {number} ({right.pseudo}) has other clients", _change(right), subject))
        elif existing.text != right.block():
            changed.append(Difference(f"export {number} ({right.pseudo}) has another file", _change(right), subject))
    for number, right in sorted(desired.exports.items()):
        if number not in current:
            added.append(
                Difference(f"export {number} ({right.pseudo}) is not served", _add(right), desired.subjects.get(number, ""))
            )
    return removed + changed + added


def _is_ours(export: ServedExport, below: str) -> bool:
    return export.text is not None or export.path.startswith(below.rstrip("/") + "/")


def _remove(number: int) -> Step:
    return lambda control: control.remove(number)


def _change(export: Export) -> Step:
    return lambda control: control.change(export)


def _add(export: Export) -> Step:
    return lambda control: control.add(export)


def reconcile(control: ExportControl, desired: DesiredExports) -> Outcome:
    """Applies all differences; returns refused steps as failures. Raises GaneshaUnreachableError."""
    texts: list[str] = []
    failures: list[Failure] = []
    for step in differences(desired, control.served()):
        texts.append(step.text)
        try:
            step.apply(control)
        except GaneshaUnreachableError:
            raise
        except (
            ExportRefusedError,
            NoSuchExportError,
            ValueError,
            OSError,
        ) as error:  # concerns one export: its folder or its values
            failures.append(Failure(step.subject, f"{step.text}: {error}"))
    return Outcome(tuple(texts), tuple(failures))
