# SPDX-License-Identifier: Apache-2.0
"""A backup of the configuration as a file: restored objects, refusals, and no change after a refusal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import PASSWORD, Appliance, running
from simulators.ganesha import GaneshaSimulator
from simulators.target import TargetSimulator
from sqlalchemy import delete, text

from appliance.config import Target
from appliance.database.generation import TARGET
from appliance.database.models import Setting, User
from appliance.dataplane.ganesha import NfsClient
from appliance.dataplane.target import LoggedIn
from appliance.domain import access, configuration, sealed_copy
from appliance.domain.journal import Finding, update_alerts
from appliance.domain.secrets import Seal

ESX, OTHER = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"
CHAP_SECRET, MUTUAL_SECRET = "a good long secret", "the target's secret"
TABLES = ("users", "host_groups", "hosts", "host_initiators", "presentations", "presentation_groups", "exports", "export_groups",
          "schedules", "receivers", "deliveries", "sessions", "tokens")  # fmt: skip


def made(appliance: Appliance) -> str:
    """Something of each kind; the datastore."""
    group = appliance.group("cluster", ESX)
    appliance.request("PATCH", f"/host-groups/{group}", {"disabled_offloads": ["unmap"]})
    chap = {"name": "esx2", "secret": CHAP_SECRET}
    host = {"name": "second", "iqns": [OTHER], "group": group, "addresses": ["192.0.2.7"], "chap": chap}
    assert appliance.request("POST", "/hosts", host).status_code == 201
    store = appliance.datastore("first", host_groups=[group], lun=7)
    schedule = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 3, "enabled": False}
    assert appliance.request("POST", "/schedules", schedule).status_code == 201
    hook = {"name": "pager", "url": "https://192.0.2.1/t0ken", "severity": "critical"}
    assert appliance.request("POST", "/receivers", hook).status_code == 201
    user = {"name": "somebody", "role": "operator", "password": "another good password"}
    assert appliance.request("POST", "/users", user).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    mutual = {"name": "target", "secret": MUTUAL_SECRET}
    assert appliance.request("PUT", "/settings/iscsi/target-chap", mutual).status_code == 200
    assert appliance.request("POST", "/reconcile").status_code == 200  # the target has the CHAP account from now on
    return store


def new_key(appliance: Appliance) -> str:
    answer = appliance.request("POST", "/configuration/recovery-key")
    assert answer.status_code == 200 and answer.json is not None, answer.text
    return str(answer.json["secret"])


def back_up(appliance: Appliance) -> str:
    answer = appliance.request("POST", "/configuration/backup", {"password": PASSWORD})
    assert answer.status_code == 200 and answer.json is not None, answer.text
    return json.dumps(answer.json, indent=1)


def restored(appliance: Appliance, file: str, **more: Any) -> list[str]:
    """The changes."""
    answer = appliance.request("POST", "/recovery", {"file": file, **more})
    assert answer.status_code == 200 and answer.json is not None, answer.text
    return list(answer.json["changes"])


def refused(appliance: Appliance, status: int, file: str, **more: Any) -> dict[str, Any]:
    """The problem; nothing is changed."""
    before = tables(appliance)
    answer = appliance.request("POST", "/recovery", {"file": file, **more})
    assert answer.status_code == status and answer.json is not None, answer.text
    assert tables(appliance) == before
    return dict(answer.json)


def tables(appliance: Appliance) -> dict[str, list[tuple[Any, ...]]]:
    with appliance.store.reading() as session:
        rows = {name: [tuple(row) for row in session.execute(text(f"SELECT * FROM {name}"))] for name in TABLES}
    rows["tokens"] = [row[:-1] for row in rows["tokens"]]  # when it was used last
    return rows


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Appliance]:
    """Another installation, which knows nothing."""
    with running(tmp_path / "fresh") as restored:
        yield restored


def test_everything_is_restored_on_a_fresh_installation(appliance: Appliance, fresh: Appliance) -> None:
    """Also the LUN number of a datastore that is absent, the CHAP secrets that the target is given, and the password."""
    store, key = made(appliance), new_key(appliance)
    file = back_up(appliance)
    changes = restored(fresh, file, recovery_key=key)
    assert {"host second: added", "LUN 7: added", "LUN 7 for host group cluster: added"} <= set(changes)
    assert fresh.get("/host-groups")["items"] == appliance.get("/host-groups")["items"]
    # Each secret is passed to the target again: it counts as another version.
    of_now = {"chap_revision": 0, "etag": ""}
    hosts = [[{**host, **of_now} for host in instance.get("/hosts")["items"]] for instance in (fresh, appliance)]
    assert hosts[0] == hosts[1] != []
    no_run = {"last_at": None, "next_at": None}
    schedules = [{**instance.get("/schedules")["items"][0], **no_run} for instance in (fresh, appliance)]
    assert schedules[0] == schedules[1]
    assert fresh.get("/settings/iscsi") == {"chap_required": True, "target_chap_name": "target"}
    assert fresh.get("/receivers")["items"][0]["url"] == "https://192.0.2.1/t0ken"
    missing = fresh.get("/datastores")["items"]
    assert [(row["id"], row["name"], row["state"], row["lun"]) for row in missing] == [(store, "first", "missing", 7)]
    fresh.request("POST", "/reconcile")
    assert [account.name for account in fresh.target.targets()[0].accounts] == ["esx2"]
    with fresh.store.reading() as session:
        content = configuration.collect(session, Seal(fresh.configuration.secrets_key))
    assert CHAP_SECRET in [host["chap_secret"] for host in content["hosts"]]
    assert MUTUAL_SECRET in json.dumps(content["settings"])
    login = {"name": "somebody", "password": "another good password"}
    assert fresh.request("POST", "/session", login, role="").status_code in (200, 201)
    assert restored(fresh, file, recovery_key=key) == [], "once more changes nothing"
    assert fresh.get("/recovery")["installation"] == appliance.get("/recovery")["installation"]


def test_a_dry_run_reports_and_changes_nothing(appliance: Appliance, fresh: Appliance) -> None:
    made(appliance)
    key = new_key(appliance)
    file, before = back_up(appliance), tables(fresh)
    changes = restored(fresh, file, recovery_key=key, dry_run=True)
    assert tables(fresh) == before
    assert restored(fresh, file, recovery_key=key) == changes != []


def test_back_to_an_earlier_state(appliance: Appliance) -> None:
    """Completely: newer objects are removed. The keys are the present ones."""
    store = made(appliance)
    new_key(appliance)
    file = back_up(appliance)
    key = new_key(appliance)
    hosts = {host["name"]: host for host in appliance.get("/hosts")["items"]}
    appliance.request("PATCH", f"/hosts/{hosts['second']['id']}", {"name": "renamed", "addresses": []})
    appliance.request("PUT", "/settings/iscsi", {"chap_required": False})
    other = appliance.group("more", "iqn.1998-01.com.vmware:esx9")
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8, "host_groups": [other]})
    later = appliance.datastore("later", host_groups=[other], lun=9)
    appliance.request("DELETE", f"/schedules/{appliance.get('/schedules')['items'][0]['id']}")
    newcomer = {"name": "newcomer", "role": "viewer", "password": "another good password"}
    appliance.request("POST", "/users", newcomer)
    changes = restored(appliance, file)
    for change in ("host renamed: removed", "host second: added", "LUN 8: removed", "LUN 7: added", "host group more: removed",
                   "schedule often: added", "user newcomer: removed", "LUN 9: removed"):  # fmt: skip
        assert change in changes, (change, changes)
    assert any(change.startswith("setting iscsi: value") for change in changes) and not any(
        MUTUAL_SECRET in change for change in changes
    )
    assert appliance.get(f"/datastores/{store}")["lun"] == 7
    appliance.request("POST", "/reconcile")
    assert appliance.get(f"/datastores/{later}")["host_groups"] == [], "its data stays, and nobody sees it"
    assert {user["name"] for user in appliance.get("/users")["items"]} == {"admin", "operator", "viewer", "somebody"}
    again = sealed_copy.parse(back_up(appliance))
    assert again is not None and sealed_copy.open_copy(again, Seal(Path("/nowhere")), key)


def test_alerts_about_what_a_restore_removed_end(appliance: Appliance) -> None:
    """Those of what stays do not: nothing would raise them again soon."""
    new_key(appliance)
    weekly = {"kind": "scrub", "pool": "tank", "every_minutes": 7 * 1440}

    def add(name: str) -> str:
        added = appliance.request("POST", "/schedules", {**weekly, "name": name}).json
        assert added is not None
        area = f"schedule-{added['id']}"
        with appliance.store.session() as session:
            update_alerts(session, area, [Finding(f"{area}:failed", "warning", name, "it failed")])
        return name

    stays = add("stays")
    file = back_up(appliance)
    add("goes")
    restored(appliance, file)
    assert [alert["subject"] for alert in appliance.get("/alerts")["items"]] == [stays]


def test_names_that_changed_places(appliance: Appliance) -> None:
    first, second = appliance.group("a", ESX), appliance.group("b", OTHER)
    new_key(appliance)
    file = back_up(appliance)
    for group, name in ((first, "c"), (second, "a"), (first, "b")):
        assert appliance.request("PATCH", f"/host-groups/{group}", {"name": name}).status_code == 200
    restored(appliance, file)
    assert {group["id"]: group["name"] for group in appliance.get("/host-groups")["items"]} == {first: "a", second: "b"}


def test_a_used_datastore_is_removed_only_by_force(appliance: Appliance) -> None:
    new_key(appliance)
    file = back_up(appliance)
    store = made(appliance)
    assert isinstance(appliance.target, TargetSimulator)
    name = appliance.target_name
    appliance.target.logged_in.append(LoggedIn(ESX, name, "192.0.2.9:1", "192.0.2.1:3260", 0, None))
    for dry_run in (True, False):
        problem = refused(appliance, 409, file, dry_run=dry_run)
        assert problem["can_force"] and problem["blocking"] == [f"{ESX}: LUN 7 of {name} ({store})"]
    assert "LUN 7: removed" in restored(appliance, file, force=True)


def test_the_name_of_a_target_in_use_changes_only_by_force(appliance: Appliance) -> None:
    """Hosts that are logged in would lose their LUNs."""
    store, name, later = made(appliance), appliance.target_name, "iqn.2026-11.zvaai:0123456789ab"
    new_key(appliance)
    file = back_up(appliance)
    with appliance.store.session() as session:
        session.merge(Setting(name=TARGET, value={"name": later}))
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert [target.name for target in appliance.target.targets()] == [later]
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.logged_in.append(LoggedIn(ESX, later, "192.0.2.9:1", "192.0.2.1:3260", 0, None))
    assert refused(appliance, 409, file)["blocking"] == [f"{ESX}: LUN 7 of {later} ({store})"]
    context = appliance.service.context
    context.configuration = appliance.configuration.model_copy(update={"target": Target(name="iqn.2026-11.example:chosen")})
    assert appliance.target_name == "iqn.2026-11.example:chosen"
    caller = next(user["id"] for user in appliance.get("/users")["items"] if user["name"] == "admin")
    at_work = appliance.service.executor.is_at_work
    changes = context.recovery.take(None, file, None, caller, at_work, dry_run=True, force=False)
    assert changes, "the chosen name does not change"
    context.configuration = appliance.configuration
    restored(appliance, file, force=True)
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert [target.name for target in appliance.target.targets()] == [name]


def test_a_mounted_nfs_datastore_is_removed_only_by_force(appliance: Appliance) -> None:
    """Also in the first 90 s of the NFS server, which knows no clients yet."""
    network, address = "198.51.100.0/24", "198.51.100.7"
    store = appliance.nfs_datastore("files", clients=["192.0.2.1"])
    new_key(appliance)
    file = back_up(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"clients": ["192.0.2.1", network]})
    fake = appliance.nfs
    assert isinstance(fake, GaneshaSimulator)
    fake.used = {1: fake.now}
    fake.known = [NfsClient(address, fake.now, 0)]
    assert refused(appliance, 409, file)["blocking"] == [f"{address}: export /files ({store})"]
    fake.known, fake.started_at = [], fake.now - 1
    assert f"{network}: export /files ({store})" in refused(appliance, 409, file)["blocking"]
    fake.started_at = 0
    assert restored(appliance, file), "nobody uses it"
    assert appliance.get(f"/datastores/{store}")["clients"] == ["192.0.2.1"]


def test_running_jobs_are_in_the_way(appliance: Appliance) -> None:
    new_key(appliance)
    file = back_up(appliance)
    appliance.service.executor.stop()
    answer = appliance.request("POST", "/datastores", {"name": "queued", "pool": "tank", "size": "1073741824"})
    assert answer.status_code == 202 and answer.json is not None
    assert refused(appliance, 409, file)["blocking"] == [answer.json["id"]]


def test_no_secret_is_in_it(appliance: Appliance) -> None:
    made(appliance)
    key = new_key(appliance)
    file = back_up(appliance)
    with appliance.store.reading() as session:
        content = configuration.collect(session, Seal(appliance.configuration.secrets_key))
    hook = content["receivers"][0]
    secrets = [
        CHAP_SECRET,
        MUTUAL_SECRET,
        "t0ken",
        hook["secret"],
        *(user["password_hash"] for user in content["users"]),
        PASSWORD,
        key,
    ]
    assert not [secret for secret in secrets if secret in file]
    restored(appliance, file, recovery_key=key)
    audit = json.dumps(appliance.get("/audit"))
    assert key not in audit and json.loads(file)["sealed"] not in audit


DAMAGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "cut off": lambda document: document.update(sealed=document["sealed"][:-40]),
    "a newer version": lambda document: document["header"].update(version=2),
    "no seal": lambda document: document.pop("sealed"),
    "something more": lambda document: document.update(more=1),
    "another installation": lambda document: document["header"].update(installation="00000000-0000-4000-8000-000000000001"),
    "odd base64": lambda document: document.update(sealed="*"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused(damage: str, shared: Appliance) -> None:
    new_key(shared)
    document = json.loads(back_up(shared))
    DAMAGED[damage](document)
    assert refused(shared, 422, json.dumps(document))["errors"][0]["field"] in ("file", "copy", "recovery_key")


@pytest.mark.parametrize("wrong", ["[]", "{}", "[" * 100_000, "no JSON", '{"format": 1}'])
def test_invalid_backups(wrong: str, shared: Appliance) -> None:
    assert refused(shared, 422, wrong)["errors"][0]["field"] == "file"


def other_user(content: configuration.Content) -> dict[str, Any]:
    """Not the caller, who does not change."""
    return next(user for user in content["users"] if user["name"] != "admin")


WRONG: dict[str, Callable[[configuration.Content], Any]] = {
    "an unknown group": lambda content: content["hosts"][0].update(group_id="absent"),
    "a name twice": lambda content: content["hosts"][1].update(name=content["hosts"][0]["name"]),
    "an unknown column": lambda content: other_user(content).update(more=1),
    "a missing column": lambda content: other_user(content).pop("role"),
    "a missing table": lambda content: content.pop("hosts"),
    "an absent time zone": lambda content: content["schedules"][0].update(time_zone="Absent/Zone"),
}


def of_another_version(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, change: Callable[[configuration.Content], Any]
) -> str:
    """A backup with a changed content."""
    made(appliance)
    new_key(appliance)
    with appliance.store.reading() as session:
        content = configuration.collect(session, Seal(appliance.configuration.secrets_key))
    change(content)
    with monkeypatch.context() as patch:
        patch.setattr(sealed_copy, "collect", lambda *_: content)
        return back_up(appliance)


def test_a_file_of_a_version_with_fewer_tables_is_taken(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    file = of_another_version(appliance, monkeypatch, lambda content: content.pop("receivers"))
    assert restored(appliance, file) == ["receiver pager: removed"]


@pytest.mark.parametrize("what", WRONG)
def test_a_file_of_another_version_is_refused(what: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    file = of_another_version(appliance, monkeypatch, WRONG[what])
    assert refused(appliance, 422, file)["errors"][0]["field"] == ("time_zone" if "time zone" in what else "copy")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_that_disables_ats_is_refused(dry_run: bool, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """VMFS has no other lock. The refusal names what can be disabled."""
    disabled = ["compare_and_write", "unmap"]
    file = of_another_version(appliance, monkeypatch, lambda content: content["host_groups"][0].update(disabled=disabled))
    (error,) = refused(appliance, 422, file, dry_run=dry_run)["errors"]
    assert error["field"] == "disabled_offloads"
    assert error["reason"] == "compare_and_write cannot be disabled for a host group"
    assert error["allowed"] == "extended_copy, write_same, unmap, token"


def test_exactly_one_source(shared: Appliance) -> None:
    for body in ({}, {"keep": True, "from_pool": "tank"}, {"file": "{}", "from_pool": "tank"}):
        assert shared.request("POST", "/recovery", body).status_code == 422


def test_only_admins(shared: Appliance) -> None:
    for path in ("configuration/backup", "recovery"):
        assert shared.request("POST", f"/{path}", {}, role="operator").status_code == 403


def test_the_first_admin_is_shown_a_recovery_key(appliance: Appliance) -> None:
    with appliance.store.session() as session:
        session.execute(delete(User))
        code = access.prepare_setup(session, appliance.configuration.setup_code)
    assert code is not None
    body = {"code": code, "name": "first", "password": PASSWORD}
    answer = appliance.request("POST", "/setup", body, role="")
    assert answer.status_code == 201 and answer.json is not None, answer.text
    assert answer.json["name"] == "first" and len(answer.json["recovery_key"].split("-")) == 8
    assert appliance.request("POST", "/setup", body, role="").status_code == 409
    assert answer.json["recovery_key"] not in appliance.configuration.database.read_bytes().decode(errors="replace")
