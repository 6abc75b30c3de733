# SPDX-License-Identifier: Apache-2.0
"""A real pool that hangs next to one that works; and how long it takes from a request to a served LUN."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from integration.kernel.freezing_pool import FreezingPool
from support.appliance import GIB, PORT, Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, run, wait_for

DEVICE = Path("/dev/shm/works0")
POOL = "works"
HELPER = Path("/run/zvaai-helper-hanging.sock")
LIMIT_SECONDS = 5.0
SERVED_SECONDS = 3.0


class Client:
    """The API, on one connection."""

    def __init__(self, appliance: Appliance) -> None:
        self._http = httpx.Client(
            base_url=f"https://127.0.0.1:{PORT}/api/v1",
            verify=appliance.frontend.context(),
            headers={"Authorization": f"Bearer {appliance.token()}"},
            timeout=60,
        )

    def get(self, path: str) -> Any:
        """The answer of a GET."""
        answer = self._http.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def begin(self, path: str, body: Any) -> str:
        """The identifier of a job."""
        answer = self._http.post(path, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def state(self, job: str) -> str:
        """Of a job."""
        return str(self.get(f"/jobs/{job}")["state"])

    def job(self, path: str, body: Any) -> Any:
        """A job that has succeeded."""
        job = self.begin(path, body)
        while (found := self.get(f"/jobs/{job}"))["state"] in ("queued", "running"):
            time.sleep(0.02)
        assert found["state"] == "succeeded", found
        return found

    def create(self, name: str, pool: str) -> str:
        """A served VMFS datastore; its identifier."""
        made = self.job("/datastores", {"name": name, "pool": pool, "size": str(GIB)})["result"]
        assert made["served"], made
        return str(made["datastore"])


@pytest.fixture
def freezing(tmp_path: Path) -> Iterator[FreezingPool]:
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    pool = FreezingPool(tmp_path)
    yield pool
    pool.destroy()


@pytest.fixture
def client(tmp_path: Path, freezing: FreezingPool) -> Iterator[Client]:
    """Of an appliance with both pools."""
    with DEVICE.open("wb") as file:
        file.truncate(512 << 20)
    run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, DEVICE)
    with running_helper(HELPER), running_appliance(tmp_path / "a", reconcile_seconds=30, helper=HELPER) as appliance:
        tmp_path.chmod(0o755)
        yield Client(appliance)
    run("zpool", "destroy", "-f", POOL)
    DEVICE.unlink()


def timed(what: str, act: Callable[[], Any]) -> float:
    """Seconds that it took. They are printed, too."""
    began = time.monotonic()
    act()
    took = time.monotonic() - began
    print(f"{what}: {took:.2f} s")
    return took


def test_a_pool_that_hangs_delays_no_other(client: Client, freezing: FreezingPool) -> None:
    stuck = client.create("stuck", freezing.name)
    store = client.create("first", POOL)
    seconds = [timed("request to served LUN", partial(client.create, name, POOL)) for name in ("second", "third")]
    assert min(seconds) < SERVED_SECONDS, seconds
    with freezing.frozen():
        waiting = client.begin("/snapshots", {"name": "waits", "datastores": [stuck]})
        wait_for(lambda: client.state(waiting) == "running", "the job of the frozen pool runs")
        took = {
            "datastore": timed("datastore", lambda: client.create("fourth", POOL)),
            "snapshot": timed("snapshot", lambda: client.job("/snapshots", {"name": "one", "datastores": [store]})),
            "list of datastores": timed("list of datastores", lambda: client.get("/datastores")),
            "list of snapshots": timed("list of snapshots", lambda: client.get(f"/datastores/{store}/snapshots")),
        }
        assert client.state(waiting) == "running", "the pool was frozen all the time"
        assert max(took.values()) < LIMIT_SECONDS, took
    wait_for(lambda: client.state(waiting) == "succeeded", "the job of the frozen pool succeeds", 120)
