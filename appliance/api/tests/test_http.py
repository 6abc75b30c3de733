# SPDX-License-Identifier: Apache-2.0
"""Properties of all operations: bad input, versions, keys, pages, events."""

import json
import threading
import time
from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance
from sqlalchemy import func, select, update
from support.programs import wait_for
from werkzeug.test import TestResponse

from appliance.api import execution
from appliance.api.events import STREAMS
from appliance.api.execution import forget_unfinished
from appliance.api.wire import HttpRequest
from appliance.database.models import IdempotencyKey, Job
from appliance.domain.errors import ConflictError

GOOD = {"name": "store", "pool": "tank", "size": str(GIB)}
BAD: list[tuple[str, Any]] = [
    ("name", ""),
    ("name", "a/b"),
    ("name", "x" * 43),
    ("name", 5),
    ("name", "\ud800"),
    ("pool", "absent"),
    ("size", GIB),
    ("size", "1"),
    ("size", str(65 << 40)),
    ("size", str(GIB + 1)),
    ("size", "-1"),
    ("size", "9" * 40),
    ("block_size", 12345),
    ("soft_threshold", 100),
    ("lun", -1),
    ("lun", 1024),
    ("host_groups", ["00000000-0000-4000-8000-000000000000"]),
    ("host_groups", "all"),
    ("sync", "never"),
    ("unknown", 1),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_input_names_the_field_and_changes_nothing(field: str, value: Any, shared: Appliance) -> None:
    volumes, jobs = shared.simulator.volumes(), shared.get("/jobs")["items"]
    answer = shared.request("POST", "/datastores", {**GOOD, field: value})
    assert answer.status_code == 422 and answer.content_type == "application/problem+json"
    problem = json.loads(answer.text)
    assert field in {error["field"].split(".")[0] for error in problem["errors"]}, problem
    assert (shared.simulator.volumes(), shared.get("/jobs")["items"]) == (volumes, jobs)


@pytest.mark.parametrize("field", ["name", "pool", "size"])
def test_a_missing_field_is_named(field: str, shared: Appliance) -> None:
    answer = shared.request("POST", "/datastores", {key: value for key, value in GOOD.items() if key != field})
    assert answer.status_code == 422 and answer.json is not None and answer.json["errors"][0]["field"] == field


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"[" * 100_000, b"\xff\xfe", b"1e999", b'{"name": NaN}'])
def test_a_body_that_is_none(body: bytes, shared: Appliance) -> None:
    headers = {"Authorization": f"Bearer {shared.tokens['admin']}"}
    answer = shared.application.test_client().post(
        "/api/v1/datastores", data=body, headers=headers, content_type="application/json"
    )
    assert answer.status_code in (400, 422) and answer.content_type == "application/problem+json"


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_forms_of_other_sites_are_refused(kind: str | None, shared: Appliance) -> None:
    body = json.dumps({"name": "admin", "password": PASSWORD})
    answer = shared.application.test_client().post("/api/v1/session", data=body, content_type=kind)
    assert answer.status_code == 415 and answer.content_type == "application/problem+json"
    assert "Set-Cookie" not in answer.headers


def test_a_body_that_is_too_long(shared: Appliance) -> None:
    answer = shared.request("POST", "/datastores", {**GOOD, "name": "x" * (2 << 20)})
    assert answer.status_code == 413 and answer.content_type == "application/problem+json"


def test_a_missing_file_is_a_problem_too(shared: Appliance) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/datastores", 405), ("GET", "/datastores/absent", 404)):
        answer = shared.request(method, path)
        assert answer.status_code == status and answer.content_type == "application/problem+json"


def test_a_change_of_an_outdated_version_is_refused(appliance: Appliance) -> None:
    group = appliance.request("POST", "/host-groups", {"name": "one"}).json
    assert group is not None
    path = f"/host-groups/{group['id']}"
    tag = appliance.request("GET", path).headers["ETag"]
    assert appliance.request("GET", path, If_None_Match=tag).status_code == 304
    assert appliance.request("PATCH", path, {"name": "two"}, If_Match=tag).status_code == 200
    assert appliance.request("PATCH", path, {"name": "three"}, If_Match=tag).status_code == 412
    assert appliance.get(path)["name"] == "two"


def test_a_request_sent_again_is_done_once(appliance: Appliance) -> None:
    first = appliance.request("POST", "/datastores", GOOD, Idempotency_Key="one")
    again = appliance.request("POST", "/datastores", GOOD, Idempotency_Key="one")
    assert first.status_code == again.status_code == 202
    assert first.json == again.json and first.headers["Location"] == again.headers["Location"]
    other = appliance.request("POST", "/datastores", {**GOOD, "name": "other"}, Idempotency_Key="one")
    assert other.status_code == 409
    assert first.json is not None
    appliance.ended(first.json["id"])
    assert [store["name"] for store in appliance.get("/datastores")["items"]] == ["store"]


def test_a_refused_request_can_be_sent_again_with_its_key(appliance: Appliance) -> None:
    group = appliance.request("POST", "/host-groups", {"name": "one"}).json
    assert group is not None
    assert appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="same").status_code == 409
    assert appliance.request("DELETE", f"/host-groups/{group['id']}").status_code == 200
    made = [appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="same") for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201] and made[0].json == made[1].json


def test_equal_requests_at_the_same_time(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the end of the one before. The first is refused, the second succeeds and answers the third."""
    statuses, refused, inner = [], threading.Event(), execution._viewed
    came, claim = threading.Semaphore(0), execution._claim

    def claimed(*arguments: Any) -> Any:
        came.release()
        return claim(*arguments)

    def viewed(*arguments: Any) -> execution.Outcome:
        if not refused.is_set():
            assert all(came.acquire(timeout=30) for _ in range(3)), "the others wait"
            refused.set()
            raise ConflictError("in the way")
        return inner(*arguments)

    def send() -> None:
        statuses.append(appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="same").status_code)

    monkeypatch.setattr(execution, "_viewed", viewed)
    monkeypatch.setattr(execution, "_claim", claimed)
    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201, 201, 409] and len(appliance.get("/host-groups")["items"]) == 1


def test_a_request_that_still_runs_is_to_be_sent_again(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, again = execution._viewed, []

    def viewed(*arguments: Any) -> execution.Outcome:
        again.append(appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="same"))
        return inner(*arguments)

    monkeypatch.setattr(execution, "_LONGEST_WAIT_S", 0)
    monkeypatch.setattr(execution, "_viewed", viewed)
    assert appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="same").status_code == 201
    (running,) = again
    assert running.status_code == 409 and running.headers["Retry-After"] == "2"


def test_the_stored_answers_of_a_user_are_limited(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_KEYS_PER_USER", 5)
    for number in range(20):
        body = {"name": f"group {number}"}
        assert appliance.request("POST", "/host-groups", body, Idempotency_Key=str(number)).status_code == 201
    with appliance.store.reading() as session:
        assert session.scalar(select(func.count()).select_from(IdempotencyKey)) == 6


def test_parameters_that_the_path_has_not(appliance: Appliance) -> None:
    """As a program could send them that has taken over the HTTP process."""
    store = appliance.datastore("store")
    body = json.dumps({"name": "one", "datastores": [store]})
    sent = HttpRequest(
        operation="snapshots.create_snapshot", target="/api/v1/snapshots", path={"schedule": "x"}, body=body, address="::1",
        authorization=f"Bearer {appliance.tokens['operator']}",
    )  # fmt: skip
    assert execution.carry_out(appliance.service, sent).status == 404


def test_a_repeated_request_returns_the_job_whose_response_was_lost(appliance: Appliance) -> None:
    """Its subject no longer exists, and has no version for the request."""
    store = appliance.datastore("one")
    appliance.job("DELETE", f"/datastores/{store}")
    tag = appliance.get(f"/datastores/{store}")["etag"]
    headers = {"Idempotency_Key": "cut", "If_Match": tag}
    first = appliance.request("POST", f"/datastores/{store}/purge", **headers)
    assert first.status_code == 202 and first.json is not None
    appliance.ended(first.json["id"])
    assert appliance.request("GET", f"/datastores/{store}").status_code == 404
    with appliance.store.session() as session:
        session.execute(update(IdempotencyKey).where(IdempotencyKey.key == "cut").values(status=None))
    forget_unfinished(appliance.store)
    again = appliance.request("POST", f"/datastores/{store}/purge", **headers)
    assert again.status_code == 202 and again.json is not None and again.json["id"] == first.json["id"]


def test_keys_end_after_a_day(appliance: Appliance) -> None:
    """Also for jobs, which are found by their keys."""
    path, body = f"/datastores/{appliance.datastore('one')}", {"soft_threshold": 50}
    first, again = (appliance.request("PATCH", path, body, Idempotency_Key="key").json for _ in range(2))
    assert first is not None and first == again
    appliance.ended(first["id"])
    with appliance.store.session() as session:
        session.execute(update(IdempotencyKey).values(created_at=IdempotencyKey.created_at - 90_000))
        session.execute(update(Job).values(ended_at=Job.ended_at - 90_000))
    later = appliance.request("PATCH", path, body, Idempotency_Key="key")
    assert later.status_code == 202 and later.json is not None and later.json["id"] != first["id"]


def test_a_key_of_a_request_that_was_cut_off_can_be_used_again(appliance: Appliance) -> None:
    assert appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="cut").status_code == 201
    with appliance.store.session() as session:
        session.execute(update(IdempotencyKey).values(status=None))
    assert appliance.request("POST", "/host-groups", {"name": "one"}, Idempotency_Key="cut").status_code == 409
    forget_unfinished(appliance.store)
    assert appliance.request("POST", "/host-groups", {"name": "two"}, Idempotency_Key="cut").status_code == 201


def test_streams_of_events_are_few(appliance: Appliance) -> None:
    headers = {"Authorization": f"Bearer {appliance.tokens['viewer']}"}
    client = appliance.application.test_client()
    for _ in range(3):  # each gives its place back
        streams: list[TestResponse] = []
        while len(streams) < STREAMS:  # earlier ones are released as soon as the worker notices it
            stream = client.get("/api/v1/events", headers=headers, buffered=False)
            if stream.status_code == 200:
                streams.append(stream)
        assert client.get("/api/v1/events", headers=headers).status_code == 429
        for stream in streams:
            stream.close()


def test_pages_have_all_of_a_list_once(appliance: Appliance) -> None:
    names = [f"group {number:03}" for number in range(25)]
    for name in names:
        assert appliance.request("POST", "/host-groups", {"name": name}).status_code == 201
    listed, cursor = [], ""
    while True:
        page = appliance.get(f"/host-groups?limit=10{cursor}")
        listed += [group["name"] for group in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert listed == names
    audit, cursor = [], ""
    while True:
        page = appliance.get(f"/audit?limit=7{cursor}")
        audit += [entry["id"] for entry in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert audit == sorted(set(audit), reverse=True) and len(audit) == 25


@pytest.mark.parametrize("path", ["/volumes", "/filesystems"])
def test_pages_have_the_datasets_of_all_pools(path: str, appliance: Appliance) -> None:
    """A cursor is a name: "tank-ssd/..." is before "tank/...", though the pools are in the other order."""
    devices = [f"/dev/disk/by-id/ata-simulated-{number}" for number in (5, 6)]
    appliance.job("POST", "/pools", {"name": "tank-ssd", "vdevs": [{"devices": devices, "redundancy": "mirror"}]})
    for pool in ("tank", "tank-ssd"):
        appliance.job("POST", "/datastores", {**GOOD, "name": f"of-{pool}", "pool": pool})
        appliance.nfs_datastore(f"nfs-{pool}", pool=pool)
    listed, cursor = [], ""
    while cursor is not None:
        page = appliance.get(f"{path}?limit=1{cursor and f'&cursor={cursor}'}")
        listed += [item["dataset"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert listed == sorted(item["dataset"] for item in appliance.get(path)["items"])
    assert {name.split("/")[0] for name in listed} == {"tank", "tank-ssd"}


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "cursor=%FF", "cursor=!", "unknown=1"])
def test_a_bad_query_names_its_parameter(query: str, shared: Appliance) -> None:
    answer = shared.request("GET", f"/jobs?{query}")
    assert answer.status_code == 422 and answer.json is not None and answer.json["errors"][0]["field"] == query.split("=")[0]


@pytest.mark.parametrize("how", ["log out", "disable", "token"])
def test_a_stream_of_events_ends_with_the_session(how: str, appliance: Appliance) -> None:
    client = appliance.application.test_client(use_cookies=False)
    begun = client.post("/api/v1/session", json={"name": "viewer", "password": PASSWORD})
    assert begun.json is not None
    headers = {"Cookie": begun.headers["Set-Cookie"].split(";")[0], "X-CSRF-Token": begun.json["csrf_token"]}
    if how == "token":
        headers = {"Authorization": f"Bearer {appliance.tokens['viewer']}"}
    answer = client.get("/api/v1/events", headers=headers, buffered=False)
    parts = iter(answer.response)
    assert b"retry" in bytes(next(parts))  # type: ignore[arg-type]
    if how == "log out":
        client.delete("/api/v1/session", headers=headers)
    else:
        change = {"disabled": True} if how == "disable" else {"end_tokens": True}
        assert appliance.request("PATCH", f"/users/{begun.json['user']}", change).status_code == 200
    began = time.monotonic()
    for _ in parts:
        assert time.monotonic() - began < 60, "it goes on"
    answer.close()


def test_events_of_a_job(appliance: Appliance) -> None:
    headers = {"Authorization": f"Bearer {appliance.tokens['viewer']}", "Last-Event-ID": "0"}
    appliance.datastore("store")
    answer = appliance.application.test_client().get("/api/v1/events", headers=headers, buffered=False)
    assert answer.content_type.startswith("text/event-stream")
    seen = b""
    for part in answer.response:
        seen += part if isinstance(part, bytes) else part.encode()
        if b'"state": "succeeded"' in seen:
            break
    answer.close()
    assert b"event: job" in seen and b"id: 1\n" in seen and b'"state": "queued"' in seen


def test_a_listener_from_before_the_database_went_back(appliance: Appliance) -> None:
    headers = {"Authorization": f"Bearer {appliance.tokens['viewer']}", "Last-Event-ID": "99999"}
    answer = appliance.application.test_client().get("/api/v1/events", headers=headers, buffered=False)
    appliance.datastore("store")
    for part in answer.response:
        if b"event: job" in (seen := part if isinstance(part, bytes) else part.encode()):
            break
        assert b": here" not in seen, "the stream says only that it is open"
    answer.close()


def test_sizes_and_guids_are_strings(appliance: Appliance) -> None:
    store = appliance.get(f"/datastores/{appliance.datastore('store')}")
    assert store["size"] == str(GIB) and store["guid"].isdigit()
    pool = appliance.get("/pools/tank")
    assert all(isinstance(pool[name], str) for name in ("guid", "size", "allocated", "free", "available"))


def test_available_space_is_that_of_the_root_dataset(appliance: Appliance) -> None:
    def shows_it() -> bool:
        """The worker reserves space for copies of the configuration meanwhile."""
        available = appliance.simulator.filesystem("tank").space.available
        appliance.service.context.scan(0)
        pool = appliance.get("/pools/tank")
        return bool(pool["available"] == str(available) != pool["free"])

    wait_for(shows_it, "the pool shows its available space")


def test_a_secret_is_returned_once(appliance: Appliance) -> None:
    body = {"name": "one", "scope": "admin", "days": 1}
    made = appliance.request("POST", "/tokens", body, Idempotency_Key="one")
    assert made.status_code == 201 and made.json is not None
    again = appliance.request("POST", "/tokens", body, Idempotency_Key="one")
    assert again.status_code == 409 and made.json["secret"] not in again.text
    assert made.json["secret"].encode() not in appliance.configuration.database.read_bytes()


def test_anonymous_requests_do_not_fill_the_audit(appliance: Appliance) -> None:
    for _ in range(3):
        assert appliance.request("POST", "/datastores", GOOD, role="").status_code == 401
    assert appliance.get("/audit")["items"] == []


def test_a_host_of_an_unknown_group(shared: Appliance) -> None:
    body = {"name": "lost", "group": "00000000-0000-4000-8000-000000000000", "iqns": []}
    answer = shared.request("POST", "/hosts", body)
    assert answer.status_code == 422 and answer.json is not None and answer.json["errors"][0]["field"] == "group"
