# SPDX-License-Identifier: Apache-2.0
"""An odd export file, or an odd answer of ganesha, affects nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance, running

from appliance.dataplane.ganesha_dbus import Ganesha

ESX = "192.0.2.11"
NOW = (1_800_000_000, 0)


class Daemon(Ganesha):
    """The client of ganesha with its folder of files; the daemon at the other end of the bus is this, and may answer oddly."""

    def __init__(self, exports: Path) -> None:
        super().__init__(exports)
        self.serves: dict[int, str] = {}
        self.odd: dict[str, tuple[Any, ...]] = {}

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        yield None

    def _ask(self, connection: Any, address: Any, method: str, signature: str = "", *arguments: Any) -> tuple[Any, ...]:
        if method in self.odd:
            return self.odd[method]
        if method == "ShowExports":
            return NOW, [(number, self._value(number, "Path"), NOW) for number in self.serves]
        if method == "DisplayExport":
            number = arguments[0]
            client = (ESX, 0, 0, 0, 0, 0, 0, 0, 0x1E0 | 0x300000)
            return number, self._value(number, "Path"), self._value(number, "Pseudo"), "", [client]
        if method == "RemoveExport":
            del self.serves[arguments[0]]
        elif method in ("AddExport", "UpdateExport"):
            self.serves[int(arguments[1].split("=")[1].rstrip(")"))] = Path(arguments[0]).read_text()
        return ()

    def _value(self, number: int, name: str) -> str:
        line = next(line for line in self.serves[number].splitlines() if line.strip().startswith(f"{name} = "))
        return line.split('"')[1]


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    folder = tmp_path / "exports.d"
    folder.mkdir()
    return Daemon(folder)


@pytest.fixture
def odd(tmp_path: Path, daemon: Daemon) -> Iterator[Appliance]:
    """An appliance with this ganesha and two NFS datastores."""
    with running(tmp_path / "appliance", exports=daemon) as appliance:
        for name in ("first", "second"):
            appliance.nfs_datastore(name, clients=[ESX])
        assert appliance.request("POST", "/reconcile").json == {"differences": [], "failures": []}
        yield appliance


def unreadable(file: Path) -> None:
    """Unreadable even for root: replaces the file by a folder."""
    file.unlink(missing_ok=True)
    file.mkdir()


def test_an_unreadable_file_affects_only_its_export(odd: Appliance, daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "exports.d"
    first = next(datastore for datastore in odd.get("/datastores")["items"] if datastore["name"] == "first")
    unreadable(folder / "1.conf")
    unreadable(folder / "9.conf")
    block = odd.datastore("block", GIB)
    odd.request("POST", "/reconcile")
    assert {lun.lun.uuid for lun in odd.target.targets()[0].luns} == {block}
    alerts = {alert["subject"]: alert for alert in odd.get("/alerts")["items"]}
    assert first["id"] in alerts and all(alert["key"].startswith("reconcile-nfs:") for alert in alerts.values()), alerts
    assert daemon.serves.keys() == {1, 2}, "hosts keep what they have"
    (folder / "1.conf").rmdir()
    (folder / "9.conf").rmdir()
    assert odd.request("POST", "/reconcile").status_code == 200
    assert odd.get("/alerts")["items"] == [] and (folder / "1.conf").read_text() == daemon.serves[1]


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("ShowExports", ()),
        ("ShowExports", (NOW, [()])),
        ("DisplayExport", (1, "/x")),
        ("DisplayExport", (1, "/x", "/x", "", [7])),
    ],
)
def test_an_unexpected_answer_is_ganeshas_fault_alone(
    method: str, answer: tuple[Any, ...], odd: Appliance, daemon: Daemon
) -> None:
    daemon.odd[method] = answer
    block = odd.datastore("block", GIB)
    assert odd.request("POST", "/reconcile").status_code == 503
    assert {lun.lun.uuid for lun in odd.target.targets()[0].luns} == {block}
    (alert,) = odd.get("/alerts")["items"]
    assert alert["key"] == "unavailable:nfs" and "an unexpected value" in alert["text"]
    daemon.odd.clear()
    assert odd.request("POST", "/reconcile").status_code == 200 and odd.get("/alerts")["items"] == []


def test_an_internal_error_in_exports_does_not_affect_luns(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.nfs, "served", wrong)
        block = appliance.datastore("block", GIB)
        assert {lun.lun.uuid for lun in appliance.target.targets()[0].luns} == {block}
        assert appliance.request("POST", "/reconcile").status_code == 500
        (alert,) = appliance.get("/alerts")["items"]
        assert (alert["key"], alert["text"]) == ("unavailable:nfs", "the worker is at fault: a bug")
        assert appliance.get("/status")["reconcile_problem"] == alert["text"]
    assert appliance.request("POST", "/reconcile").status_code == 200 and appliance.get("/alerts")["items"] == []
