# SPDX-License-Identifier: Apache-2.0
"""The whole appliance by its command: from the first start to a LUN that an initiator reads, drift, kills, restarts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import cdb
from support.appliance import GIB, Appliance, running_appliance
from support.programs import ProgramFailed, run, wait_for
from support.raw_initiator import Session
from support.target import Account

FIRST, SECOND = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """An appliance for all tests of this file: each uses different names."""
    with running_appliance(tmp_path_factory.mktemp("appliance") / "a") as appliance:
        for name, iqn in (("one", FIRST), ("two", SECOND)):
            appliance.cli("group", "create", name)
            appliance.cli("host", "create", f"esx {name}", "--iqn", iqn, "--group", name)
        yield appliance


def create(appliance: Appliance, name: str, *more: str) -> int:
    """Creates a datastore; returns its LUN number."""
    appliance.cli("datastore", "create", name, "--pool", "tank", "--size", "1G", "--wait", *more)
    return int(appliance.json("datastore", "show", name)["lun"])


def capacity(appliance: Appliance, lun: int, iqn: str = FIRST) -> str:
    return run("iscsi-readcapacity16", "-i", iqn, appliance.target.url(lun, appliance.iqn))


def seen(appliance: Appliance, iqn: str) -> str:
    return run("iscsi-ls", "-s", "-i", iqn, appliance.target.url())


def sees_nothing(appliance: Appliance, iqn: str) -> bool:
    """Whether a host sees no LUN. A query during the removal of a LUN gets an error."""
    try:
        return "Lun" not in seen(appliance, iqn)
    except ProgramFailed:
        return False


def run_or_nothing(*command: str) -> str:
    """Output of a program; "" if it fails."""
    try:
        return run(*command)
    except AssertionError:
        return ""


def test_a_new_datastore_is_a_lun_of_its_hosts_only(appliance: Appliance) -> None:
    lun = create(appliance, "mine", "--group", "one", "--soft-threshold", "80")
    uuid = appliance.json("datastore", "show", "mine")["uuid"]
    assert f"Lun:{lun}" in seen(appliance, FIRST)
    assert appliance.iqn not in seen(appliance, SECOND)
    serial = run("iscsi-inq", "-i", FIRST, "-e", "1", "-c", "0x80", appliance.target.url(lun, appliance.iqn))
    assert uuid.replace("-", "") in serial
    assert f"Total size:{GIB}" in capacity(appliance, lun)
    appliance.cli("datastore", "change", "mine", "--add-group", "one", "--add-group", "two", "--wait")
    assert f"Lun:{lun}" in seen(appliance, SECOND)
    appliance.cli("datastore", "grow", "mine", "2G", "--wait")
    assert f"Total size:{2 * GIB}" in capacity(appliance, lun)
    appliance.cli("datastore", "delete", "mine", "--yes", "--wait")
    assert lun not in appliance.luns()
    appliance.cli("datastore", "restore", "mine", "--group", "one", "--wait")
    assert appliance.luns()[lun] == uuid and f"Total size:{2 * GIB}" in capacity(appliance, lun)
    appliance.cli("datastore", "delete", "mine", "--yes", "--wait")
    appliance.cli("datastore", "purge", "mine", "--yes", "--wait")
    assert appliance.run("datastore", "show", "mine").returncode == 3


def test_a_logged_in_host_retains_its_disk(appliance: Appliance) -> None:
    lun = create(appliance, "used", "--group", "one")
    appliance.cli("snapshot", "create", "before", "used", "--wait")
    appliance.cli("snapshot", "hold", "used", "before", "audit", "--wait")
    assert [(hold["tag"], hold["of"]) for hold in appliance.json("snapshot", "holds", "used", "before")] == [("audit", "user")]
    held = appliance.run("snapshot", "delete", "used", "before", "--yes")
    assert held.returncode == 4 and "before (held: audit)" in held.stderr
    appliance.cli("snapshot", "release", "used", "before", "audit", "--wait")
    assert appliance.run("snapshot", "release", "used", "before", "audit").returncode == 3

    async def while_logged_in() -> None:
        async with Session(appliance.target.portal, iqn=appliance.iqn, initiator=FIRST) as session:
            for words in (["datastore", "delete", "used", "--yes"], ["snapshot", "rollback", "used", "before", "--yes"]):
                refused = await asyncio.to_thread(appliance.run, *words)
                assert refused.returncode == 4 and FIRST in refused.stderr and "--force" in refused.stderr
            sessions = await asyncio.to_thread(appliance.json, "host", "sessions")
            assert FIRST in {session["initiator"] for session in sessions}
            assert lun in appliance.luns() and await session.ping(b"still here") == b"still here"

    asyncio.run(while_logged_in())
    wait_for(lambda: not appliance.json("host", "sessions"), "the session is gone")
    appliance.cli("snapshot", "rollback", "used", "before", "--yes", "--wait")
    assert lun in appliance.luns()


def test_registrations_survive_changes_of_the_lun(appliance: Appliance) -> None:
    """A registered key must exist under the LUN's new number, and after a delete and a restore."""
    register, read_keys = 0x06, 0x00
    lun = create(appliance, "clustered", "--group", "one")
    target = {"target": appliance.iqn}

    async def registers(number: int, key: int) -> None:
        async with Session(appliance.target.portal, iqn=appliance.iqn, initiator=FIRST, lun=number) as session:
            await session.execute(cdb.inquiry(), 96)
            while (await session.execute(bytes(6))).status:  # unit attentions
                pass
            command, parameters = cdb.persistent_reserve_out(register, 0, 0, key)
            assert (await session.execute(command, 0, parameters)).status == 0
            assert key.to_bytes(8) in (await session.execute(cdb.persistent_reserve_in(read_keys), 252)).data

    def registered(number: int) -> list[str]:
        registrations = appliance.target.call("reservations.list", {**target, "number": number})["registrations"]
        return [alert["key"] for alert in registrations]

    def alone() -> None:
        wait_for(lambda: not appliance.json("host", "sessions"), "the session is gone")

    asyncio.run(registers(lun, 0x1111))
    alone()
    stored = registered(lun)
    assert len(stored) == 1
    appliance.cli("datastore", "change", "clustered", "--lun", "700", "--wait")
    assert (
        sorted(registered(700)) == sorted(stored)
        and appliance.luns()[700] == appliance.json("datastore", "show", "clustered")["uuid"]
    )
    appliance.cli("datastore", "delete", "clustered", "--yes", "--wait")
    appliance.cli("datastore", "restore", "clustered", "--group", "one", "--wait")
    assert sorted(registered(appliance.json("datastore", "show", "clustered")["lun"])) == sorted(stored)


def test_drift_is_repaired_and_reported(appliance: Appliance) -> None:
    lun = create(appliance, "drifting", "--group", "one")
    uuid = appliance.luns()[lun]
    target = {"target": appliance.iqn}
    appliance.target.call("luns.delete", {**target, "number": lun})
    wait_for(lambda: appliance.luns().get(lun) == uuid, "the LUN is back")

    def served() -> dict[str, Any]:
        luns = appliance.target.call("luns.list", target)["luns"]
        return next(dict(row) for row in luns if row["number"] == lun)

    before = served()
    for by_hand in ({"read_only": True}, {"soft_threshold": {"percent": 7}}):
        appliance.target.call("luns.change", {**target, "number": lun, **by_hand})
        wait_for(lambda: served() == before, "it is mended")
    appliance.target.call("access.set", {**target, "number": lun, "initiators": [FIRST, SECOND]})
    wait_for(lambda: sees_nothing(appliance, SECOND), "who should not see it does not")
    foreign = appliance.directory / "foreign"
    foreign.write_bytes(b"")
    os.truncate(foreign, 1 << 20)
    appliance.target.call(
        "luns.create", {**target, "lun": {"number": 900, "uuid": "1" * 8 + "-0000-4000-8000-000000000000", "path": str(foreign)}}
    )
    wait_for(lambda: 900 not in appliance.luns(), "what should not be served is not")
    assert appliance.cli("reconcile") == ""


def test_the_target_serves_without_the_appliance_and_the_appliance_returns(appliance: Appliance) -> None:
    lun = create(appliance, "lasting", "--group", "one")
    appliance.worker.kill()
    appliance.api.kill()
    assert f"Total size:{GIB}" in capacity(appliance, lun)
    appliance.api.start()
    wait_for(lambda: "the worker does not answer" in appliance.run("status").stderr, "the HTTP process says what is missing")
    assert appliance.run("datastore", "list").returncode == 6
    appliance.worker.start()
    wait_for(lambda: appliance.run("status").returncode in (0, 1), "the worker is back")
    appliance.target.kill()
    wait_for(lambda: appliance.json("status")["reconcile_problem"] is not None, "it is seen that the target is gone")
    appliance.target.start()
    wait_for(lambda: lun in appliance.luns(), "the LUN is back")
    wait_for(lambda: appliance.json("status")["reconcile_problem"] is None, "all is well")
    wait_for(
        lambda: not [
            alert for alert in appliance.json("alert", "list") if alert["key"].startswith(("reconcile:", "unavailable:"))
        ],
        "the alert is cleared",
    )


def test_chap_holds_from_the_next_login_on(appliance: Appliance) -> None:
    create(appliance, "proven", "--group", "one")
    appliance.cli("host", "chap", "esx one", "--name", "esx1", text="a-good-long-secret\n")
    appliance.cli("iscsi", "change", "--chap")
    wait_for(lambda: appliance.target.call("targets.list")["targets"][0]["accounts"]["required"], "CHAP is required")
    url = appliance.target.url(appliance.json("datastore", "show", "proven")["lun"], appliance.iqn)
    with pytest.raises(AssertionError):
        run("iscsi-inq", "-i", FIRST, url)
    number = appliance.json("datastore", "show", "proven")["lun"]
    right = appliance.target.url(number, appliance.iqn, Account("esx1", "a-good-long-secret"))
    # Accounts follow: until then no host can log in.
    wait_for(lambda: "ZVAAI" in run_or_nothing("iscsi-inq", "-i", FIRST, right), "who proves itself gets in")
    checks = {(check["id"], check["result"]) for check in appliance.json("readiness")["checks"]}
    assert ("chap", "failed") in checks  # the other host has no secret
    # A host with two names: both may use its account; no other host may, even with the secret.
    appliance.cli("host", "change", "esx one", "--add-iqn", f"{FIRST}-second", "--add-address", "192.0.2.11")
    (changed,) = [host for host in appliance.json("host", "list") if host["name"] == "esx one"]
    assert changed["iqns"] == [FIRST, f"{FIRST}-second"] and changed["addresses"] == ["192.0.2.11"]
    wait_for(lambda: "ZVAAI" in (run_or_nothing("iscsi-inq", "-i", f"{FIRST}-second", right)), "its second name gets in")
    assert "ZVAAI" in run("iscsi-inq", "-i", FIRST, right)
    appliance.cli("datastore", "change", "proven", "--add-group", "one", "--add-group", "two", "--wait")
    with pytest.raises(AssertionError):
        run("iscsi-inq", "-i", SECOND, right)
    appliance.cli("iscsi", "change", "--no-chap")
    wait_for(lambda: not appliance.target.call("targets.list")["targets"][0]["accounts"]["required"], "CHAP is not required")
    assert "a-good-long" not in appliance.json("host", "list").__repr__() + appliance.logs()


def test_a_wrong_password_ends_no_session(appliance: Appliance) -> None:
    stored = (appliance.directory / "zvaai" / "cli.json").read_bytes()
    words = ("login", "https://127.0.0.1:8443", "--fingerprint", appliance.frontend.fingerprint)
    assert appliance.run(*words, text="a wrong password").returncode == 5
    assert (appliance.directory / "zvaai" / "cli.json").read_bytes() == stored
    assert appliance.run("pool", "list").returncode == 0


def test_exit_codes(appliance: Appliance) -> None:
    for words, code in (
        (["datastore", "show", "absent"], 3),
        (["datastore", "create", "a/b", "--pool", "tank", "--size", "1G"], 7),
        (["datastore", "create", "tiny", "--pool", "tank", "--size", "1M"], 7),
        (["datastore", "create", "odd", "--pool", "tank", "--size", "1 apple"], 7),
        (["--token", "zvaai_none", "pool", "list"], 5),
        (["--url", "https://127.0.0.1:1", "pool", "list"], 6),
        (["datastore", "fly"], 2),
        (["--output", "xml", "status"], 2),
    ):
        assert appliance.run(*words).returncode == code, words
    for words, code in ((["datastore", "show", "absent"], 3), (["pool", "list"], 0)):
        done = appliance.process(*words)
        assert done.returncode == code and "Traceback" not in done.stderr, done


def test_another_certificate_is_not_believed(appliance: Appliance, tmp_path: Path) -> None:
    other = run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(tmp_path / "key"), "-subj", "/CN=localhost"
    )
    (tmp_path / "other.pem").write_text(other[other.index("-----BEGIN CERT") :])
    assert appliance.run("--certificate", str(tmp_path / "other.pem"), "pool", "list").returncode == 6
    wrong = appliance.run("login", "https://127.0.0.1:8443", "--fingerprint", "00" * 32, text="x")
    assert wrong.returncode == 5
