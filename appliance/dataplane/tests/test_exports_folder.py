# SPDX-License-Identifier: Apache-2.0
"""The folder of ganesha's exports: a user who can or could write it cannot redirect reads or writes to other files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.dataplane.ganesha import Export, ExportRefusedError
from appliance.dataplane.ganesha_dbus import Ganesha

SECRET = "somebody's secret"
EXPORT = Export(7, Path("/srv/zvaai/one"), "/one", dataset="tank/one", guid=4711)
LINKS = ("7.new", "7.add", "7.change", "7.conf")


class Daemon(Ganesha):
    """A fake daemon: the text that it read, and its exports."""

    def __init__(self, exports: Path) -> None:
        super().__init__(exports)
        self.serves: set[int] = set()
        self.read: list[str] = []
        self.refuses = False

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        yield None

    def _ask(self, connection: Any, address: Any, method: str, signature: str = "", *arguments: Any) -> tuple[Any, ...]:
        if method == "ShowExports":
            return (0, 0), [(number, "/one") for number in self.serves]
        if self.refuses:
            raise ExportRefusedError("it does not want to")
        if method == "RemoveExport":
            self.serves.remove(arguments[0])
        else:
            self.read.append(Path(arguments[0]).read_text())
            self.serves.add(EXPORT.export_id)
        return ()


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    """A fake daemon with a folder."""
    folder = tmp_path / "exports.d"
    folder.mkdir(mode=0o755)
    return Daemon(folder)


def somebody_elses(folder: Path) -> None:
    """The folder of another user."""
    os.chown(folder, 65534, -1)


def for_others(folder: Path) -> None:
    folder.chmod(0o757)


def for_its_group(folder: Path) -> None:
    folder.chmod(0o775)


def a_link(folder: Path) -> None:
    folder.rename(folder.with_suffix(".old"))
    folder.symlink_to(folder.with_suffix(".old"))


@pytest.mark.parametrize("wrong", [somebody_elses, for_others, for_its_group, a_link])
def test_in_a_folder_where_others_write_nothing_is_changed(wrong: Callable[[Path], None], daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "exports.d"
    daemon.add(EXPORT)
    before = {path.name: path.read_text() for path in folder.iterdir()}
    wrong(folder)
    calls: list[Callable[[], None]] = [
        lambda: daemon.add(Export(8, Path("/srv/zvaai/two"), "/two")),
        lambda: daemon.change(Export(7, Path("/srv/zvaai/one"), "/one", clients=["192.0.2.1"])),
        lambda: daemon.remove(7),
    ]
    for call in calls:
        with pytest.raises(ExportRefusedError, match="no other user can write"):
            call()
    assert {path.name: path.read_text() for path in folder.iterdir()} == before == {"7.conf": EXPORT.block()}
    assert (daemon.read, daemon.serves) == ([EXPORT.block()], {7}), "the daemon was not called either"


@pytest.mark.parametrize("refuses", [False, True])
def test_foreign_links_are_not_followed(refuses: bool, daemon: Daemon, tmp_path: Path) -> None:
    folder, shadow = tmp_path / "exports.d", tmp_path / "shadow"
    shadow.write_text(SECRET)
    shadow.chmod(0o600)

    def plant(*names: str) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(shadow)

    def call(what: Callable[[Export], None], export: Export) -> None:
        with pytest.raises(ExportRefusedError) if refuses else contextlib.nullcontext():
            what(export)

    plant(*LINKS)
    daemon.refuses = refuses
    call(daemon.add, EXPORT)
    daemon.serves = {7}
    plant("7.new", "7.add", "7.change")
    call(daemon.change, EXPORT)
    assert (shadow.read_text(), shadow.stat().st_mode & 0o777) == (SECRET, 0o600)
    assert daemon.read == ([] if refuses else [EXPORT.block()] * 2)
    plant("7.conf")
    assert daemon.files() == {7: ""}
    call(lambda export: daemon.remove(export.export_id), EXPORT)
    assert (shadow.read_text(), shadow.stat().st_mode & 0o777) == (SECRET, 0o600)
    assert not [path.name for path in folder.iterdir() if not path.is_symlink() and SECRET in path.read_text()]


def test_a_fifo_does_not_block(daemon: Daemon, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "exports.d" / "7.conf")
    assert daemon.files() == {7: ""}
    daemon.add(EXPORT)
    assert daemon.files() == {7: EXPORT.block()}
