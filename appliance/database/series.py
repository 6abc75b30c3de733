# SPDX-License-Identifier: Apache-2.0
"""Series of measured values, in round-robin files of a fixed size (rrdtool): they never grow, and old values become coarser."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rrdtool

AVERAGE, MAX = "AVERAGE", "MAX"
_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True)
class Layout:
    """Content of a kind of file. All values of a file are consolidated in the same way."""

    name: str
    values: tuple[str, ...]
    consolidation: str
    archives: tuple[tuple[int, int], ...]
    """Seconds per row and retention of rows, the finest first."""

    @property
    def step(self) -> int:
        return self.archives[0][0]


@dataclass(frozen=True)
class Part:
    """Values of a range of time; None for unknown. `start` is in seconds since 1970."""

    start: int
    step_seconds: int
    series: dict[str, list[float | None]]


Sample = tuple[int, Sequence[float | None]]
"""A time that is a multiple of the layout's step, and the values of the step that ended then."""


class SeriesFiles:
    """The files of a folder. Thread-safe, unlike rrdtool."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._last: dict[Path, int] = {}
        """The time of the newest sample of files that were checked."""

    def append(self, key: str, layout: Layout, samples: Sequence[Sample]) -> None:
        """Appends samples, the oldest first. Drops samples that are not newer than the file. Replaces a damaged file."""
        file = self._file(key, layout)
        with self._lock:
            if file not in self._last and not _is_whole(file, layout):
                if all(value is None for _, values in samples for value in values):
                    return
                self._create(file, layout, samples[0][0])
            last = self._last[file] if file in self._last else rrdtool.last(str(file))
            updates = []
            for at, values in samples:
                if at > last:
                    if at - layout.step > last:  # otherwise the sample would also count for the gap before it
                        updates.append(":".join([str(at - layout.step), *("U" for _ in values)]))
                    updates.append(":".join([str(at), *("U" if value is None else f"{value:.15g}" for value in values)]))
                    last = at
            self._last.pop(file, None)  # until it is written
            if updates:
                rrdtool.update(str(file), *updates)
            self._last[file] = last

    def read(self, key: str, layout: Layout, end: float, seconds: int, points: int) -> Part:
        """The range that ended at `end`, in at most so many points."""
        oldest = time.time() - end + seconds
        # A range that ends now begins some microseconds before the archive of its length.
        whole = [step for step, duration in layout.archives if duration + step >= oldest] or [layout.archives[-1][0]]
        # The coarsest archive with enough points, else the finest: fewer rows to read.
        step = next((candidate for candidate in reversed(whole) if candidate * points <= seconds), whole[0])
        factor = max(1, -(-seconds // (step * points)))
        wide = step * factor
        # A point of several rows may have only some yet.
        last = int(end) // step * step if factor == 1 else -(-int(end) // wide) * wide
        first = last - seconds // wide * wide
        with self._lock:
            rows = self._rows(self._file(key, layout), layout, first, last, step)
        groups = [rows[index : index + factor] for index in range(0, len(rows), factor)]
        return Part(
            start=first + wide,
            step_seconds=wide,
            series={name: [_consolidated(group, place, layout) for group in groups] for place, name in enumerate(layout.values)},
        )

    def remove_unused(self, seconds: float) -> None:
        """Deletes files to which nothing was added for so long."""
        oldest = time.time() - seconds
        with self._lock:
            for file in self._folder.glob("*.rrd"):
                if file.stat().st_mtime < oldest:
                    file.unlink()
                    self._last.pop(file, None)

    def _file(self, key: str, layout: Layout) -> Path:
        return self._folder / f"{key}-{layout.name}.rrd"

    def _create(self, file: Path, layout: Layout, first: int) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        rrdtool.create(
            str(file), "--start", str(first - layout.step), "--step", str(layout.step),
            *(f"DS:{name}:GAUGE:{layout.step}:0:U" for name in layout.values),
            # One known value suffices for a row: a subject that was absent for a while still has its values.
            *(f"RRA:{layout.consolidation}:0.9999:{step // layout.step}:{span // step}" for step, span in layout.archives),
        )  # fmt: skip

    def _rows(self, file: Path, layout: Layout, first: int, last: int, step: int) -> list[tuple[float | None, ...]]:
        """One row for each step after `first`, until `last`."""
        nothing: tuple[float | None, ...] = (None,) * len(layout.values)
        rows_by_time: dict[int, tuple[float | None, ...]] = {}
        if _is_whole(file, layout):
            (begin, _, series_step), _, rows = rrdtool.fetch(
                str(file), layout.consolidation, "--resolution", str(step), "--start", str(first), "--end", str(last - 1)
            )
            rows_by_time = {begin + (index + 1) * series_step: row for index, row in enumerate(rows)}
        return [rows_by_time.get(at, nothing) for at in range(first + step, last + 1, step)]


def _is_whole(file: Path, layout: Layout) -> bool:
    """Whether it is a valid file of this layout. rrdtool crashes with a truncated file, which a power loss can leave."""
    try:
        with file.open("rb") as opened:
            return opened.read(4) == b"RRD\0" and os.fstat(opened.fileno()).st_size > 8 * len(layout.values) * sum(
                duration // step for step, duration in layout.archives
            )
    except OSError:
        return False


def _consolidated(rows: Sequence[tuple[float | None, ...]], place: int, layout: Layout) -> float | None:
    known = [value for row in rows if (value := row[place]) is not None]
    if not known:
        return None
    return round(max(known) if layout.consolidation == MAX else sum(known) / len(known), 3)


ARCHIVES = ((10, _DAY), (60, 7 * _DAY), (_HOUR, 365 * _DAY))
"""A day at 10 s, a week at a minute, a year at an hour."""
SLOW_ARCHIVES = ((60, _DAY), (600, 7 * _DAY), (_HOUR, 365 * _DAY))
