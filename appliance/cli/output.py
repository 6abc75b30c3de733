# SPDX-License-Identifier: Apache-2.0
"""Tables for people, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SIZES = {
    "size", "used", "free", "allocated", "referenced", "snapshot_bytes", "bclone_saved", "bclone_used",
    "total", "unique", "snapshot", "deduplicated", "admitted", "reserved",
    "total_bytes", "cloned_bytes", "copied_bytes", "hole_bytes", "zeroed_bytes", "unmapped_bytes", "reserved_bytes",
    "available", "usable", "quota", "block_size", "record_size", "shared", "needed",
}  # fmt: skip
_TITLES = {"share": "export path"}
_WIDEST = 1_000_000


def size(text: Any) -> str:
    """Bytes, as people read them."""
    value = float(text)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def shown(name: str, value: Any) -> str:
    """One value as text. Clients make log messages and file names: terminals must not obey escape sequences in them."""
    if value is None or value == []:
        return "-"
    if name in SIZES and str(value).isdigit():  # "snapshot" is a name elsewhere
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in str(value))


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("_", " "))


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        # Only a terminal has a width. Text is printed as it is: "[error]" is not markup.
        width = None if sys.stdout.isatty() else _WIDEST
        self._console = Console(highlight=False, markup=False, emoji=False, width=width)

    def raw(self, value: Any) -> None:
        """JSON."""
        print(json.dumps(value, indent=2))

    def rows(self, items: Sequence[dict[str, Any]], *columns: str) -> None:
        """A table of these columns; all of it as JSON."""
        if self.as_json:
            return self.raw(items)
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in columns:
            table.add_column(_title(column).upper(), justify="right" if column in SIZES else "left", overflow="fold")
        for item in items:
            table.add_row(*(shown(column, item[column]) for column in columns))
        with self._console.capture() as capture:
            self._console.print(table)
        return print("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))

    def fields(self, item: dict[str, Any]) -> None:
        """A thing by its fields."""
        if self.as_json:
            return self.raw(item)
        width = max((len(_title(name)) for name in item), default=0)
        for name, value in item.items():
            if not isinstance(value, dict):
                print(f"{_title(name):<{width}}  {shown(name, value)}")
        return None
