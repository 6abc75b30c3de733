# SPDX-License-Identifier: Apache-2.0
"""Portals and CHAP by the API, on the real target: hosts log in at the portals, and no change locks a host out unexpectedly."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance, running
from support.programs import wait_for
from support.raw_initiator import Refused, Session
from support.target import Account, Target

from appliance.database.models import Installation
from appliance.dataplane.target_socket import TargetSocket

ESX = "iqn.1998-01.com.vmware:esx1"
OTHER = "iqn.1998-01.com.vmware:esx2"
SECRET = "secret-of-esx1-123"
FIRST, SECOND, THIRD = "127.0.0.1:3260", "127.0.0.2:3260", "127.0.0.3:3261"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Appliance, Target]]:
    """A LUN for two hosts, and a target that listens at FIRST."""
    directory = tmp_path / "target"
    directory.mkdir()
    target = Target(directory, portals=[(FIRST, 1)])
    target.start()
    try:
        with running(tmp_path / "appliance", TargetSocket(target.socket_path), tmp_path / "volumes") as appliance:
            group = appliance.group("cluster", ESX)
            assert appliance.request("POST", "/hosts", {"name": "esx2", "group": group, "iqns": [OTHER]}).status_code == 201
            appliance.datastore("first", host_groups=[group])
            yield appliance, target
    finally:
        target.stop()


@contextlib.asynccontextmanager
async def logged_in(
    appliance: Appliance, portal: str, account: Account | None = None, initiator: str = ESX
) -> AsyncIterator[None]:
    """A logged-in host, until the target has ended its session. Raises Refused, OSError, TimeoutError."""
    async with Session(portal, iqn=appliance.target_name, initiator=initiator, account=account):
        yield

    def has_ended() -> bool:
        return initiator not in {session["initiator"] for session in appliance.get("/sessions")["items"]}

    await asyncio.to_thread(wait_for, has_ended, "the target ends the session")


async def can_log_in(appliance: Appliance, portal: str, account: Account | None = None, initiator: str = ESX) -> bool:
    try:
        async with logged_in(appliance, portal, account, initiator):
            return True
    except (Refused, ConnectionError):
        return False


def refused(appliance: Appliance, method: str, path: str, body: Any = None) -> Any:
    """Reasons for the refusal."""
    answer = appliance.request(method, path, body)
    assert answer.status_code == 409 and answer.json is not None, answer.text
    assert answer.json["can_force"]
    return answer.json["blocking"]


def test_hosts_log_in_at_portals_as_they_are_set(served: tuple[Appliance, Target]) -> None:
    appliance, target = served

    async def works() -> None:
        assert await can_log_in(appliance, FIRST) and not await can_log_in(appliance, SECOND)
        made = await asyncio.to_thread(appliance.request, "POST", "/portals", {"address": SECOND, "group_tag": 2})
        assert made.status_code == 201, made.text
        assert await can_log_in(appliance, SECOND)
        async with logged_in(appliance, SECOND):
            # The only portal of group 2: its hosts would lose their path.
            assert await asyncio.to_thread(refused, appliance, "DELETE", f"/portals/{SECOND}") == [ESX]
            # Nothing else listens at its address: it could not log in there again.
            move = {"address": THIRD}
            assert await asyncio.to_thread(refused, appliance, "PATCH", f"/portals/{SECOND}", move) == [ESX]
            moved = await asyncio.to_thread(appliance.request, "PATCH", f"/portals/{SECOND}", {**move, "force": True})
            assert moved.status_code == 200, moved.text
            assert [session["initiator"] for session in appliance.get("/sessions")["items"]] == [ESX], "the session stays"
        assert await can_log_in(appliance, THIRD) and not await can_log_in(appliance, SECOND)

    asyncio.run(works())
    shown = {portal["address"]: portal["group_tag"] for portal in appliance.get("/portals")["items"]}
    assert shown == {FIRST: 1, THIRD: 2}
    assert appliance.request("DELETE", f"/portals/{THIRD}").status_code == 200
    assert [portal["address"] for portal in target.call("portals.list")["portals"]] == [FIRST]
    assert appliance.request("POST", "/portals", {"address": "192.0.2.99:3260"}).status_code == 409, "no address of this server"
    for wrong in ({"address": "127.0.0.1"}, {"address": "esx:3260"}, {"interface": "absent0"}, {}):
        assert appliance.request("POST", "/portals", wrong).status_code == 422, wrong
    assert appliance.request("DELETE", "/portals/127.0.0.9:3260").status_code == 404


def test_a_host_was_last_seen_at_its_session(served: tuple[Appliance, Target]) -> None:
    """Its time stays after the logout. It changes neither the configuration nor the version of the host."""
    appliance, _ = served

    def last_seen() -> dict[str, str | None]:
        return {host["iqns"][0]: host["last_seen_at"] for host in appliance.get("/hosts")["items"]}

    def generation() -> int:
        with appliance.store.reading() as session:
            return session.get_one(Installation, 1).generation

    async def log_in() -> None:
        async with logged_in(appliance, FIRST):
            appliance.service.scheduler.request()
            await asyncio.to_thread(appliance.wait_until_idle)

    before = generation(), [host["etag"] for host in appliance.get("/hosts")["items"]]
    assert last_seen() == {ESX: None, OTHER: None}
    began = time.time()
    asyncio.run(log_in())
    seen = last_seen()
    at = datetime.fromisoformat(str(seen[ESX])).timestamp()
    assert began - 0.001 <= at <= time.time() and seen[OTHER] is None
    appliance.restart_worker()
    assert last_seen() == seen
    assert (generation(), [host["etag"] for host in appliance.get("/hosts")["items"]]) == before


def test_an_unknown_initiator_is_listed_until_it_is_a_host(served: tuple[Appliance, Target]) -> None:
    appliance, _ = served
    stranger = "iqn.1998-01.com.vmware:esx9"
    assert not asyncio.run(can_log_in(appliance, FIRST, initiator=stranger))
    assert asyncio.run(can_log_in(appliance, FIRST))
    (unknown,) = appliance.get("/unknown-initiators")["items"]
    assert (unknown["initiator"], unknown["address"]) == (stranger, "127.0.0.1")
    assert appliance.request("POST", "/hosts", {"name": "esx9", "iqns": [stranger]}).status_code == 201
    assert appliance.get("/unknown-initiators")["items"] == []


def test_chap_locks_out_no_host_unexpectedly(served: tuple[Appliance, Target]) -> None:
    """The refusal names logged-in hosts without a secret. A secret works only for the initiators of its account."""
    appliance, _ = served
    hosts = {host["iqns"][0]: host["id"] for host in appliance.get("/hosts")["items"]}
    chap, account = f"/hosts/{hosts[ESX]}/chap", Account("esx1", SECRET)
    names = {host["iqns"][0]: host["name"] for host in appliance.get("/hosts")["items"]}

    def change(method: str, path: str, body: Any, status: int = 200) -> None:
        answer = appliance.request(method, path, body)
        assert answer.status_code == status, answer.text
        appliance.wait_until_idle()

    async def works() -> None:
        async with logged_in(appliance, FIRST), logged_in(appliance, FIRST, initiator=OTHER):
            blocking = await asyncio.to_thread(refused, appliance, "PUT", "/settings/iscsi", {"chap_required": True})
            assert blocking == sorted(names.values())
            await asyncio.to_thread(change, "PUT", chap, {"name": "esx1", "secret": SECRET})
            blocking = await asyncio.to_thread(refused, appliance, "PUT", "/settings/iscsi", {"chap_required": True})
            assert blocking == [names[OTHER]]
            await asyncio.to_thread(change, "PUT", "/settings/iscsi", {"chap_required": True, "force": True})
        assert await can_log_in(appliance, FIRST, account) and not await can_log_in(appliance, FIRST)
        assert not await can_log_in(appliance, FIRST, account, OTHER), "the account is for the host's own names"
        async with logged_in(appliance, FIRST, account):
            other = {"name": "esx1", "secret": "another-secret-99"}
            assert await asyncio.to_thread(refused, appliance, "PUT", chap, other) == [names[ESX]]
            assert await asyncio.to_thread(refused, appliance, "DELETE", chap) == [names[ESX]]
            await asyncio.to_thread(change, "PUT", chap, {**other, "force": True})
        assert await can_log_in(appliance, FIRST, Account("esx1", "another-secret-99"))

    asyncio.run(works())


def test_the_target_proves_itself(served: tuple[Appliance, Target]) -> None:
    """Mutual CHAP, by libiscsi as the host."""
    appliance, _ = served
    (host,) = [host for host in appliance.get("/hosts")["items"] if host["iqns"] == [ESX]]
    appliance.request("PUT", f"/hosts/{host['id']}/chap", {"name": "esx1", "secret": SECRET})
    taken = appliance.request("PUT", "/settings/iscsi/target-chap", {"name": "storage", "secret": SECRET})
    assert taken.status_code == 409 and host["name"] in taken.text
    response = appliance.request("PUT", "/settings/iscsi/target-chap", {"name": "storage", "secret": "secret-of-storage"})
    assert response.status_code == 200 and "secret-of-storage" not in response.text
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    appliance.wait_until_idle()

    def inquires(secret: str) -> bool:
        target = appliance.target_name
        url = f"iscsi://esx1%{SECRET}@{FIRST}/{target}/0?target_user=storage&target_password={secret}"
        return subprocess.run(["iscsi-inq", "-i", ESX, url], capture_output=True, check=False).returncode == 0

    wait_for(lambda: inquires("secret-of-storage"), "the host believes the target")
    assert not inquires("not-the-secret-1")
    assert appliance.get("/settings/iscsi") | {"etag": ""} == {"chap_required": True, "target_chap_name": "storage", "etag": ""}
    assert appliance.request("DELETE", "/settings/iscsi/target-chap").status_code == 200
    appliance.wait_until_idle()
    wait_for(lambda: not inquires("secret-of-storage"), "the target has no account to prove itself by")
