# SPDX-License-Identifier: Apache-2.0
"""Datastores against a model: any order of requests to the API."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from simulators.appliance import GIB, running
from simulators.target import TargetSimulator

from appliance.dataplane.target import LoggedIn
from appliance.zfs.errors import OutOfSpace

HOST = "iqn.1998-01.com.vmware:esx1"
NAMES = st.sampled_from(["a", "b", "c", "d"])


@dataclass
class Model:
    """The expected state of a datastore. `snapshots` are oldest first; `clones` of each are datastores that were not purged."""

    name: str
    size: int
    lun: int
    state: str = "active"
    shown: bool = False
    """To the hosts that may be logged in."""
    snapshots: list[str] = field(default_factory=list)
    clones: dict[str, set[str]] = field(default_factory=dict)


class DatastoreMachine(RuleBasedStateMachine):
    """The rules are actions of an admin; each knows whether it must be refused."""

    stores = Bundle("stores")

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        directory = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.appliance = self.stack.enter_context(running(Path(directory) / "appliance"))
        self.models: dict[str, Model] = {}
        self.tags = 0
        self.group = self.appliance.group("cluster", HOST)
        self.logged_in = False

    def teardown(self) -> None:
        self.stack.close()

    def active_names(self) -> set[str]:
        """Names in use."""
        return {model.name for model in self.models.values() if model.state == "active"}

    def free_lun(self, previous: int | None = None) -> int:
        """The previous number, or the lowest that no datastore has, not even a deleted one."""
        active = {model.lun for model in self.models.values() if model.state == "active"}
        if previous is not None and previous not in active:
            return previous
        return next(number for number in range(100) if number not in {model.lun for model in self.models.values()})

    def do(self, method: str, path: str, body: Any = None, *, refused: bool = False) -> Any:
        """The job's result, or None when it is refused, as it should be."""
        answer = self.appliance.request(method, path, body)
        assert answer.json is not None
        if refused:
            assert answer.status_code == 409, answer.text
            return None
        assert answer.status_code == 202, answer.text
        job = self.appliance.ended(answer.json["id"])
        assert job["state"] == "succeeded", job
        return job["result"]

    def used(self, store: str) -> bool:
        """Whether a host is logged in that sees it."""
        return self.logged_in and self.models[store].shown

    @rule()
    def a_host_comes_or_goes(self) -> None:
        """Its datastores are not removed."""
        assert isinstance(self.appliance.target, TargetSimulator)
        self.logged_in = not self.logged_in
        target = self.appliance.target_name
        sessions = [LoggedIn(HOST, target, "192.0.2.1:1", "127.0.0.1:3260", 1, None)] if self.logged_in else []
        self.appliance.target.logged_in[:] = sessions

    @rule()
    def the_worker_starts_anew(self) -> None:
        """It knows what there is."""
        self.appliance.restart_worker()

    @rule()
    def the_pool_is_away_for_a_while(self) -> None:
        """Manual exports: its LUNs remain, nothing is begun, and afterwards nothing has changed."""
        appliance = self.appliance
        before = appliance.target.targets()
        appliance.simulator.export_pool("tank")
        assert appliance.request("POST", "/reconcile").status_code in (200, 503)
        for store, model in self.models.items():
            if model.state == "active":
                answer = appliance.request("POST", f"/datastores/{store}/grow", {"size": str(8 * GIB)})
                assert answer.status_code in (404, 409, 503), answer.text
        answer = appliance.request("POST", "/datastores", {"name": "x", "pool": "tank", "size": str(GIB)})
        assert answer.status_code in (422, 503), answer.text
        assert appliance.target.targets() == before
        appliance.simulator.import_pool("tank")
        time.sleep(appliance.configuration.worker.inventory_seconds)
        assert appliance.request("POST", "/reconcile").status_code == 200

    @rule(call=st.sampled_from(["create_volume", "set_properties"]), name=NAMES)
    def creating_fails(self, call: str, name: str) -> None:
        """No partial datastore remains."""
        if name not in self.active_names():
            self.fail(call, "POST", "/datastores", {"name": name, "pool": "tank", "size": str(GIB)})

    @rule(store=stores)
    def deleting_fails(self, store: str) -> None:
        """It is served again."""
        if self.models[store].state == "active" and not self.used(store):
            self.fail("set_properties", "DELETE", f"/datastores/{store}")

    @rule(call=st.sampled_from(["clone", "snapshot", "set_properties"]), store=stores, name=NAMES)
    def cloning_fails(self, call: str, store: str, name: str) -> None:
        """The snapshot that was taken for it is destroyed too."""
        if self.models[store].state == "active" and name not in self.active_names():
            self.fail(call, "POST", f"/datastores/{store}/clone", {"name": name})

    def fail(self, call: str, method: str, path: str, body: Any = None) -> None:
        """The job fails, as OpenZFS does; the invariant checks that nothing remains."""
        simulator = self.appliance.simulator
        simulator.fail_next(call, OutOfSpace("tank", quota=False))
        answer = self.appliance.request(method, path, body)
        assert answer.status_code == 202 and answer.json is not None, answer.text
        job = self.appliance.ended(answer.json["id"])
        assert job["state"] == "failed" and not simulator.failures.get(call), job

    @rule(target=stores, name=NAMES, size=st.integers(1, 3), shown=st.booleans())
    def create(self, name: str, size: int, shown: bool) -> Any:
        """Names are taken once."""
        lun = self.free_lun()
        body = {"name": name, "pool": "tank", "size": str(size * GIB), "host_groups": [self.group] if shown else []}
        result = self.do("POST", "/datastores", body, refused=name in self.active_names())
        if result is None:
            return multiple()
        self.models[result["datastore"]] = Model(name, size * GIB, lun, shown=shown)
        return result["datastore"]

    @rule(store=stores, name=NAMES)
    def rename(self, store: str, name: str) -> None:
        model = self.models[store]
        refused = model.state != "active" or name in self.active_names() - {model.name}
        if self.do("PATCH", f"/datastores/{store}", {"name": name}, refused=refused):
            model.name = name

    @rule(store=stores, size=st.integers(1, 4))
    def grow(self, store: str, size: int) -> None:
        model = self.models[store]
        if model.state == "active" and size * GIB < model.size:
            answer = self.appliance.request("POST", f"/datastores/{store}/grow", {"size": str(size * GIB)})
            assert answer.status_code == 422
        elif self.do("POST", f"/datastores/{store}/grow", {"size": str(size * GIB)}, refused=model.state != "active"):
            model.size = size * GIB

    @rule(store=stores)
    def snapshot(self, store: str) -> None:
        """Each has a different name."""
        self.tags += 1
        tag, model = f"s{self.tags}", self.models[store]
        if self.do("POST", "/snapshots", {"name": tag, "datastores": [store]}, refused=model.state != "active"):
            model.snapshots.append(tag)

    @rule(target=stores, store=stores, name=NAMES)
    def clone(self, store: str, name: str) -> Any:
        model, lun = self.models[store], self.free_lun()
        refused = model.state != "active" or name in self.active_names()
        result = self.do("POST", f"/datastores/{store}/clone", {"name": name}, refused=refused)
        if result is None:
            return multiple()
        tag = result["snapshot"].split("@")[1]
        model.snapshots.append(tag)
        model.clones[tag] = {result["datastore"]}
        self.models[result["datastore"]] = Model(name, model.size, lun)
        return result["datastore"]

    @rule(store=stores, which=st.integers(0, 3), force=st.booleans(), named=st.booleans())
    def roll_back(self, store: str, which: int, force: bool, named: bool) -> None:
        """Newer snapshots are destroyed only if named, and never while clones depend on them. The size is rolled back too."""
        model = self.models[store]
        if model.state != "active" or which >= len(model.snapshots):
            return
        newer = model.snapshots[which + 1 :]
        refused = bool(newer and not named) or bool(self.used(store) and not force) or any(map(model.clones.get, newer))
        path = f"/datastores/{store}/snapshots/{model.snapshots[which]}/rollback"
        if self.do("POST", path, {"force": force, "destroy": newer if named else []}, refused=refused):
            del model.snapshots[which + 1 :]
            model.size = int(self.appliance.get(f"/datastores/{store}")["size"])

    @rule(store=stores, which=st.integers(0, 3))
    def delete_snapshot(self, store: str, which: int) -> None:
        """Not while clones depend on it."""
        model = self.models[store]
        if model.state == "active" and which < len(model.snapshots):
            tag = model.snapshots[which]
            if self.do("POST", f"/datastores/{store}/snapshots/delete", {"names": [tag]}, refused=bool(model.clones.get(tag))):
                model.snapshots.remove(tag)

    @rule(store=stores, force=st.booleans())
    def delete(self, store: str, force: bool) -> None:
        """Deletes a datastore; one in use only with force."""
        refused = self.models[store].state != "active" or (self.used(store) and not force)
        if self.do("DELETE", f"/datastores/{store}?force={str(force).lower()}", refused=refused):
            self.models[store].state, self.models[store].shown = "deleted", False

    @rule(store=stores)
    def restore(self, store: str) -> None:
        """Its name may be taken meanwhile."""
        model = self.models[store]
        lun = self.free_lun(model.lun)
        refused = model.state != "deleted" or model.name in self.active_names()
        if self.do("POST", f"/datastores/{store}/restore", {}, refused=refused):
            model.state, model.lun = "active", lun

    @rule(store=consumes(stores))
    def purge(self, store: str) -> None:
        """Not while clones depend on it."""
        model = self.models[store]
        if model.state == "active":
            self.do("POST", f"/datastores/{store}/purge", refused=True)
            self.delete(store, force=True)
        if self.do("POST", f"/datastores/{store}/purge", refused=any(model.clones.values())):
            del self.models[store]
            for other in self.models.values():
                for tag, clones in other.clones.items():
                    if clones == {store} and tag in other.snapshots:
                        other.snapshots.remove(tag)  # it was taken for this clone alone
                    clones.discard(store)

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        """API, storage and target."""
        if not hasattr(self, "models"):
            return
        response = {store["id"]: store for store in self.appliance.get("/datastores?limit=500")["items"]}
        assert {
            store: (row["name"], int(row["size"]), row["state"], row["lun"] if row["state"] == "active" else None)
            for store, row in response.items()
        } == {
            store: (model.name, model.size, model.state, model.lun if model.state == "active" else None)
            for store, model in self.models.items()
        }
        served = {lun.lun.uuid: lun.lun.number for target in self.appliance.target.targets() for lun in target.luns}
        assert served == {store: model.lun for store, model in self.models.items() if model.state == "active"}
        assert {volume.name for volume in self.appliance.simulator.volumes()} == {row["dataset"] for row in response.values()}


DatastoreMachine.TestCase.settings = settings(max_examples=6, stateful_step_count=25)
TestDatastores = DatastoreMachine.TestCase
