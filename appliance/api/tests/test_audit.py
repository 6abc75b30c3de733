# SPDX-License-Identifier: Apache-2.0
"""The audit: begun before the change, ended after it, bounded, without secrets."""

import gzip
import json
import threading
from typing import Any

import pytest
from simulators.appliance import Appliance
from sqlalchemy import event, select

from appliance.api import execution
from appliance.database.models import AuditEntry, HostGroup
from appliance.domain import access, hosts, journal


class Killed(BaseException):
    """No handler of errors sees a kill -9."""


def test_a_crash_during_a_change_leaves_an_entry(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    add = hosts.add_group

    def add_and_die(*arguments: Any) -> None:
        add(*arguments)
        arguments[0].commit()  # the change is made
        raise Killed

    monkeypatch.setattr(hosts, "add_group", add_and_die)
    with pytest.raises(Killed):
        appliance.request("POST", "/host-groups", {"name": "one"})
    with appliance.store.reading() as session:
        assert session.scalar(select(HostGroup.name)) == "one"
    entry = appliance.get("/audit")["items"][0]
    assert (entry["action"], entry["actor"], entry["status"]) == ("host_group.create", "admin", None)
    assert entry["after"]["name"] == "one"


def test_a_crash_before_the_commit_changes_nothing(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the repeated request, with its key, would conflict with its own change."""

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(execution, "complete", die)
        with pytest.raises(Killed):
            appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="key")
    assert appliance.get("/host-groups")["items"] == []
    execution.forget_unfinished(appliance.store)
    again = [appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="key") for _ in range(2)]
    assert [answer.status_code for answer in again] == [201, 201] and again[0].json == again[1].json
    assert [group["name"] for group in appliance.get("/host-groups")["items"]] == ["one"]


def test_an_entry_says_how_it_ended(appliance: Appliance) -> None:
    assert appliance.request("POST", "/host-groups", {"name": "one"}).status_code == 201
    refused: Any = appliance.request("POST", "/host-groups", {"name": "one"})
    assert refused.status_code == 409 and [error["field"] for error in refused.json["errors"]] == ["name"]
    assert appliance.request("POST", "/host-groups", {"name": "two"}, role="viewer").status_code == 403
    group = appliance.get("/host-groups")["items"][0]["id"]
    assert appliance.request("PATCH", f"/host-groups/{group}", {"name": "other"}).status_code == 200
    entries = appliance.get("/audit")["items"]
    assert [entry["status"] for entry in entries] == [200, 403, 409, 201]
    assert entries[0]["before"]["name"] == "one" and entries[0]["after"]["name"] == "other"
    assert entries[3]["subject"] == group


def test_secrets_are_hidden_at_any_depth(appliance: Appliance) -> None:
    body = {"name": "esx", "iqns": [], "addresses": [{"secret": "very secret"}], "chap": [{"password": "most secret"}]}
    assert appliance.request("POST", "/hosts", body).status_code == 422
    deep: Any = {"secret": "very secret"}
    for _ in range(2000):
        deep = [deep]
    appliance.request("POST", "/hosts", {"name": deep})
    assert "secret" not in appliance.request("GET", "/audit").text.replace("(secret)", "").replace('"secret"', "")


def test_anonymous_requests_fill_no_disk(appliance: Appliance) -> None:
    client = appliance.application.test_client()
    for number in range(40):
        client.post("/api/v1/session", json={"name": "admin", "password": f"wrong {number} wrong"})
        client.post("/api/v1/session", json={"unknown": number})
        client.post("/api/v1/datastores", json={"name": "x" * 1000})
    entries = appliance.get("/audit")["items"]
    assert len(entries) == 5 and {entry["status"] for entry in entries} == {401}  # then it has to wait


@pytest.mark.parametrize("path", ["session", "setup", "setup/administrator"])
def test_anonymous_requests_that_have_to_wait_write_nothing(appliance: Appliance, path: str) -> None:
    """Each commit costs a disk some milliseconds, and the other writers wait."""
    body = {"name": "admin", "password": "wrong wrong 1", "code": "wrong"}
    here, written = threading.get_ident(), list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if threading.get_ident() == here and not statement.startswith(("SELECT", "BEGIN")):
            written.append(statement)

    with appliance.store.session() as session:
        for _ in range(30):
            access.count_failure(session, "admin" if path == "session" else "setup", "127.0.0.1")
    event.listen(appliance.store.engine, "before_cursor_execute", note)
    assert appliance.request("POST", f"/{path}", body, role="").status_code == 429
    assert written == []


def test_old_entries_go_to_files_and_old_files_go(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "AUDIT_RETAINED", 20)
    monkeypatch.setattr(journal, "AUDIT_FILE_ENTRIES", 10)
    monkeypatch.setattr(journal, "AUDIT_FILES", 2)
    monkeypatch.setattr(execution, "_ROTATED_AFTER", 5)
    for number in range(70):
        appliance.request("POST", "/host-groups", {"name": f"group {number}"})
    with appliance.store.reading() as session:
        stored = session.scalars(select(AuditEntry.id).order_by(AuditEntry.id)).all()
    files = sorted(appliance.configuration.audit_directory.glob("*"))
    assert len(files) == 2 and files[0].stat().st_mode & 0o077 == 0 and files[0].parent.stat().st_mode & 0o077 == 0
    written = [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert [entry["id"] for entry in written] + list(stored) == list(range(written[0]["id"], 71))
    assert 20 <= len(stored) < 36 and len(written) == 20
    assert all(entry["actor"] == "admin" and entry["status"] == 201 for entry in written)


def test_filters_narrow_the_audit(appliance: Appliance) -> None:
    made_group = appliance.request("POST", "/host-groups", {"name": "cluster"}).json
    assert made_group is not None
    group = made_group["id"]
    appliance.request("PATCH", f"/host-groups/{group}", {"name": "other"})
    assert appliance.request("POST", "/host-groups", {"name": "other"}).status_code == 409
    assert appliance.request("POST", "/host-groups", {"name": "mine"}, role="viewer").status_code == 403

    def entries(query: str) -> list[tuple[str, int]]:
        return [(entry["action"], entry["status"]) for entry in appliance.get(f"/audit?{query}")["items"]]

    made, refused, forbidden = ("host_group.create", 201), ("host_group.create", 409), ("host_group.create", 403)
    assert entries("action=host_group") == [forbidden, refused, ("host_group.change", 200), made]
    assert entries("action=host_group.create&refused=true") == [forbidden, refused]
    assert entries("action=host_group.create&refused=false") == [made]
    assert entries("action=host_group&actor=viewer") == entries("action=host_group&actor=VIEW") == [forbidden]
    assert entries("action=host") == entries("actor=nobody") == [], "whole words"
    page = appliance.get("/audit?action=host_group&limit=3")
    assert entries(f"action=host_group&limit=3&cursor={page['next_cursor']}") == [made]
    assert appliance.request("GET", "/audit?action=%25").status_code == 422


def test_entries_of_a_range_of_time(appliance: Appliance) -> None:
    for name in ("one", "two", "three"):
        assert appliance.request("POST", "/host-groups", {"name": name}).status_code == 201
    with appliance.store.session() as session:
        newest = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(3))
        for entry, at in zip(newest, (300, 200, 100), strict=True):
            entry.at = at
    assert [entry["name"] for entry in appliance.get("/audit?since=100&until=200")["items"]] == ["two", "one"]
    assert appliance.get("/audit?until=99")["items"] == []
    assert appliance.request("GET", "/audit?since=yesterday").status_code == 422
