# SPDX-License-Identifier: Apache-2.0
"""The support bundle: all data without secrets, wherever they are stored."""

import base64
import io
import json
import tarfile
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import PASSWORD, Appliance
from support import journal
from support.journal import entry

from appliance.dataplane.target import TargetUnreachableError
from appliance.domain import support as files
from appliance.domain.secrets import Seal
from appliance.worker import server_log, support
from appliance.worker.support import Redaction
from appliance.zfs.errors import EngineUnavailable, Timeout
from appliance.zfs.model import DiskHealth, VdevSpec

ESX = "iqn.1998-01.com.vmware:esx1"
CHAP_SECRET = 'a "quoted" secret'


AT = 1_795_000_000.0


@pytest.fixture(autouse=True)
def journal_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the journal that the worker reads, with an entry."""
    folder = tmp_path / "journal"
    folder.mkdir()
    monkeypatch.setattr(server_log, "COMMAND", [*server_log.COMMAND, f"--directory={folder}"])
    write_log(folder, "zvaai-target", "started")
    return folder


def write_log(folder: Path, unit: str, *messages: str) -> None:
    fields = {"_SYSTEMD_UNIT": f"{unit}.service", "_TRANSPORT": "stdout"}
    journal.write(folder, [entry(AT + place, message, **fields) for place, message in enumerate(messages)])


def log_of(content: dict[str, str], unit: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content[f"logs/{unit}.jsonl"].splitlines()]


def bundle(appliance: Appliance) -> dict[str, str]:
    """Content of a new bundle, by name."""
    made = appliance.job("POST", "/support-bundles")["result"]["bundle"]
    answer = appliance.request("GET", f"/support-bundles/{made}")
    assert answer.status_code == 200 and answer.content_type == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name.removeprefix("zvaai-support/"): file.read().decode() for name, file in members.items() if file is not None}


def test_content_of_the_bundle(appliance: Appliance) -> None:
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)])
    appliance.simulator.offline("tank", appliance.simulator.disks()[0].path)
    appliance.service.context.scan()
    appliance.service.watch.pools()
    content = bundle(appliance)
    assert json.loads(content["versions.json"])["appliance"]
    assert json.loads(content["pools.json"])[0]["health"] == "DEGRADED"
    assert all(word in content["zpool-status.txt"] for word in (" tank\n", "DEGRADED", appliance.simulator.disks()[0].path))
    assert [datastore["id"] for datastore in json.loads(content["datastores.json"])] == [store]
    assert json.loads(content["configuration.json"])["host_groups"][0]["name"] == "cluster"
    assert any(job["kind"] == "datastore.create" for job in map(json.loads, content["jobs.jsonl"].splitlines()))
    audited = [json.loads(line)["id"] for line in content["audit.jsonl"].splitlines()]
    assert len(audited) > 1 and audited == sorted(audited, reverse=True), "the newest first: the end can be cut off"
    assert any("OFFLINE" in alert["text"] for alert in map(json.loads, content["alerts.jsonl"].splitlines()))
    assert any(entry["action"] == "datastore.create" for entry in map(json.loads, content["audit.jsonl"].splitlines()))
    assert json.loads(content["target.json"])["targets"] and json.loads(content["statistics.json"])["luns"] == []
    assert len(json.loads(content["disks.json"])) == 8 and content["events.jsonl"]
    assert not [name for name, text in content.items() if "unavailable" in text]


def test_newest_entries_of_each_unit(appliance: Appliance, journal_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "LOG_ENTRIES", 2)
    job = {"message": "vmfs1 was created", "request": "job-7"}
    write_log(journal_folder, "zvaai-worker", "one", "two", json.dumps(job))
    write_log(journal_folder, "sshd", "of another")
    content = bundle(appliance)
    written = [(line["text"], line["request"]) for line in log_of(content, "zvaai-worker")]
    assert written == [("two", None), ("vmfs1 was created", "job-7")]
    assert [line["text"] for line in log_of(content, "zvaai-target")] == ["started"]
    assert log_of(content, "nfs-ganesha") == [] and "of another" not in str(content)


def test_missing_parts_are_listed_with_the_reason(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle is requested at that moment."""

    def away(*_: Any) -> Any:
        raise TargetUnreachableError("nobody answers")

    disks = tuple(disk.path for disk in appliance.simulator.disks() if disk.used_by is None)[:1]
    appliance.simulator.create_pool("hung", [VdevSpec(devices=disks)])
    read_status = appliance.simulator.zpool_status

    def zpool_status(pool: str) -> str:
        if pool == "hung":
            raise Timeout("zpool status", 60)
        return read_status(pool)

    monkeypatch.setattr(appliance.simulator, "zpool_status", zpool_status)
    monkeypatch.setattr(appliance.target, "targets", away)
    appliance.simulator.fail_next("disks", EngineUnavailable("the helper is away"))
    content = bundle(appliance)
    assert "unavailable" in content["zpool-status.txt"] and " tank\n" in content["zpool-status.txt"]
    assert "nobody answers" in content["target.json"] and "the helper is away" in content["disks.json"]
    assert json.loads(content["pools.json"])


def test_a_disk_that_hangs_delays_no_other(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle has the latest SMART data and reads no disk."""
    path = appliance.simulator.disks()[0].path
    appliance.simulator.smart[path] = DiskHealth(available=True, passed=True, temperature=41)
    appliance.service.watch.read_disks()

    def hangs(device: str) -> DiskHealth:
        raise AssertionError(f"{device} was read")

    monkeypatch.setattr(appliance.simulator, "disk_health", hangs)
    response = {disk["disk"]["path"]: disk["smart"] for disk in json.loads(bundle(appliance)["disks.json"])}
    assert response[path]["temperature"] == 41 and len(response) == len(appliance.simulator.disks())


def test_no_secret_is_in_it(appliance: Appliance, journal_folder: Path) -> None:
    """Secrets that the appliance received, and each at a wrong place: in a log, and in an event."""
    chap = {"name": "esx1", "secret": CHAP_SECRET}
    assert appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [ESX], "chap": chap}).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    hook = appliance.request("POST", "/receivers", {"name": "pager", "url": "https://192.0.2.1/t0ken-of-url"}).json
    token = appliance.request("POST", "/tokens", {"name": "t", "scope": "viewer", "days": 1}).json
    user = {"name": "somebody", "role": "viewer", "password": "another good password"}
    assert appliance.request("POST", "/users", user).status_code == 201
    assert appliance.request("POST", "/configuration/recovery-key").status_code == 200
    backup = appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).json
    assert hook is not None and token is not None and backup is not None
    with appliance.store.reading() as session:
        connection = session.connection().exec_driver_sql
        hashes = [row[0] for row in connection("SELECT password_hash FROM users")]
        sealed = [row[0] for row in connection("SELECT chap_secret FROM hosts UNION SELECT secret FROM receivers")]
    key = Seal(appliance.configuration.secrets_key)
    opened = [key.open(text) for text in sealed]
    assert set(opened) == {CHAP_SECRET, hook["secret"]}
    secrets = {CHAP_SECRET, "t0ken-of-url", hook["secret"], token["secret"], *appliance.tokens.values(), *hashes, *sealed}
    leaked = "; ".join([*sorted(secrets), json.dumps(CHAP_SECRET)])
    write_log(journal_folder, "zvaai-worker", f"by mistake: {leaked}")
    with appliance.store.session() as session:
        session.connection().exec_driver_sql(
            "INSERT INTO events (at, kind, subject, data) VALUES (1, 'odd', 'odd', ?)", (json.dumps({"text": leaked}),)
        )
    content = bundle(appliance)
    assert "by mistake" in content["logs/zvaai-worker.jsonl"] and '"kind": "odd"' in content["events.jsonl"], (
        "it was there to be found"
    )
    never = {PASSWORD, "another good password", appliance.configuration.secrets_key.read_text()}
    for secret in secrets | never:
        disguises = {
            secret,
            json.dumps(secret)[1:-1],
            urllib.parse.quote(secret, safe=""),
            base64.b64encode(secret.encode()).decode(),
        }
        for name, text in content.items():
            assert not [disguise for disguise in disguises if disguise in text], (secret, name)


def test_patterns() -> None:
    redact = Redaction(["known"])
    pem = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"
    assert redact(f"a known b {pem} c") == "a (secret) b (secret) c"
    assert redact("nothing here") == "nothing here"


def test_only_the_newest_are_retained(appliance: Appliance) -> None:
    made = [appliance.job("POST", "/support-bundles")["result"]["bundle"] for _ in range(files.RETAINED + 1)]
    assert {bundle["id"] for bundle in appliance.get("/support-bundles")["items"]} == set(made[1:])
    assert appliance.request("GET", f"/support-bundles/{made[0]}").status_code == 404
    assert appliance.request("DELETE", f"/support-bundles/{made[1]}").status_code == 200
    assert appliance.request("DELETE", f"/support-bundles/{made[1]}").status_code == 404
    folder = appliance.configuration.support_directory
    assert len(list(folder.iterdir())) == files.RETAINED - 1 and folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


@pytest.mark.parametrize("name", ["..", "..%2f..%2fsecrets.key", "absent", "0" * 36])
def test_other_files_are_not_to_be_had(name: str, shared: Appliance) -> None:
    assert shared.request("GET", f"/support-bundles/{name}").status_code == 404


def test_each_answer_names_its_request(shared: Appliance) -> None:
    given = shared.request("GET", "/pools", X_Request_Id="abcdefgh-1").headers["X-Request-Id"]
    assert given == "abcdefgh-1"
    for odd in ("short", "x" * 100, "with blanks and such", 'quote"quote'):
        made = shared.request("GET", "/pools", X_Request_Id=odd).headers["X-Request-Id"]
        assert made != odd and len(made) == 32
