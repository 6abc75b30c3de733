"""Numbers of LUNs and exports in an older copy of the database, or one that was restored, beside what lies with the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.domain import backup
from appliance.testing import GIB, Appliance
from appliance.worker.tests.test_lost_database import alerts, reconcile
from appliance.worker.tests.test_nfs_datastores import ESX, served, told
from appliance.worker.tests.test_older_database import copied_database, put_back

IQNS = ("iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2")


@pytest.fixture
def older(appliance: Appliance, tmp_path: Path) -> Callable[[], Callable[[], None]]:
    """Copies the database, and puts it back."""

    def copy() -> Callable[[], None]:
        copied_database(appliance.configuration.database, tmp_path / "older")

        def back() -> None:
            put_back(appliance, tmp_path / "older")
            reconcile(appliance)

        return back

    return copy


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
