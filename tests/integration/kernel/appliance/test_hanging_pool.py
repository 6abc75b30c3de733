# SPDX-License-Identifier: Apache-2.0
"""How long it takes from a request to a served LUN next to two other pools, and next to a hanging pool."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from integration.kernel.freezing_pool import FreezingPool
from support.appliance import GIB, PORT, Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, wait_for
from support.zfs import Pool

from appliance.config import Worker

POOL = "works"
HELPER = Path("/run/zvaai-helper-hanging.sock")
LIMIT_SECONDS = 120.0
"""Far above the figures of docs/measured.md, for loaded machines. A request that waits for the frozen pool never ends."""


class Client:
    """The API, on one connection."""

    def __init__(self, appliance: Appliance) -> None:
        self._http = httpx.Client(
            base_url=f"https://127.0.0.1:{PORT}/api/v1",
            verify=appliance.frontend.context(),
            headers={"Authorization": f"Bearer {appliance.token()}"},
            timeout=LIMIT_SECONDS,
        )

    def get(self, path: str) -> Any:
        """The answer of a GET."""
        answer = self._http.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Any:
        """The answer of a POST."""
        answer = self._http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def begin(self, path: str, body: Any) -> str:
        """The identifier of a job."""
        return str(self.post(path, body)["id"])

    def state(self, job: str) -> str:
        """State of a job."""
        return str(self.get(f"/jobs/{job}")["state"])

    def job(self, path: str, body: Any) -> Any:
        """A job that has succeeded."""
        job = self.begin(path, body)
        while (state := self.get(f"/jobs/{job}"))["state"] in ("queued", "running"):
            time.sleep(0.05)
        assert state["state"] == "succeeded", state
        return state

    def create(self, name: str, pool: str) -> str:
        """A served VMFS datastore; its identifier."""
        made = self.job("/datastores", {"name": name, "pool": pool, "size": str(GIB)})["result"]
        assert made["served"], made
        return str(made["datastore"])

    def copied(self) -> bool:
        """Whether each pool has a copy of the newest configuration."""
        status = self.get("/recovery")
        return [copy["generation"] for copy in status["copies"]] == [status["generation"]] * 3


@pytest.fixture(scope="module")
def freezing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreezingPool]:
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    pool = FreezingPool(tmp_path_factory.mktemp("freezing"))
    yield pool
    pool.destroy()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, freezing: FreezingPool) -> Iterator[Client]:
    """Client of an appliance with three pools, which have copies of its configuration."""
    folder = tmp_path_factory.mktemp("appliance")
    with contextlib.ExitStack() as stack:
        for name in (POOL, "other"):
            disk = folder / name
            with disk.open("wb") as file:
                file.truncate(4 * GIB)
            stack.callback(Pool(name, str(disk)).destroy)
        stack.enter_context(running_helper(HELPER))
        seconds = Worker().reconcile_seconds
        appliance = stack.enter_context(running_appliance(folder / "a", seconds, HELPER, inventory_seconds=10))
        client = Client(appliance)
        client.post("/configuration/recovery-key")
        yield client


def timed(what: str, act: Callable[[], Any]) -> float:
    """Seconds that it took. They are printed, too."""
    began = time.monotonic()
    act()
    took = time.monotonic() - began
    print(f"{what}: {took:.2f} s")
    return took


def test_a_lun_is_served_soon(client: Client) -> None:
    client.create("zeroth", POOL)
    wait_for(client.copied, "each pool has a copy")
    seconds = [timed("request to served LUN", partial(client.create, name, POOL)) for name in ("first", "second", "third")]
    assert statistics.median(seconds) < LIMIT_SECONDS, seconds
    wait_for(client.copied, "each pool has a copy of what has changed")


def test_a_pool_that_hangs_delays_no_other(client: Client, freezing: FreezingPool) -> None:
    stuck = client.create("stuck", freezing.name)
    store = client.create("works", POOL)
    with freezing.frozen():
        waiting = client.begin("/snapshots", {"name": "waits", "datastores": [stuck]})
        wait_for(lambda: client.state(waiting) == "running", "the job of the frozen pool runs")
        took = {
            "datastore": timed("datastore", lambda: client.create("other", POOL)),
            "snapshot": timed("snapshot", lambda: client.job("/snapshots", {"name": "one", "datastores": [store]})),
            "list of datastores": timed("list of datastores", lambda: client.get("/datastores")),
            "list of snapshots": timed("list of snapshots", lambda: client.get(f"/datastores/{store}/snapshots")),
        }
        assert client.state(waiting) == "running", "the pool was frozen all the time"
        assert max(took.values()) < LIMIT_SECONDS, took
    wait_for(lambda: client.state(waiting) == "succeeded", "the job of the frozen pool succeeds")
