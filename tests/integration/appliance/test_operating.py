# SPDX-License-Identifier: Apache-2.0
"""Operation with the real processes: metrics follow the load, alerts reach their receiver."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import parser
from support import cdb
from support.appliance import PASSWORD, PORT, Appliance, Process, running_appliance
from support.programs import wait_for
from support.raw_initiator import Session
from support.third_party_copy import Segment, extended_copy, naa_of, parameter_list

from appliance.notify.tests.web_server import receiver

ESX = "iqn.1998-01.com.vmware:esx1"
BLOCKS = 4096
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """An appliance for all tests of this file."""
    with running_appliance(tmp_path_factory.mktemp("appliance") / "a", simulating_helper=True) as appliance:
        disks = [disk["path"] for disk in appliance.json("pool", "disks")][:2]
        appliance.cli("pool", "create", "tank", "mirror", *disks, "--wait")
        appliance.cli("group", "create", "cluster")
        appliance.cli("host", "create", "esx", "--iqn", ESX, "--group", "cluster")
        for name in ("first", "second"):
            appliance.cli("datastore", "create", name, "--pool", "tank", "--size", "1G", "--group", "cluster", "--wait")
        yield appliance


def scrape(appliance: Appliance) -> Samples:
    """Reads the metrics as Prometheus does, with a viewer's token."""
    stored = json.loads((appliance.directory / "zvaai" / "cli.json").read_text())
    answer = httpx.get(
        f"https://127.0.0.1:{PORT}/api/v1/metrics",
        headers={"Authorization": f"Bearer {stored['token']}"},
        verify=False,
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    families = parser.text_string_to_metric_families(answer.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples
    }  # fmt: skip


def grown(before: Samples, after: Samples, name: str, /, **labels: str) -> float:
    """Growth of the sample with these labels."""
    keys = [key for key in after if key[0] == name and labels.items() <= dict(key[1]).items()]
    assert len(keys) == 1, (name, labels, keys)
    return after[keys[0]] - before.get(keys[0], 0)


def test_numbers_follow_the_work(appliance: Appliance) -> None:
    """A write, a read and an EXTENDED COPY between LUNs count as that many operations and bytes, by LUN and host."""
    luns = {name: int(appliance.json("datastore", "show", name)["lun"]) for name in ("first", "second")}
    data = bytes(range(256)) * 2 * BLOCKS

    async def works() -> None:
        async with Session(appliance.target.portal, iqn=appliance.iqn, initiator=ESX) as session:
            for lun in luns.values():
                while (await session.execute(bytes(6), lun=lun)).status:
                    pass
            for at in range(0, BLOCKS, 512):
                part = data[at * 512 : (at + 512) * 512]
                assert (await session.execute(cdb.write(at, 512), 0, part, lun=luns["first"])).status == 0
            naas = [await naa_of(session, lun) for lun in luns.values()]
            parameters = parameter_list(naas, [Segment(0, 1, BLOCKS, 0, 0)])
            answer = await session.execute(extended_copy(parameters), 0, parameters, lun=luns["second"])
            assert answer.status == 0, answer
            assert (await session.execute(cdb.read(0, 512), 512 * 512, lun=luns["second"])).data == data[: 512 * 512]

    before = scrape(appliance)
    asyncio.run(works())
    after = scrape(appliance)
    for labels in ({"name": "first"}, {"initiator": ESX}):
        kind = "lun" if "name" in labels else "host"
        assert grown(before, after, f"zvaai_{kind}_operations_total", operation="write", **labels) == BLOCKS / 512
        assert grown(before, after, f"zvaai_{kind}_bytes_total", operation="write", **labels) == len(data)
    assert grown(before, after, "zvaai_lun_operations_total", operation="extended_copy", name="second") == 1
    offloaded = sum(
        grown(before, after, "zvaai_lun_offloaded_bytes_total", kind=kind, name="second") for kind in ("cloned", "copied")
    )
    assert offloaded == len(data)
    copied = grown(before, after, "zvaai_lun_offloaded_bytes_total", kind="copied", name="second")
    reasons = [key for key in after if key[0] == "zvaai_lun_fallback_bytes_total" and ("name", "second") in key[1]]
    assert sum(after[key] - before.get(key, 0) for key in reasons) == copied, "each copied byte has its reason"
    counted = "zvaai_lun_operation_duration_seconds_count"
    assert grown(before, after, counted, operation="write", name="first") == BLOCKS / 512
    whole = "zvaai_lun_operation_duration_seconds_bucket"
    assert grown(before, after, whole, operation="write", name="first", le="+Inf") == BLOCKS / 512
    assert grown(before, after, "zvaai_lun_operation_duration_seconds_sum", operation="write", name="first") > 0


def test_an_alert_reaches_its_receiver_whatever_dies(appliance: Appliance, tmp_path: Path) -> None:
    """While the receiver is down, the senders are killed. Later the receiver gets the alert, and then its end."""
    with receiver(tmp_path, tls=True) as endpoint:
        (tmp_path / "pem").write_text(endpoint.pem)
        made = appliance.json("receiver", "create", "pager", endpoint.url, "--certificate", str(tmp_path / "pem"))
        assert made["secret"].startswith("whsec_")
        assert appliance.json("receiver", "test", "pager")["state"] == "delivered"
        endpoint.answer = 503
        assert appliance.run("receiver", "test", "pager").returncode == 1
        endpoint.received.clear()
        appliance.target.kill()
        wait_for(lambda: bool(endpoint.received), "it was tried")
        appliance.api.kill()
        appliance.worker.kill()
        tried = len(endpoint.received)
        endpoint.answer = 200
        appliance.worker.start()
        appliance.api.start()
        wait_for(lambda: len(endpoint.received) > tried, "it is tried again")
        first = {json.loads(body)["type"] for _, body in endpoint.received}
        assert first == {"alert.raised"}
        assert len({headers["webhook-id"] for headers, _ in endpoint.received[: tried + 1]}) == 1, "the same thing each time"
        appliance.target.start()
        wait_for(
            lambda: any(json.loads(body)["type"] == "alert.cleared" for _, body in endpoint.received),
            "the receiver gets the end of the alert",
        )
        wait_for(lambda: appliance.run("status").returncode in (0, 1), "the worker answers")

        def states() -> list[str]:
            return [delivery["state"] for delivery in appliance.json("receiver", "deliveries", "pager")]

        wait_for(lambda: "pending" not in states(), "what was answered is written down")
        assert appliance.json("receiver", "list")[0]["last_delivery"]["state"] == "delivered"
        assert states().count("delivered") >= 3
        appliance.cli("receiver", "delete", "pager", "--yes")
    assert made["secret"] not in appliance.logs()


def test_the_configuration_is_restored(appliance: Appliance, tmp_path: Path) -> None:
    """By the command: after the restore a deleted host sees its LUN again."""
    file = tmp_path / "site.json"
    lun = int(appliance.json("datastore", "show", "first")["lun"])
    appliance.cli("configuration", "backup", str(file), text=f"{PASSWORD}\n")
    assert file.stat().st_mode & 0o077 == 0
    appliance.cli("host", "delete", "esx", "--yes")
    appliance.cli("group", "create", "newer")
    output = appliance.cli("recover", "--file", str(file), "--dry-run")
    assert "host esx: added" in output and "host group newer: removed" in output and "nothing was changed" in output
    assert not appliance.json("host", "list")
    words = ("recover", "--file", str(file), "--yes")
    wrong = appliance.run(*words, "--recovery-key", text="AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA\n")
    assert wrong.returncode == 7 and "not the recovery key" in wrong.stderr, wrong
    appliance.cli(*words)

    def sees() -> list[str]:
        lists = appliance.target.call("luns.list", {"target": appliance.iqn})["luns"]
        return [iqn for item in lists if item["number"] == lun for iqn in item["initiators"]]

    wait_for(lambda: sees() == [ESX], "the host sees its LUN again")
    assert [group["name"] for group in appliance.json("group", "list")] == ["cluster"]


def test_a_request_is_followed_through_all_processes(appliance: Appliance) -> None:
    """The request identifier is in the logs of API and worker, the job's in the helper's."""
    stored = json.loads((appliance.directory / "zvaai" / "cli.json").read_text())
    headers = {"Authorization": f"Bearer {stored['token']}", "X-Request-Id": "followed-0123456789"}
    body = {"name": "followed", "pool": "tank", "size": str(1 << 30)}
    url = f"https://127.0.0.1:{PORT}/api/v1/datastores"
    answer = httpx.post(url, headers=headers, json=body, verify=False, timeout=30)
    assert answer.status_code == 202 and answer.headers["X-Request-Id"] == "followed-0123456789"
    job = answer.json()["id"]
    appliance.cli("job", "wait", job)

    def messages(process: Process | None, request: str) -> list[str]:
        assert process is not None
        lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
        return [line["message"] for line in lines if line.get("request") == request]

    assert any("POST" in message for message in messages(appliance.api, "followed-0123456789"))
    assert any(job in message for message in messages(appliance.worker, "followed-0123456789"))
    assert any("succeeded" in message for message in messages(appliance.worker, f"job-{job}"))
    audit = [json.loads(message) for message in messages(appliance.helper, f"job-{job}") if '"audit"' in message]
    assert "create_volume" in {entry["operation"] for entry in audit if entry["audit"] == "begun"}


def test_a_support_bundle(appliance: Appliance, tmp_path: Path) -> None:
    """Complete, for the user alone, and without the token."""
    stored = json.loads((appliance.directory / "zvaai" / "cli.json").read_text())
    file = tmp_path / "bundle.tar.gz"
    appliance.cli("support", "create", str(file))
    assert file.stat().st_mode & 0o077 == 0
    with tarfile.open(file) as archive:
        members = {name: archive.extractfile(name) for name in archive.getnames()}
        texts = {name.removeprefix("zvaai-support/"): member.read().decode() for name, member in members.items() if member}
    assert {"versions.json", "jobs.jsonl", "logs/zvaai-target.jsonl"} <= texts.keys()
    assert stored["token"] not in "".join(texts.values())
    assert len(appliance.json("support", "list")) == 1
