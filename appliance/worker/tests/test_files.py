# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores: list, clone concurrently with other jobs and through restarts; refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance
from simulators.vaai_nas import VaaiNasSimulator

from appliance.dataplane.vaai_nas import FileStatistics

DISK = "vm/disk-flat.vmdk"
SIZE = 40 << 30


def nas(appliance: Appliance) -> VaaiNasSimulator:
    files = appliance.service.context.files
    assert isinstance(files, VaaiNasSimulator)
    return files


@pytest.fixture
def store(appliance: Appliance) -> str:
    """An NFS datastore with a disk."""
    made = appliance.nfs_datastore("first")
    nas(appliance).put(appliance.get(f"/datastores/{made}")["export"], DISK, SIZE)
    return made


def files_of(appliance: Appliance, store: str) -> dict[str, FileStatistics]:
    return nas(appliance).exports[appliance.get(f"/datastores/{store}")["export"]]


def body(destination: str = "vm/new-flat.vmdk", source: str = DISK, **more: Any) -> dict[str, Any]:
    return {"source": source, "destination": destination, **more}


def begun(appliance: Appliance, store: str, destination: str = "vm/new-flat.vmdk", **more: Any) -> str:
    """A clone that is half way: its job."""
    nas(appliance).paused = True
    answer = appliance.request("POST", f"/datastores/{store}/files/clone", body(destination, **more))
    assert answer.status_code == 202 and answer.json is not None, answer.text
    job = str(answer.json["id"])
    until(lambda: appliance.get(f"/jobs/{job}")["percent"] == 50)
    return job


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_files_are_listed_in_pages_with_their_space(appliance: Appliance, store: str) -> None:
    files = files_of(appliance, store)
    files["a.vmdk"] = FileStatistics(100, 80, 20, False, 70, 5, 1_800_000_000)
    files["ä/b.vmdk"] = FileStatistics(1, 1, 1, True)
    files["vm/vm.vmx"] = FileStatistics(1, 1, 1, True)
    of = {"snapshot": "70", "deduplicated": "5", "as_of": "2027-01-15T08:00:00.000Z"}
    none = {"snapshot": "0", "deduplicated": "0", "as_of": "1970-01-01T00:00:00.000Z"}
    first = appliance.get(f"/datastores/{store}/files?limit=2")
    assert first["items"] == [
        {"path": "a.vmdk", "total": "100", "allocated": "80", "unique": "20", "unique_exact": False} | of,
        {"path": DISK, "total": str(SIZE), "allocated": str(SIZE), "unique": str(SIZE), "unique_exact": True} | none,
    ]
    second = appliance.get(f"/datastores/{store}/files?limit=2&cursor={first['next_cursor']}")
    assert [file["path"] for file in second["items"]] == ["ä/b.vmdk"]
    assert (second["next_cursor"], second["complete"]) == (None, True)


def test_files_in_the_folder_of_a_simulated_export_are_listed_and_cloned(
    appliance: Appliance, store: str, tmp_path: Path
) -> None:
    """Like the console's stories: files of a host, and links to other folders."""
    nas(appliance).folder = lambda export: tmp_path
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm" / "new.vmdk").write_bytes(bytes(8192))
    (tmp_path / "vm" / "link.vmdk").symlink_to("/etc/passwd")
    response = {file["path"]: file for file in appliance.get(f"/datastores/{store}/files")["items"]}
    assert set(response) == {DISK, "vm/new.vmdk"}
    assert (response["vm/new.vmdk"]["total"], response["vm/new.vmdk"]["unique_exact"]) == ("8192", False)
    appliance.job("POST", f"/datastores/{store}/files/clone", body("vm/clone.vmdk", "vm/new.vmdk"))
    response = {file["path"]: file for file in appliance.get(f"/datastores/{store}/files")["items"]}
    assert (response["vm/clone.vmdk"]["unique"], response["vm/clone.vmdk"]["unique_exact"]) == ("0", True)
    job = appliance.job("POST", f"/datastores/{store}/files/clone", body("nowhere/clone.vmdk"), expect="failed")
    assert "destination" in job["problem"]["text"] and "there is no such folder" in job["problem"]["text"]


def test_a_file_that_is_not_measured_in_time_says_so(appliance: Appliance, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.worker.file_operations.MEASURING_SECONDS", 0)
    (file,) = appliance.get(f"/datastores/{store}/files")["items"]
    assert (file["allocated"], file["unique"], file["unique_exact"], file["as_of"]) == (str(SIZE), None, False, None)


def test_a_clone_reports_bytes_by_method(appliance: Appliance, store: str) -> None:
    job = appliance.job("POST", f"/datastores/{store}/files/clone", body(fast=True))
    sizes = {"total_bytes": str(SIZE), "cloned_bytes": str(SIZE), "copied_bytes": "0", "hole_bytes": "0"}
    assert job["result"] == {"datastore": store, **body(), **sizes, "copied_because": {}}
    assert files_of(appliance, store)["vm/new-flat.vmdk"].unique == 0
    nas(appliance).cannot_share = True
    job = appliance.job("POST", f"/datastores/{store}/files/clone", body("copy.vmdk"))
    assert job["result"]["copied_bytes"] == str(SIZE) and job["result"]["copied_because"] == {"not_supported": str(SIZE)}
    entry = appliance.get("/audit")["items"][0]
    assert (entry["action"], entry["status"], entry["subject"]) == ("file.clone", 202, store)
    assert entry["after"] == body("copy.vmdk")


def test_refusals_name_the_field_and_change_nothing(appliance: Appliance, store: str) -> None:
    volume = appliance.datastore("second")
    files_of(appliance, store)["there.vmdk"] = FileStatistics(1, 1, 1, True)
    before = dict(files_of(appliance, store)), appliance.get("/jobs")

    def refused(body: dict[str, Any], of: str = store, role: str = "admin") -> tuple[int, str | None]:
        answer = appliance.request("POST", f"/datastores/{of}/files/clone", body, role=role)
        assert answer.content_type == "application/problem+json" and answer.json is not None
        return answer.status_code, answer.json["errors"][0]["field"] if answer.json["errors"] else None

    for path in ("../first/x.vmdk", "/etc/passwd", "vm/../../x.vmdk", "a//b.vmdk", "./a.vmdk", "a/", "a\nb.vmdk", "x" * 300, ""):
        assert refused(body(source=path)) == (422, "source"), path
        assert refused(body(path)) == (422, "destination"), path
    assert refused(body(fast="x")) == (422, "fast")
    assert refused({"source": DISK}) == (422, "destination")
    assert refused(body(), of=volume) == (409, None)
    assert refused(body(), of="0" * 8) == (404, None)
    assert refused(body(), role="viewer") == (403, None)
    listed = appliance.request("GET", f"/datastores/{volume}/files")
    assert listed.status_code == 409 and listed.json is not None and listed.json["blocking"] == ["second"]
    assert appliance.request("GET", f"/datastores/{store}/files", role="viewer").status_code == 200
    assert (dict(files_of(appliance, store)), appliance.get("/jobs")) == before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (body(source="vm/missing.vmdk"), "source: there is no such file"),
        (body("there.vmdk"), "destination: the name is taken"),
        (body(fast=True), "Repeat without --fast"),
    ],
)
def test_a_refusal_by_the_nfs_server_is_reported_and_changes_nothing(
    body: dict[str, Any], says: str, appliance: Appliance, store: str
) -> None:
    files_of(appliance, store)["there.vmdk"] = FileStatistics(1, 1, 1, True)
    nas(appliance).cannot_share, before = True, dict(files_of(appliance, store))
    job = appliance.job("POST", f"/datastores/{store}/files/clone", body, expect="failed")
    assert says in job["problem"]["text"] and files_of(appliance, store) == before


def test_other_jobs_run_concurrently_and_the_datastore_stays(appliance: Appliance, store: str) -> None:
    job, other = begun(appliance, store), begun(appliance, store, "vm/other.vmdk")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    refused = appliance.request("DELETE", f"/datastores/{store}?force=true")
    assert refused.status_code == 409 and refused.json is not None and job in refused.json["detail"]
    again = appliance.request("POST", f"/datastores/{store}/files/clone", body())
    assert again.status_code == 409 and again.json is not None and again.json["detail"].endswith(f"zvaai job wait {job}")
    nas(appliance).paused = False
    assert {appliance.ended(identifier)["state"] for identifier in (job, other)} == {"succeeded"}
    appliance.job("DELETE", f"/datastores/{store}?force=true")


def test_a_clone_is_cancelled_at_any_moment(appliance: Appliance, store: str) -> None:
    job = begun(appliance, store)
    assert appliance.request("POST", f"/jobs/{job}/cancel").status_code == 200
    assert appliance.ended(job)["state"] == "cancelled"
    nas(appliance).paused = False
    assert set(files_of(appliance, store)) == {DISK}


def test_more_clones_than_the_limit_run_in_turn(appliance: Appliance, store: str) -> None:
    running = [begun(appliance, store, f"{number}.vmdk") for number in range(4)]
    answer = appliance.request("POST", f"/datastores/{store}/files/clone", body("waits.vmdk"))
    assert answer.json is not None
    assert appliance.request("POST", f"/jobs/{running[0]}/cancel").status_code == 200
    until(lambda: appliance.get(f"/jobs/{answer.json['id']}")["state"] == "running")  # type: ignore[index]
    nas(appliance).paused = False
    assert appliance.ended(answer.json["id"])["state"] == "succeeded"
    assert [appliance.ended(identifier)["state"] for identifier in running] == ["cancelled"] + ["succeeded"] * 3


@pytest.mark.parametrize("restarted", ["worker", "server", "both"])
def test_it_survives_restarts(appliance: Appliance, store: str, restarted: str) -> None:
    """The same clone is found, or a missing one is started again; once."""
    job = begun(appliance, store)
    if restarted != "server":
        appliance.service.stop()
    if restarted != "worker":
        nas(appliance).restart()
    nas(appliance).paused = False
    if restarted != "server":
        appliance.restart_worker()
    assert appliance.ended(job)["state"] == "succeeded"
    assert set(files_of(appliance, store)) == {DISK, "vm/new-flat.vmdk"}


def test_an_unknown_result_is_not_a_success(appliance: Appliance, store: str) -> None:
    """The NFS server has forgotten the clone, and the destination exists: complete, or created by another user."""
    job = begun(appliance, store)
    files_of(appliance, store)["vm/new-flat.vmdk"] = FileStatistics(1, 1, 1, True)
    nas(appliance).restart()
    nas(appliance).paused = False
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "check it" in ended["problem"]["text"]
    assert files_of(appliance, store)["vm/new-flat.vmdk"].total == 1


def test_an_alert_says_that_hosts_get_no_vaai(appliance: Appliance) -> None:
    def alerts() -> list[str]:
        appliance.request("POST", "/reconcile")
        return [alert["text"] for alert in appliance.get("/alerts")["items"] if alert["key"] == "vaai-nas:library"]

    assert alerts() == []
    nas(appliance).without_vaai = "install the zvaai-nfs package"
    assert alerts() == ["Hosts get NFS without VAAI-NAS: install the zvaai-nfs package"]
    nas(appliance).without_vaai = ""
    assert alerts() == []
