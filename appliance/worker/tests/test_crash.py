# SPDX-License-Identifier: Apache-2.0
"""The worker dies at every point of every job, before and after each call that changes something. Then it starts again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.ganesha import GaneshaSimulator
from simulators.storage import assembled
from simulators.target import TargetSimulator
from simulators.vaai_nas import VaaiNasSimulator
from simulators.zfs import Simulator
from sqlalchemy import select

from appliance.config import Configuration
from appliance.database.models import Export, Job, Presentation
from appliance.database.store import Store
from appliance.domain import jobs, requests
from appliance.domain.requests import Request
from appliance.worker.executor import Executor
from appliance.zfs.model import VdevSpec

GIB = 1 << 30
CHANGING = {
    "create_filesystem", "create_volume", "grow_volume", "destroy", "set_properties", "inherit_property", "snapshot",
    "destroy_snapshots", "hold", "rollback", "clone", "mount", "unmount",
    "create_target", "set_access", "create_lun", "change_lun", "delete_lun", "refresh_lun",
    "add", "change", "remove",
}  # fmt: skip


class Killed(BaseException):
    """No handler of errors sees a kill -9."""


class Scissors:
    """Wraps the engine or target; kills at the nth call that changes something, before it or after."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False

    def before(self, real: Any) -> Any:
        """The same, with the scissors before it."""
        scissors = self

        class Proxy:
            def __getattr__(self, name: str) -> Any:
                attribute = getattr(real, name)
                if name not in CHANGING:
                    return attribute

                def call(*arguments: Any, **named: Any) -> Any:
                    if scissors.left is not None and not scissors.after:
                        scissors.cut()
                    result = attribute(*arguments, **named)
                    if scissors.left is not None and scissors.after:
                        scissors.cut()
                    return result

                return call

        return Proxy()

    def cut(self) -> None:
        """Counts down the calls before the kill."""
        assert self.left is not None
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Killed


class World:
    """Storage, target, NFS server and database, which outlive workers."""

    def __init__(self, directory: Path) -> None:
        self.configuration = Configuration(state_directory=directory, runtime_directory=directory)
        self.simulator, self.target, self.nfs = Simulator(), TargetSimulator(), GaneshaSimulator()
        self.simulator.create_pool("tank", [VdevSpec(devices=(self.simulator.disks()[0].path,))])
        self.store = Store(self.configuration.database)
        self.scissors = Scissors()
        self.executor = self.worker()

    def worker(self) -> Executor:
        """A new executor, which resumes running jobs."""
        engine, target, nfs = (self.scissors.before(part) for part in (self.simulator, self.target, self.nfs))
        files = VaaiNasSimulator(served=nfs.served)
        context = assembled(self.configuration, engine, target, nfs, files, self.store)
        context.device = lambda volume: "/dev/null"
        context.recovery.check(context.scan())  # as a worker's first run does; no job starts before
        executor = Executor(context)
        executor.start()
        return executor

    def job(self, request: Request) -> tuple[Job, bool]:
        """A job, ended; and whether a worker died meanwhile."""
        job_id, died = self.executor.submit(request, "test"), False
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            with self.store.reading() as session:
                job = jobs.job(session, job_id)
            over = job.state not in jobs.ACTIVE and not self.executor.is_at_work(job_id)  # its end is noted
            if over and not job.parameters.get("out_of_service"):
                return job, died
            if not self.executor._thread.is_alive():
                died = True
                self.executor = self.worker()
            elif over:
                return job, died
            time.sleep(0.002)
        raise AssertionError(f"{request} does not end")

    def ended(self, job_id: str) -> Job:
        """A job of an earlier worker, after its end."""
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            with self.store.reading() as session:
                job = jobs.job(session, job_id)
            if job.state not in jobs.ACTIVE and not self.executor.is_at_work(job_id):
                return job
            time.sleep(0.005)
        raise AssertionError("the job does not end")

    def check(self) -> None:
        """The state is as desired: no orphan volume, file system, number, LUN or export."""
        context = self.executor._context
        context.reconciling.reconcile("test")
        stores = context.datastores()
        exported_datasets = {filesystem.name for filesystem in self.simulator.filesystems() if filesystem.name.count("/") == 2}
        assert {store.dataset for store in stores} == {volume.name for volume in self.simulator.volumes()} | exported_datasets
        assert "copy" not in {store.state for store in stores}, stores
        active = {store.uuid: store.lun for store in stores if store.state == "active" and store.kind == "vmfs"}
        exported = {store.uuid: store.export for store in stores if store.state == "active" and store.kind == "nfs"}
        with self.store.reading() as session:
            assert {row.datastore: row.lun for row in session.scalars(select(Presentation))} == active
            assert {row.datastore: row.number for row in session.scalars(select(Export))} == exported
            assert not jobs.active(session)
        assert {export.export_id for export in self.nfs.served()} == set(exported.values())
        mounted = {
            filesystem.name
            for filesystem in self.simulator.filesystems()
            if filesystem.mounted and filesystem.name in exported_datasets
        }
        assert mounted == {store.dataset for store in stores if store.uuid in exported}
        served = {lun.lun.uuid: lun.lun.number for target in self.target.targets() for lun in target.luns}
        assert served == active
        assert context.reconciling.reconcile("again").differences == ()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.scissors.left = None
    world.executor.stop()
    world.store.close()


def _new(name: str) -> requests.DatastoreCreate:
    kind = "nfs" if name.startswith("nfs") else "vmfs"
    return requests.DatastoreCreate.model_construct(name=name, pool="tank", size=GIB, kind=kind)


def made(world: World, name: str) -> str:
    return str(world.job(_new(name))[0].subject)


def snapshotted(world: World, name: str) -> str:
    store = made(world, name)
    world.job(requests.SnapshotCreate(name="one", datastores=[store]))
    return store


def deleted(world: World, name: str) -> str:
    store = made(world, name)
    world.job(requests.DeleteDatastore().of(id=store))
    return store


SCRIPTS: dict[str, tuple[Callable[[World, str], str], Callable[[str, str], Request]]] = {
    "create": (lambda world, name: "", lambda store, name: _new(name)),
    "change": (made, lambda store, name: requests.DatastoreUpdate(name=f"{name}-new", soft_threshold=50, lun=777).of(id=store)),
    "grow": (made, lambda store, name: requests.SizeUpdate.model_construct(size=2 * GIB).of(id=store)),
    "delete": (made, lambda store, name: requests.DeleteDatastore().of(id=store)),
    "restore": (deleted, lambda store, name: requests.RestoreCreate().of(id=store)),
    "purge": (deleted, lambda store, name: requests.PurgeDatastore().of(id=store)),
    "snapshot": (made, lambda store, name: requests.SnapshotCreate(name="one", datastores=[store])),
    "unsnapshot": (snapshotted, lambda store, name: requests.DeletionCreate(names=["one"]).of(id=store)),
    "rollback": (snapshotted, lambda store, name: requests.RollbackCreate().of(id=store, snapshot="one")),
    "hold": (snapshotted, lambda store, name: requests.HoldCreate(tag="audit").of(id=store, snapshot="one")),
    "clone": (made, lambda store, name: requests.CloneCreate(name=f"{name}-clone").of(id=store)),
}
SCRIPTS |= {f"nfs-{name}": SCRIPTS[name] for name in ("delete", "restore", "purge", "snapshot", "rollback", "clone")} | {
    "nfs-quota": (made, lambda store, name: requests.QuotaUpdate.model_construct(size=2 * GIB).of(id=store)),
    "nfs-create": (lambda world, name: "", lambda store, name: _new(name).model_copy(update={"clients": ["192.0.2.0/24"]})),
    "nfs-change": (
        made,
        lambda store, name: requests.DatastoreUpdate(name=f"{name}-new", soft_threshold=50, clients=["192.0.2.9"]).of(id=store),
    ),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_worker_that_dies_anywhere(script: str, after: bool, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    prepare, request = SCRIPTS[script]
    points = 0
    while True:
        name = f"{script}-{after}-{points}"
        store = prepare(world, name)
        world.scissors.left, world.scissors.after = points, after
        job, died = world.job(request(store, name))
        world.scissors.left = None
        assert job.state == jobs.SUCCEEDED, (points, job.problem)
        world.check()
        if script == "change":  # the number is needed again
            world.job(requests.DatastoreUpdate(lun=100 + points + 50 * after).of(id=store))
        if not died:
            break
        points += 1
    assert points >= 1, "a job that changes nothing"


def test_a_rollback_is_not_done_again_once_hosts_may_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies when the LUN is served again; the next one must not undo newer writes."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    store = snapshotted(world, "written")
    dataset = next(datastore.dataset for datastore in world.executor._context.datastores() if datastore.id == store)
    rollbacks: list[str] = []
    real = world.target.create_lun

    def create_lun(*arguments: Any) -> None:
        real(*arguments)
        rollbacks.append(str(world.simulator.volume(dataset).space.written))
        world.simulator.write(dataset, 1 << 20)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.target, "create_lun", create_lun)
        job_id = world.executor.submit(requests.RollbackCreate().of(id=store, snapshot="one"), "test")
        world.executor._thread.join(120)
    assert len(rollbacks) == 1
    written = world.simulator.volume(dataset).space.written
    assert written >= 1 << 20
    world.executor = world.worker()
    assert world.ended(job_id).state == jobs.SUCCEEDED
    assert world.simulator.volume(dataset).space.written == written
    world.check()


@pytest.mark.parametrize(
    ("imported", "boot", "state"),
    [(False, "first", jobs.SUCCEEDED), (False, "second", jobs.FAILED), (True, "second", jobs.SUCCEEDED)],
    ids=["the worker restarts", "the server restarts", "the server restarts after the import"],
)
def test_a_forced_import_is_not_resumed_after_a_restart_of_the_server(
    imported: bool, boot: str, state: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server can have the pool by then, with the consent of an admin."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setenv("ZVAAI_BOOT_ID", "first")
    world.simulator.create_pool("other", [VdevSpec(devices=(world.simulator.disks()[1].path,))])
    world.simulator.export_pool("other")
    world.simulator.used_elsewhere("other", "server2")
    real = world.simulator.import_pool

    def import_pool(*arguments: Any, **named: Any) -> None:
        if imported:
            real(*arguments, **named)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.simulator, "import_pool", import_pool)
        job_id = world.executor.submit(requests.ImportCreate(pool="other", force=True), "test")
        world.executor._thread.join(120)
    monkeypatch.setenv("ZVAAI_BOOT_ID", boot)
    world.executor = world.worker()
    ended = world.ended(job_id)
    assert ended.state == state, ended.problem
    assert ("other" in {pool.name for pool in world.simulator.pools()}) == (state == jobs.SUCCEEDED)
    assert state == jobs.SUCCEEDED or "Make sure that no other server has the pool" in str(ended.problem)
