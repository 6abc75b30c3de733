# SPDX-License-Identifier: Apache-2.0
"""Numbers of LUNs and exports in an older copy of the database, or one that was restored, beside what lies with the data."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.dataplane.target import ServedTarget, TargetUnreachableError
from appliance.dataplane.target_simulator import TargetSimulator
from appliance.domain import backup, exports, jobs
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore
from appliance.testing import GIB, Appliance
from appliance.worker.reconciling import Reconciling
from appliance.worker.tests.test_files import until
from appliance.worker.tests.test_jobs_under_way import begin
from appliance.worker.tests.test_lost_database import alerts, reconcile
from appliance.worker.tests.test_nfs_datastores import ESX, served, told
from appliance.worker.tests.test_older_database import copied_database, put_back, waiting

IQNS = ("iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2")


@pytest.fixture
def older(appliance: Appliance, tmp_path: Path) -> Callable[[], Callable[[], None]]:
    """Copies the database, and puts it back."""

    def copy() -> Callable[[], None]:
        copied_database(appliance.configuration.database, tmp_path / "older")

        def back() -> None:
            put_back(appliance, tmp_path / "older")
            seen(appliance)
            reconcile(appliance)

        return back

    return copy


def seen(appliance: Appliance) -> None:
    """Somebody acknowledges that the database is an older copy."""
    for one in appliance.get("/alerts")["items"]:
        if one["key"].startswith("older-database:jobs:"):
            assert appliance.request("POST", f"/alerts/{one['id']}/acknowledge").status_code == 200


def luns(appliance: Appliance) -> dict[str, tuple[int, tuple[str, ...]]]:
    """What hosts see, by datastore: its number, and who sees it."""
    return {one.lun.uuid: (one.lun.number, one.lun.initiators or ()) for one in appliance.target.targets()[0].luns}


def kept(appliance: Appliance, store: str, name: str = "zvaai:lun") -> str:
    """With its data."""
    return appliance.simulator.properties(told(appliance, store)["dataset"])[name].value


def test_two_that_have_changed_places_since_stay_where_hosts_see_them(
    appliance: Appliance, older: Callable[[], Callable[[], None]]
) -> None:
    groups = [[appliance.group(f"cluster{iqn[-1]}", iqn)] for iqn in IQNS]
    first, second = (appliance.datastore(f"ds{lun}", lun=lun, host_groups=own) for lun, own in zip((5, 7), groups, strict=True))
    back = older()
    for store, lun in ((first, 9), (second, 5), (first, 7)):
        appliance.job("PATCH", f"/datastores/{store}", {"lun": lun})
    before = luns(appliance)
    assert before == {first: (7, IQNS[:1]), second: (5, IQNS[1:])}
    back()
    assert luns(appliance) == before
    assert [told(appliance, store)["lun"] for store in (first, second)] == [7, 5]
    assert alerts(appliance) == {}


def test_a_new_one_keeps_a_number_that_was_anothers_then(appliance: Appliance, older: Callable[[], Callable[[], None]]) -> None:
    first = appliance.datastore("first", lun=5)
    back = older()
    appliance.job("PATCH", f"/datastores/{first}", {"lun": 7})
    second = appliance.datastore("second", lun=5, host_groups=[appliance.group("cluster", IQNS[0])])
    before = luns(appliance)
    back()
    assert luns(appliance) == before == {first: (7, ()), second: (5, IQNS[:1])}
    assert set(alerts(appliance)) == {second}, "that the database did not know who sees it"


def test_one_that_was_deleted_since_is_in_nobodys_way(appliance: Appliance, older: Callable[[], Callable[[], None]]) -> None:
    first, mounted = appliance.datastore("first", lun=5), appliance.nfs_datastore("mounted", clients=[ESX])
    back = older()
    for store in (first, mounted):
        appliance.job("DELETE", f"/datastores/{store}")
    second, other = appliance.datastore("second", lun=5), appliance.nfs_datastore("other", clients=[ESX])
    before, exported = luns(appliance), served(appliance)
    assert before[second][0] == 5 and told(appliance, other)["export"] == 1
    back()
    assert luns(appliance) == before and served(appliance) == exported
    assert {told(appliance, store)["state"] for store in (first, mounted)} == {"deleted"}


def test_what_is_mounted_keeps_number_and_path(appliance: Appliance, older: Callable[[], Callable[[], None]]) -> None:
    first = appliance.nfs_datastore("files", clients=[ESX])
    back = older()
    appliance.job("DELETE", f"/datastores/{first}")
    second = appliance.nfs_datastore("files", clients=[ESX])
    appliance.job("POST", f"/datastores/{first}/restore", {"name": "other", "clients": [ESX]})
    before = served(appliance)
    assert [told(appliance, store)["share"] for store in (second, first)] == ["/files", "/other"] and len(before) == 2
    back()
    assert served(appliance) == before
    assert [told(appliance, store)["share"] for store in (second, first)] == ["/files", "/other"]


def test_one_that_hosts_do_not_see_gives_way(appliance: Appliance, older: Callable[[], Callable[[], None]]) -> None:
    """As of a pool that was carried elsewhere and comes back with the older database."""
    first = appliance.datastore("first", lun=5)
    back = older()
    appliance.job("PATCH", f"/datastores/{first}", {"lun": 6})
    second = appliance.datastore("second", lun=5, host_groups=[appliance.group("cluster", IQNS[0])])
    dataset = told(appliance, first)["dataset"]
    appliance.service.stop()
    appliance.simulator.set_properties(dataset, {"zvaai:lun": "5"})
    appliance.target.delete_lun(appliance.configuration.target.name, 6)
    back()
    assert luns(appliance)[second] == (5, IQNS[:1]) and luns(appliance)[first][0] == told(appliance, first)["lun"] != 5
    assert "LUN 5" in alerts(appliance)[first]
    reconcile(appliance)
    assert kept(appliance, first) == str(told(appliance, first)["lun"])
    appliance.job("PATCH", f"/datastores/{first}", {"lun": 9})
    assert set(alerts(appliance)) == {second}


def test_what_is_missing_keeps_its_number_and_the_lun_stays_with_hosts(
    appliance: Appliance, older: Callable[[], Callable[[], None]]
) -> None:
    first = appliance.datastore("first", lun=5, host_groups=[appliance.group("cluster", IQNS[0])])
    lost = appliance.datastore("lost", lun=7)
    back = older()
    appliance.job("DELETE", f"/datastores/{lost}")
    appliance.job("POST", f"/datastores/{lost}/purge")
    appliance.job("PATCH", f"/datastores/{first}", {"lun": 7})
    back()
    assert luns(appliance) == {first: (7, IQNS[:1])} and lost in alerts(appliance)[first]
    appliance.job("POST", f"/datastores/{lost}/forget")
    assert luns(appliance) == {first: (7, IQNS[:1])} and told(appliance, first)["lun"] == 7


def test_a_restored_backup_says_what_lies_with_the_data(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_SCRYPT_N", 1 << 4)
    store, mounted = appliance.datastore("first", lun=7), appliance.nfs_datastore("mounted")
    passphrase = "long enough for it"
    document = appliance.request("POST", "/configuration/backup", {"passphrase": passphrase}).json
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    assert kept(appliance, store) == "8"
    appliance.simulator.set_properties(told(appliance, mounted)["dataset"], {"zvaai:share": "/elsewhere", "zvaai:export": "77"})
    asked: dict[str, Any] = {"backup": json.dumps(document), "passphrase": passphrase, "dry_run": False}
    assert appliance.request("POST", "/configuration/restore", asked).status_code == 200
    reconcile(appliance)
    assert luns(appliance)[store][0] == 7 and kept(appliance, store) == "7"
    assert [kept(appliance, mounted, f"zvaai:{name}") for name in ("share", "export")] == ["/mounted", "1"]
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    reconcile(appliance)
    assert luns(appliance)[store][0] == 8 and kept(appliance, store) == "8"


def test_what_is_restored_once_more_during_a_round_counts(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, backed_up: Callable[[], Callable[..., None]]
) -> None:
    store = appliance.datastore("first", lun=7)
    first = backed_up()
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 9})
    later = [backed_up()]
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    really = appliance.simulator.set_properties

    def restored_meanwhile(name: str, properties: Mapping[str, str], **more: Any) -> None:
        if properties.get("zvaai:lun") == "7" and later:
            later.pop()(reconciled=False)
        really(name, properties, **more)

    monkeypatch.setattr(appliance.simulator, "set_properties", restored_meanwhile)
    first()
    assert not later
    assert luns(appliance)[store][0] == 9 and kept(appliance, store) == "9"


def test_a_number_that_was_taken_when_its_pool_came_is_kept_with_it(appliance: Appliance) -> None:
    appliance.datastore("first", lun=0)
    properties = {"zvaai:uuid": "00000000-0000-4000-8000-000000000007", "zvaai:name": "found", "zvaai:lun": "0"}
    found = appliance.simulator.create_volume("tank/found", GIB, properties=properties)
    appliance.simulator.set_properties("tank/found", {"zvaai:guid": str(found.guid)})
    reconcile(appliance)
    store = properties["zvaai:uuid"]
    assert told(appliance, store)["lun"] == 1
    reconcile(appliance)
    assert kept(appliance, store) == "1"


@pytest.fixture
def older_with_job(appliance: Appliance, tmp_path: Path) -> Callable[[str], Callable[[], Callable[[], None]]]:
    """Copies the database with a job under way about a datastore; puts it back while the worker runs none; ends the job."""

    def copy(store: str) -> Callable[[], Callable[[], None]]:
        appliance.service.executor.stop()
        with appliance.store.session() as session:
            job = jobs.submit(
                session, str(uuid.uuid4()), "datastore.grow", jobs.Plan(subject=store, pools=(), uuid=store), "admin"
            ).id
        copied_database(appliance.configuration.database, tmp_path / "older")
        with appliance.store.session() as session:
            jobs.end(session, job, jobs.CANCELLED)
        appliance.restart_worker()

        def back() -> Callable[[], None]:
            appliance.service.executor.stop()
            copied_database(tmp_path / "older", appliance.configuration.database)
            reconcile(appliance)

            def end() -> None:
                with appliance.store.session() as session:
                    jobs.end(session, job, jobs.FAILED)
                reconcile(appliance)

            return end

        return back

    return copy


def test_what_a_job_of_then_is_about_stays_as_hosts_see_it(
    appliance: Appliance, older_with_job: Callable[[str], Callable[[], Callable[[], None]]]
) -> None:
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQNS[0])])
    back = older_with_job(store)
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 5})
    before = luns(appliance)
    end = back()
    assert luns(appliance) == before == {store: (5, IQNS[:1])} and kept(appliance, store) == "5"
    end()
    assert luns(appliance) == before and told(appliance, store)["lun"] == 5 and kept(appliance, store) == "5"
    assert alerts(appliance) == {}


def test_what_a_job_of_then_is_about_stays_mounted(
    appliance: Appliance, older_with_job: Callable[[str], Callable[[], Callable[[], None]]]
) -> None:
    first = appliance.nfs_datastore("files", clients=[ESX], thick=True)
    back = older_with_job(first)
    appliance.job("DELETE", f"/datastores/{first}")
    second = appliance.nfs_datastore("files", clients=[ESX])
    appliance.job("POST", f"/datastores/{first}/restore", {"name": "other", "clients": [ESX]})
    before = served(appliance)
    end = back()
    assert served(appliance) == before and kept(appliance, first, "zvaai:share") == "/other"
    assert reconcile(appliance)["failures"] == [], "what the second one's files are promised is not the first one's"
    end()
    assert served(appliance) == before
    assert [told(appliance, store)["share"] for store in (second, first)] == ["/files", "/other"]


def test_what_is_mounted_stays_where_what_is_missing_has_its_number(
    appliance: Appliance, older: Callable[[], Callable[[], None]]
) -> None:
    first, lost = (appliance.nfs_datastore(name, clients=[ESX]) for name in ("files", "lost"))
    back = older()
    for store in (first, lost):
        appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{lost}/purge")
    second = appliance.nfs_datastore("files", clients=[ESX])
    appliance.job("POST", f"/datastores/{first}/restore", {"name": "other", "clients": [ESX]})
    before = served(appliance)
    assert [told(appliance, store)["export"] for store in (second, first)] == [1, 2]
    back()
    assert served(appliance) == before and kept(appliance, first, "zvaai:export") == "2"
    assert "export 2" in alerts(appliance)[first] and f"missing-{lost[:8]}" in alerts(appliance)[first]
    reconcile(appliance)
    assert first in alerts(appliance)
    appliance.job("POST", f"/datastores/{lost}/forget")
    reconcile(appliance)
    assert served(appliance) == before and first not in alerts(appliance)
    assert [told(appliance, store)["export"] for store in (second, first)] == [1, 2]


def test_a_target_that_comes_up_during_the_round_keeps_its_numbers(
    appliance: Appliance, older: Callable[[], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQNS[0])])
    back = older()
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 5})
    before, really, away = luns(appliance), TargetSimulator.targets, [True, True]

    def targets(self: TargetSimulator) -> list[ServedTarget]:
        if away:
            away.pop()
            raise TargetUnreachableError("it does not answer yet")
        return really(self)

    monkeypatch.setattr(TargetSimulator, "targets", targets)
    back()  # a round at the start, and another one
    assert not away and luns(appliance) == before == {store: (5, IQNS[:1])} and kept(appliance, store) == "5"
    reconcile(appliance)
    assert luns(appliance) == before and told(appliance, store)["lun"] == 5


def test_one_in_the_way_that_a_job_is_about_takes_nobodys_hosts(
    appliance: Appliance, older_with_job: Callable[[str], Callable[[], Callable[[], None]]]
) -> None:
    groups = [[appliance.group(f"cluster{iqn[-1]}", iqn)] for iqn in IQNS]
    first, second = (appliance.datastore(f"ds{lun}", lun=lun, host_groups=own) for lun, own in zip((5, 7), groups, strict=True))
    back = older_with_job(first)
    for store, lun in ((first, 9), (second, 5)):
        appliance.job("PATCH", f"/datastores/{store}", {"lun": lun})
    before = luns(appliance)
    end = back()
    assert luns(appliance) == before == {first: (9, IQNS[:1]), second: (5, IQNS[1:])}
    assert told(appliance, second)["host_groups"] == groups[1]
    end()
    assert luns(appliance) == before and [told(appliance, store)["lun"] for store in (first, second)] == [9, 5]
    assert [told(appliance, store)["host_groups"] for store in (first, second)] == groups and alerts(appliance) == {}


def test_one_that_hosts_do_not_see_and_can_not_be_followed_gives_way(
    appliance: Appliance, older: Callable[[], Callable[[], None]]
) -> None:
    group = [appliance.group("cluster", IQNS[0])]
    lost, unseen = appliance.datastore("lost", lun=4), appliance.datastore("unseen", lun=3)
    seen = appliance.datastore("seen", lun=6, host_groups=group)
    back = older()
    appliance.job("DELETE", f"/datastores/{lost}")
    appliance.job("POST", f"/datastores/{lost}/purge")
    for store, lun in ((unseen, 4), (seen, 3)):
        appliance.job("PATCH", f"/datastores/{store}", {"lun": lun})
    appliance.service.stop()
    appliance.target.delete_lun(appliance.configuration.target.name, 4)
    back()
    assert told(appliance, seen)["host_groups"] == group and luns(appliance)[seen] == (3, IQNS[:1])
    assert told(appliance, seen)["lun"] == 3 and "LUN 3" in alerts(appliance)[unseen]
    assert luns(appliance)[unseen][0] == told(appliance, unseen)["lun"] not in (3, 4)


def test_where_all_three_differ_it_is_as_hosts_see_it(appliance: Appliance, older: Callable[[], Callable[[], None]]) -> None:
    """As after a change of then that was cut off between what lies with the data and the database."""
    store, unseen = (appliance.datastore(name, lun=lun) for name, lun in (("first", 7), ("unseen", 8)))
    back = older()
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 5})
    appliance.service.stop()
    for one, lun in ((store, 9), (unseen, 11)):
        appliance.simulator.set_properties(told(appliance, one)["dataset"], {"zvaai:lun": str(lun)})
    appliance.target.delete_lun(appliance.configuration.target.name, 8)
    back()
    assert luns(appliance) == {store: (5, ()), unseen: (11, ())}
    assert [told(appliance, one)["lun"] for one in (store, unseen)] == [5, 11]
    followed = {one["subject"]: one["text"] for one in appliance.get("/alerts?open=false")["items"]}
    assert "LUN 5 to hosts" in followed[store] and "LUN 11 by what lies with its data" in followed[unseen]
    reconcile(appliance)
    assert kept(appliance, store) == "5"


@pytest.fixture
def backed_up(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Callable[..., None]]:
    """Has a backup of the configuration made; restores it."""
    monkeypatch.setattr(backup, "_SCRYPT_N", 1 << 4)
    passphrase = "long enough for it"

    def make() -> Callable[..., None]:
        document = appliance.request("POST", "/configuration/backup", {"passphrase": passphrase}).json
        asked: dict[str, Any] = {"backup": json.dumps(document), "passphrase": passphrase, "dry_run": False}

        def restore(*, reconciled: bool = True) -> None:
            assert appliance.request("POST", "/configuration/restore", asked).status_code == 200
            for _ in range(2 if reconciled else 0):
                reconcile(appliance)

        return restore

    return make


def test_what_a_backup_has_of_one_that_is_put_aside_is_for_its_return(
    appliance: Appliance, backed_up: Callable[[], Callable[[], None]]
) -> None:
    group = [appliance.group("cluster", IQNS[0])]
    store, mounted = appliance.datastore("first", lun=5, host_groups=group), appliance.nfs_datastore("files", clients=[ESX])
    restore = backed_up()
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 9})
    for one in (store, mounted):
        appliance.job("DELETE", f"/datastores/{one}")
    restore()
    assert [told(appliance, one)["state"] for one in (store, mounted)] == ["deleted"] * 2 and luns(appliance) == {}
    assert told(appliance, store)["host_groups"] == group
    assert appliance.get("/alerts?open=false")["items"] == []
    for one in (store, mounted):
        appliance.job("POST", f"/datastores/{one}/restore", {})
    assert luns(appliance)[store][0] == 5 and told(appliance, mounted)["clients"] == [ESX]


def test_what_a_backup_had_of_one_that_was_deleted_since_is_in_nobodys_way(
    appliance: Appliance, older: Callable[[], Callable[[], None]], backed_up: Callable[[], Callable[[], None]]
) -> None:
    """It was restored while the pool was away, and the copy is of that time."""
    store, mounted = appliance.datastore("first", lun=5), appliance.nfs_datastore("files", clients=[ESX])
    restore = backed_up()
    appliance.simulator.export_pool("tank")
    restore()
    back = older()
    appliance.simulator.import_pool("tank")
    for one in (store, mounted):
        appliance.job("DELETE", f"/datastores/{one}")
    second, other = appliance.datastore("second", lun=5), appliance.nfs_datastore("files", clients=[ESX])
    before, exported = luns(appliance), served(appliance)
    back()
    assert luns(appliance) == before and told(appliance, second)["lun"] == 5
    assert served(appliance) == exported and told(appliance, other)["share"] == "/files"


def test_a_restored_number_in_an_older_copy_is_older_than_what_hosts_see(
    appliance: Appliance, older: Callable[[], Callable[[], None]], backed_up: Callable[[], Callable[[], None]]
) -> None:
    """The copy is of a time when the pool was away."""
    first, mounted = appliance.datastore("first", lun=7), appliance.nfs_datastore("files", clients=[ESX])
    restore = backed_up()
    appliance.simulator.export_pool("tank")
    restore()
    back = older()
    appliance.simulator.import_pool("tank")
    reconcile(appliance)
    appliance.job("PATCH", f"/datastores/{first}", {"lun": 9})
    appliance.job("DELETE", f"/datastores/{mounted}")
    second = appliance.nfs_datastore("files", clients=[ESX])
    appliance.job("POST", f"/datastores/{mounted}/restore", {"name": "other", "clients": [ESX]})
    before, exported = luns(appliance), served(appliance)
    assert before[first][0] == 9
    back()
    assert luns(appliance) == before and told(appliance, first)["lun"] == 9
    assert served(appliance) == exported
    assert [told(appliance, store)["share"] for store in (second, mounted)] == ["/files", "/other"]


def test_a_job_that_ends_while_keys_are_loaded_is_one_of_this_round(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage is looked at again meanwhile by somebody else: what was seen before the job's end is no older database."""
    store = appliance.datastore("first", lun=5)
    really, reconciling = appliance.simulator.rename, appliance.service.context.reconciling
    unlock = Reconciling._unlock
    renamed, go_on, met = threading.Event(), threading.Event(), threading.Event()

    def rename(dataset: str, to: str) -> Any:
        done = really(dataset, to)
        renamed.set()
        assert go_on.wait(60)
        return done

    def ended() -> bool:
        with appliance.store.reading() as session:
            return not jobs.active(session)

    def ends_meanwhile(self: Reconciling, stores: list[Datastore]) -> Any:
        if not met.is_set() and renamed.is_set() and {one.state for one in stores} == {"deleted"}:
            met.set()
            go_on.set()
            until(ended)
            self._context.look()
        return unlock(self, stores)

    monkeypatch.setattr(appliance.simulator, "rename", rename)
    monkeypatch.setattr(Reconciling, "_unlock", ends_meanwhile)
    job = begin(appliance, "DELETE", f"/datastores/{store}")
    assert renamed.wait(60)
    reconciling.reconcile("test")
    assert met.is_set() and appliance.ended(job)["state"] == "succeeded"
    assert appliance.get("/alerts?open=false")["items"] == []


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_queued_jobs_number_that_is_anothers_when_it_begins_is_a_conflict(kind: str, appliance: Appliance) -> None:
    body = {"name": "first", "pool": "tank", "size": str(GIB), "kind": kind}
    job = waiting(appliance, lambda: appliance.request("POST", "/datastores", body))
    found = str(uuid.UUID(int=7))
    with appliance.store.session() as session:
        claims = jobs.plan_of(jobs.job(session, job)).claims
        if kind == "vmfs":
            domain.present(session, found, claims.lun or 0, None)
        else:
            exports.show(session, found, claims.export or 0, "/found")
    appliance.restart_worker()
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and ended["problem"]["code"] == "conflict" and found in str(ended["problem"]), ended
    assert [one["id"] for one in appliance.get("/datastores")["items"]] == [found], "what it had made is taken back"
