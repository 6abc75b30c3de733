# SPDX-License-Identifier: Apache-2.0
"""Backup and restore: what comes back on a fresh installation, what is refused, and that a refusal changes nothing."""

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, text

from appliance.database.models import User
from appliance.dataplane.ganesha import NfsClient
from appliance.dataplane.ganesha_simulator import GaneshaSimulator
from appliance.dataplane.target import LoggedIn, Registrations
from appliance.dataplane.target_simulator import TargetSimulator
from appliance.domain import access, backup
from appliance.domain.secrets import Seal
from appliance.testing import PASSWORD, Appliance, running

ESX, OTHER = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"
PASSPHRASE = "a long passphrase"
CHAP_SECRET = "a good long secret"
TABLES = ("users", "host_groups", "hosts", "host_initiators", "presentations", "presentation_groups", "exports", "export_groups",
          "schedules", "receivers", "deliveries", "settings", "sessions", "tokens")  # fmt: skip


@pytest.fixture(autouse=True)
def quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_SCRYPT_N", 1 << 4)


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
    assert appliance.request("POST", "/reconcile").status_code == 200  # the target has the CHAP account from now on
    return store


def back_up(appliance: Appliance) -> dict[str, Any]:
    answer = appliance.request("POST", "/configuration/backup", {"passphrase": PASSPHRASE, "password": PASSWORD})
    assert answer.status_code == 200 and answer.json is not None, answer.text
    return dict(answer.json)


def restored(appliance: Appliance, document: Any, **more: Any) -> Any:
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False, **more}
    answer = appliance.request("POST", "/configuration/restore", body)
    assert answer.status_code == 200 and answer.json is not None, answer.text
    return answer.json


def tables(appliance: Appliance) -> dict[str, list[tuple[Any, ...]]]:
    with appliance.store.reading() as session:
        found = {name: [tuple(row) for row in session.execute(text(f"SELECT * FROM {name}"))] for name in TABLES}
    found["tokens"] = [row[:-1] for row in found["tokens"]]  # when it was used last
    found["settings"] = [row for row in found["settings"] if row[0] != "pool_thresholds"]  # as the worker looks
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Appliance]:
    """Another installation, which knows nothing."""
    with running(tmp_path / "fresh") as one:
        yield one


def test_all_of_it_comes_back_on_a_fresh_installation(appliance: Appliance, fresh: Appliance) -> None:
    """Also the LUN number of a datastore that is not there yet, the CHAP secret the target is given, and the password."""
    store = made(appliance)
    document = back_up(appliance)
    response = restored(fresh, document)
    assert response["applied"] and "host second: added" in response["changes"] and "LUN 7: added" in response["changes"]
    assert fresh.get("/host-groups")["items"] == appliance.get("/host-groups")["items"]
    # Each secret is given to the target anew: it counts as another version.
    of_now = {"chap_revision": 0, "etag": ""}
    hosts = [[{**host, **of_now} for host in one.get("/hosts")["items"]] for one in (fresh, appliance)]
    assert hosts[0] == hosts[1] != []
    schedule = fresh.get("/schedules")["items"][0]
    assert {**schedule, "last_at": None} == appliance.get("/schedules")["items"][0]
    assert fresh.get("/settings/iscsi") == {"chap_required": True, "target_chap_name": None}
    assert fresh.get("/receivers")["items"][0]["url"] == "https://192.0.2.1/t0ken"
    missing = fresh.get("/datastores")["items"]
    assert [(one["id"], one["state"], one["lun"]) for one in missing] == [(store, "missing", 7)]
    fresh.request("POST", "/reconcile")
    accounts = fresh.target.targets()[0].accounts
    assert [one.name for one in accounts] == ["esx2"]
    with fresh.store.reading() as session:
        _, secrets = backup.collect(session, Seal(fresh.configuration.secrets_key))
    assert list(secrets.chap.values()) == [CHAP_SECRET]
    login = {"name": "somebody", "password": "another good password"}
    assert fresh.request("POST", "/session", login, role="").status_code in (200, 201)
    assert restored(fresh, document)["changes"] == [], "once more changes nothing"


def test_a_dry_run_tells_and_changes_nothing(appliance: Appliance, fresh: Appliance) -> None:
    made(appliance)
    document, before = back_up(appliance), tables(fresh)
    response = restored(fresh, document, dry_run=True)
    assert not response["applied"] and tables(fresh) == before
    assert restored(fresh, document)["changes"] == response["changes"]


def test_back_to_what_was(appliance: Appliance) -> None:
    """Later changes are reported and undone; later users stay, and the caller keeps his account."""
    store = made(appliance)
    document = back_up(appliance)
    hosts = {one["name"]: one for one in appliance.get("/hosts")["items"]}
    appliance.request("PATCH", f"/hosts/{hosts['second']['id']}", {"name": "renamed", "addresses": []})
    appliance.request("PUT", "/settings/iscsi", {"chap_required": False})
    other = appliance.group("more", "iqn.1998-01.com.vmware:esx9")
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8, "host_groups": [other]})
    later = appliance.datastore("later", host_groups=[other], lun=9)
    appliance.request("DELETE", f"/schedules/{appliance.get('/schedules')['items'][0]['id']}")
    newcomer = {"name": "newcomer", "role": "viewer", "password": "another good password"}
    appliance.request("POST", "/users", newcomer)
    response = restored(appliance, document)
    for change in ("host renamed: removed", "host second: added", "LUN 8: removed", "LUN 7: added", "host group more: removed",
                   "schedule often: added", "settings iscsi: chap_required from False to True"):  # fmt: skip
        assert change in response["changes"], (change, response)
    assert appliance.get(f"/datastores/{store}")["lun"] == 7
    assert appliance.get(f"/datastores/{later}")["lun"] == 9, "what the backup does not know keeps its number"
    assert {one["name"] for one in appliance.get("/users")["items"]} >= {"newcomer", "admin", "somebody"}
    assert not [one for one in response["changes"] if "password" in one or "user" in one]


def test_names_that_changed_places(appliance: Appliance) -> None:
    first, second = appliance.group("a", ESX), appliance.group("b", OTHER)
    document = back_up(appliance)
    for group, name in ((first, "c"), (second, "a"), (first, "b")):
        assert appliance.request("PATCH", f"/host-groups/{group}", {"name": name}).status_code == 200
    restored(appliance, document)
    assert {one["id"]: one["name"] for one in appliance.get("/host-groups")["items"]} == {first: "a", second: "b"}


def test_who_uses_a_datastore_keeps_it_unless_forced(appliance: Appliance) -> None:
    document = back_up(appliance)
    store = made(appliance)
    assert isinstance(appliance.target, TargetSimulator)
    name = appliance.configuration.target.name
    appliance.target.logged_in.append(LoggedIn(ESX, name, "192.0.2.9:1", "192.0.2.1:3260", 0, None))
    before = tables(appliance)
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False}
    for dry_run in (True, False):
        answer = appliance.request("POST", "/configuration/restore", {**body, "dry_run": dry_run})
        assert answer.status_code == 409 and answer.json is not None and answer.json["can_force"]
        assert answer.json["blocking"] == [f"{ESX}: LUN 7 ({store})"]
    assert tables(appliance) == before
    response = restored(appliance, document, force=True)
    assert f"taken from hosts that use it: {ESX}: LUN 7 ({store})" in response["changes"]


def test_who_mounts_an_nfs_datastore_keeps_all_of_it_unless_forced(appliance: Appliance) -> None:
    """Its own clients, versions and squashing, as in a change; also in the first 90 s of the NFS server, which knows nobody."""
    network, address = "198.51.100.0/24", "198.51.100.7"
    store = appliance.nfs_datastore("files", clients=["192.0.2.1"], squash="all", versions=["3"])
    document = back_up(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"clients": ["192.0.2.1", network], "squash": "none", "versions": ["3", "4"]})
    fake, whole = appliance.nfs, f"/files, export 1 ({store})"
    assert isinstance(fake, GaneshaSimulator)
    fake.used = {1: fake.now}
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False}

    def blocking() -> Any:
        before = tables(appliance)
        answer = appliance.request("POST", "/configuration/restore", body)
        assert answer.status_code == 409 and answer.json is not None and answer.json["can_force"] and tables(appliance) == before
        return answer.json["blocking"]

    fake.known = [NfsClient(address, fake.now, 0)]
    assert blocking() == [f"{address}: {whole}"]
    fake.known = [NfsClient("192.0.2.1", fake.now, 0)]
    assert blocking() == [f"192.0.2.1: {whole} {what}" for what in ("as each user", "as root", "by NFSv4")]
    fake.known, fake.since = [], fake.now - 1
    assert f"{network}: {whole}" in blocking() and f"192.0.2.1: {whole} as root" in blocking()
    fake.since = 0
    assert restored(appliance, document)["applied"], "nobody uses it"
    assert appliance.get(f"/datastores/{store}")["clients"] == ["192.0.2.1"]


def test_reservations_that_would_end_are_in_the_way(appliance: Appliance) -> None:
    store = made(appliance)
    document = back_up(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.registered[store] = Registrations((ESX,), survive=False)
    before = tables(appliance)
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False}
    answer = appliance.request("POST", "/configuration/restore", body)
    assert answer.status_code == 409 and answer.json is not None and tables(appliance) == before
    assert answer.json["blocking"] == [f"{ESX}: persistent reservations of {store}"]
    assert restored(appliance, document, force=True)["applied"] and appliance.get(f"/datastores/{store}")["lun"] == 7


def test_a_number_that_is_anothers_by_now(appliance: Appliance) -> None:
    store = made(appliance)
    document = back_up(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    newer = appliance.datastore("newer", lun=7)
    before = tables(appliance)
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False}
    answer = appliance.request("POST", "/configuration/restore", body)
    assert answer.status_code == 409 and answer.json is not None and answer.json["blocking"] == [newer]
    assert tables(appliance) == before


def test_addresses_and_names_are_taken_as_a_change_of_a_host_takes_them(appliance: Appliance) -> None:
    """A file that another program has made may write them otherwise; what no host can have is refused."""
    made(appliance)
    appliance.nfs_datastore("files", clients=["192.0.2.1"])
    before = tables(appliance)

    def restore(change: dict[str, Any], first: dict[str, Any] | None = None, client: str = "192.0.2.1") -> Any:
        with appliance.store.reading() as session:
            content, secrets = backup.collect(session, appliance.service.context.seal)
        hosts = {host.name: host for host in content.hosts}
        hosts["second"] = hosts["second"].model_copy(update=change)
        hosts["host of cluster"] = hosts["host of cluster"].model_copy(update=first or {})
        exports = [one.model_copy(update={"clients": [client]}) for one in content.exports]
        written = backup.write(
            content.model_copy(update={"hosts": list(hosts.values()), "exports": exports}), secrets, PASSPHRASE, "1"
        )
        body = {"backup": json.dumps(written), "passphrase": PASSPHRASE, "dry_run": False}
        return appliance.request("POST", "/configuration/restore", body)

    for change, first in (
        ({"addresses": ["fe80::1%eth0"]}, {}),
        ({"iqns": [OTHER, OTHER.replace("esx2", "ESX2")]}, {}),
        ({"iqns": [OTHER]}, {"iqns": [OTHER.upper().replace("IQN", "iqn")]}),
        ({"iqns": ["no name"]}, {}),
    ):
        answer = restore(change, first)
        assert answer.status_code == 422 and answer.json["errors"][0]["field"] == "backup", (change, answer.text)
        assert tables(appliance) == before
    assert restore({}, client="fe80::1%eth0").status_code == 422 and tables(appliance) == before
    response = restore({"addresses": ["2001:DB8:0::7"], "iqns": [OTHER.replace("esx2", "ESX9")]}, client="2001:DB8:0::/32")
    assert response.status_code == 200, response.text
    (host,) = [one for one in appliance.get("/hosts")["items"] if one["name"] == "second"]
    assert (host["addresses"], host["iqns"]) == (["2001:db8::7"], [OTHER.replace("esx2", "esx9")])
    assert next(one for one in appliance.get("/datastores")["items"] if one["kind"] == "nfs")["clients"] == ["2001:db8::/32"]


def test_no_secret_is_in_it(appliance: Appliance) -> None:
    made(appliance)
    document = back_up(appliance)
    plain = gzip.decompress(base64.b64decode(document["content"])).decode() + json.dumps(document)
    with appliance.store.reading() as session:
        _, secrets = backup.collect(session, Seal(appliance.configuration.secrets_key))
    hook = next(iter(secrets.receivers.values()))
    for secret in (CHAP_SECRET, "t0ken", hook.secret, *secrets.password_hashes.values(), PASSPHRASE, PASSWORD):
        assert secret not in plain
    audit = json.dumps(appliance.get("/audit"))
    assert PASSPHRASE not in audit and document["sealed"]["data"] not in audit


def test_two_backups_are_sealed_with_other_keys(appliance: Appliance) -> None:
    first, second = back_up(appliance), back_up(appliance)
    assert first["sealed"]["salt"] != second["sealed"]["salt"] and first["sealed"]["nonce"] != second["sealed"]["nonce"]


# --- what is refused


def changed_content(change: Callable[[Any], None]) -> Callable[[dict[str, Any]], None]:
    """In a document whose checksum fits again."""

    def edit(document: dict[str, Any]) -> None:
        content = json.loads(gzip.decompress(base64.b64decode(document["content"])))
        change(content)
        document["content"] = base64.b64encode(gzip.compress(json.dumps(content).encode())).decode()
        document["checksum"] = backup._checksum(document)

    return edit


DAMAGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "cut off": lambda document: document.update(content=document["content"][:-40]),
    "another format": lambda document: document.update(format="other"),
    "a newer version": lambda document: document.update(version=2),
    "no seal": lambda document: document.pop("sealed"),
    "something more": lambda document: document.update(more=1),
    "another nonce": lambda document: document["sealed"].update(nonce=base64.b64encode(bytes(12)).decode()),
    "no nonce": lambda document: document["sealed"].update(nonce=""),
    "odd base64": lambda document: document["sealed"].update(data="*"),
    "changed by who has no passphrase": changed_content(lambda content: content["users"][0].update(role="admin")),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_is_damaged_is_refused_whole(damage: str, shared: Appliance) -> None:
    document, before = back_up(shared), tables(shared)
    DAMAGED[damage](document)
    body = {"backup": json.dumps(document), "passphrase": PASSPHRASE, "dry_run": False}
    answer = shared.request("POST", "/configuration/restore", body)
    assert answer.status_code == 422 and answer.json is not None, answer.text
    assert answer.json["errors"][0]["field"] in ("backup", "passphrase") and tables(shared) == before


@pytest.mark.parametrize("wrong", ["", "[]", "{}", "[" * 100_000, "no JSON", '{"format": 1}'])
def test_what_is_no_backup(wrong: str, shared: Appliance) -> None:
    body = {"backup": wrong, "passphrase": PASSPHRASE, "dry_run": False}
    answer = shared.request("POST", "/configuration/restore", body)
    assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "backup"


def test_another_passphrase(shared: Appliance) -> None:
    body = {"backup": json.dumps(back_up(shared)), "passphrase": "another passphrase", "dry_run": False}
    answer = shared.request("POST", "/configuration/restore", body)
    assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "passphrase"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """One with something of each kind."""
    with running(tmp_path_factory.mktemp("full") / "appliance") as one:
        made(one)
        yield one


WRONG: dict[str, Callable[[Any], None]] = {
    "an unknown group": lambda content: content["hosts"][0].update(group_id="absent"),
    "a group twice": lambda content: content["presentations"][0]["groups"].append(content["presentations"][0]["groups"][0]),
    "a name twice": lambda content: content["hosts"][1].update(name=content["hosts"][0]["name"]),
    "an initiator twice": lambda content: content["hosts"][1].update(iqns=content["hosts"][0]["iqns"]),
    "no iSCSI name": lambda content: content["hosts"][0].update(iqns=["esx"]),
    "no address": lambda content: content["hosts"][0].update(addresses=["here"]),
    "a number of no LUN": lambda content: content["presentations"][0].update(lun=5000),
    "an unknown role": lambda content: content["users"][0].update(role="king"),
    "an unknown field": lambda content: content["users"][0].update(more=1),
    "a user without a password": lambda content: content["users"][0].update(id="absent"),
    "no certificate": lambda content: content["receivers"][0].update(certificate="no PEM"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused_whole(what: str, full: Appliance) -> None:
    """Sealed by who has the passphrase, so that nothing but the check of the content is in the way."""
    with full.store.reading() as session:
        content, secrets = backup.collect(session, Seal(full.configuration.secrets_key))
    document = json.loads(content.model_dump_json())
    WRONG[what](document)

    class Written:
        def model_dump_json(self) -> str:
            return json.dumps(document)

    before = tables(full)
    body = {"backup": json.dumps(backup.write(Written(), secrets, PASSPHRASE, "0")), "passphrase": PASSPHRASE}  # type: ignore[arg-type]
    answer = full.request("POST", "/configuration/restore", {**body, "dry_run": False})
    assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "backup", answer.text
    assert tables(full) == before


def test_only_admins(shared: Appliance) -> None:
    for path in ("backup", "restore"):
        assert shared.request("POST", f"/configuration/{path}", {}, role="operator").status_code == 403


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
