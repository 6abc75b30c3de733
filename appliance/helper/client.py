# SPDX-License-Identifier: Apache-2.0
"""HelperClient: a ZfsEngine that asks the root helper."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from appliance import logs
from appliance.helper import protocol
from appliance.helper.exports import Exports
from appliance.helper.operations import OPERATIONS, Operation
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import EngineUnavailable, Refused, Timeout, UnexpectedFailure
from appliance.zfs.keys import KeptKey, Keys
from appliance.zfs.log import Log
from appliance.zfs.model import (
    DatasetList,
    Dependant,
    Disk,
    DiskHealth,
    Filesystem,
    Hold,
    ImportablePool,
    NewEncryption,
    Pool,
    PoolPlan,
    Properties,
    Snapshot,
    VdevSpec,
    Volume,
)

SECONDS = 330.0
"""More than the engine's own time limits, so that its answer comes first."""
MAX_IDLE = 8


def _talk(connection: socket.socket, message: bytes) -> protocol.Answer:
    """The answer to a message. Raises Closed, OSError, MsgspecError."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a caller who is refused is told so before it asks
        protocol.write_message(connection, message)
    return msgspec.json.decode(protocol.read_message(connection, protocol.MAX_ANSWER_BYTES), type=protocol.Answer)


class _Connections:
    """Connections to the helper: one for each call under way, some kept."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    def ask(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """The result. Raises what the helper says, EngineUnavailable, Timeout, Refused."""
        message = msgspec.json.encode({"operation": operation.name, "arguments": arguments, "request": logs.request()})
        if len(message) > protocol.MAX_REQUEST_BYTES:
            raise Refused(f"a request of {len(message)} bytes: {protocol.MAX_REQUEST_BYTES} at most")
        answer = self._exchange(operation, message)
        if answer.error is not None:
            raise protocol.decode_error(answer)
        try:
            return msgspec.json.decode(answer.result, type=operation.result)
        except msgspec.MsgspecError as problem:
            raise UnexpectedFailure(operation.name, f"the helper's answer: {problem}") from problem

    def _exchange(self, operation: Operation, message: bytes) -> protocol.Answer:
        try:
            with self._connection(fresh=operation.changes) as connection:
                return _talk(connection, message)
        except TimeoutError:
            raise Timeout(operation.name, self._seconds) from None
        except (OSError, protocol.Closed) as problem:
            if not operation.changes and isinstance(problem, protocol.Closed | ConnectionError):
                return self._again(operation, message)
            raise EngineUnavailable(f"the helper at {self._path} does not answer: {problem or 'closed'}") from problem
        except msgspec.MsgspecError as problem:
            raise UnexpectedFailure(operation.name, f"the helper's answer: {problem}") from problem

    def _again(self, operation: Operation, message: bytes) -> protocol.Answer:
        """Once more, on a new connection: the old one may be of a helper that was restarted. Only what changes nothing."""
        try:
            with self._connection(fresh=True) as connection:
                return _talk(connection, message)
        except (OSError, protocol.Closed, msgspec.MsgspecError) as problem:
            raise EngineUnavailable(f"the helper at {self._path} does not answer: {problem or 'closed'}") from problem

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._seconds)
            connection.connect(str(self._path))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _connection(self, *, fresh: bool) -> Iterator[socket.socket]:
        """Given back when all went well, else closed. A change gets a fresh one: whether it was begun must never be in doubt
        because of a connection that had been closed long before.
        """
        with self._lock:
            connection = self._idle.pop() if self._idle and not fresh else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes those that are kept."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


class HelperClient(ZfsEngine, Keys, Exports, ConfigurationCopies, Log):
    """The engine behind the helper's socket. Threads may share it."""

    def __init__(self, path: Path, *, seconds: float = SECONDS) -> None:
        self._connections = _Connections(path, seconds)

    def close(self) -> None:
        """Closes its connections."""
        self._connections.close()

    def _ask(self, operation: str, **arguments: Any) -> Any:
        return self._connections.ask(OPERATIONS[operation], arguments)

    def disks(self) -> list[Disk]:
        """See ZfsEngine."""
        result: list[Disk] = self._ask("disks")
        return result

    def disk_health(self, device: str) -> DiskHealth:
        """See ZfsEngine."""
        result: DiskHealth = self._ask("disk_health", device=device)
        return result

    def pools(self) -> list[Pool]:
        """See ZfsEngine."""
        result: list[Pool] = self._ask("pools")
        return result

    def zpool_status(self, pool: str) -> str:
        """See ZfsEngine."""
        result: str = self._ask("zpool_status", pool=pool)
        return result

    def create_pool(
        self,
        name: str,
        vdevs: Sequence[VdevSpec],
        *,
        properties: Mapping[str, str] | None = None,
        filesystem_properties: Mapping[str, str] | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> PoolPlan:
        """See ZfsEngine."""
        result: PoolPlan = self._ask(
            "create_pool",
            name=name,
            vdevs=vdevs,
            properties=properties,
            filesystem_properties=filesystem_properties,
            force=force,
            dry_run=dry_run,
        )
        return result

    def add_vdevs(self, pool: str, vdevs: Sequence[VdevSpec], *, force: bool = False, dry_run: bool = False) -> PoolPlan:
        """See ZfsEngine."""
        result: PoolPlan = self._ask("add_vdevs", pool=pool, vdevs=vdevs, force=force, dry_run=dry_run)
        return result

    def remove_vdev(self, pool: str, device: str) -> None:
        """See ZfsEngine."""
        self._ask("remove_vdev", pool=pool, device=device)

    def replace(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("replace", pool=pool, device=device, new_device=new_device, force=force)

    def attach(self, pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("attach", pool=pool, device=device, new_device=new_device, force=force)

    def detach(self, pool: str, device: str) -> None:
        """See ZfsEngine."""
        self._ask("detach", pool=pool, device=device)

    def offline(self, pool: str, device: str) -> None:
        """See ZfsEngine."""
        self._ask("offline", pool=pool, device=device)

    def online(self, pool: str, device: str, *, expand: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("online", pool=pool, device=device, expand=expand)

    def clear(self, pool: str, device: str | None = None) -> None:
        """See ZfsEngine."""
        self._ask("clear", pool=pool, device=device)

    def scrub_start(self, pool: str) -> None:
        """See ZfsEngine."""
        self._ask("scrub_start", pool=pool)

    def scrub_pause(self, pool: str) -> None:
        """See ZfsEngine."""
        self._ask("scrub_pause", pool=pool)

    def scrub_stop(self, pool: str) -> None:
        """See ZfsEngine."""
        self._ask("scrub_stop", pool=pool)

    def importable(self) -> list[ImportablePool]:
        """See ZfsEngine."""
        result: list[ImportablePool] = self._ask("importable")
        return result

    def import_pool(self, pool: str, *, new_name: str | None = None, force: bool = False, mount: bool = True) -> Pool:
        """See ZfsEngine."""
        result: Pool = self._ask("import_pool", pool=pool, new_name=new_name, force=force, mount=mount)
        return result

    def export_pool(self, pool: str, *, force: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("export_pool", pool=pool, force=force)

    def upgrade_pool(self, pool: str) -> tuple[str, ...]:
        """See ZfsEngine."""
        result: tuple[str, ...] = self._ask("upgrade_pool", pool=pool)
        return result

    def sync(self, pool: str) -> None:
        """See ZfsEngine."""
        self._ask("sync", pool=pool)

    def datasets(self, root: str | None = None) -> DatasetList:
        """See ZfsEngine."""
        result: DatasetList = self._ask("datasets", root=root)
        return result

    def volume(self, name: str) -> Volume:
        """See ZfsEngine."""
        result: Volume = self._ask("volume", name=name)
        return result

    def filesystem(self, name: str) -> Filesystem:
        """See ZfsEngine."""
        result: Filesystem = self._ask("filesystem", name=name)
        return result

    def create_volume(
        self,
        name: str,
        volsize: int,
        *,
        volblocksize: int = 16384,
        thick: bool = False,
        properties: Mapping[str, str] | None = None,
        encryption: NewEncryption | None = None,
    ) -> Volume:
        """See ZfsEngine."""
        result: Volume = self._ask(
            "create_volume",
            name=name,
            volsize=volsize,
            volblocksize=volblocksize,
            thick=thick,
            properties=properties,
            encryption=encryption,
        )
        return result

    def create_filesystem(
        self, name: str, *, properties: Mapping[str, str] | None = None, encryption: NewEncryption | None = None
    ) -> Filesystem:
        """See ZfsEngine."""
        result: Filesystem = self._ask("create_filesystem", name=name, properties=properties, encryption=encryption)
        return result

    def grow_volume(self, name: str, volsize: int) -> Volume:
        """See ZfsEngine."""
        result: Volume = self._ask("grow_volume", name=name, volsize=volsize)
        return result

    def rename(self, name: str, new_name: str) -> None:
        """See ZfsEngine."""
        self._ask("rename", name=name, new_name=new_name)

    def destroy(self, name: str, *, with_snapshots: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("destroy", name=name, with_snapshots=with_snapshots)

    def dependants(self, name: str) -> list[Dependant]:
        """See ZfsEngine."""
        result: list[Dependant] = self._ask("dependants", name=name)
        return result

    def holders(self, name: str) -> tuple[str, ...]:
        """See ZfsEngine."""
        who: tuple[str, ...] = self._ask("holders", name=name)
        return who

    def unfinished(self, pool: str) -> tuple[str, ...]:
        """See ZfsEngine."""
        result: tuple[str, ...] = self._ask("unfinished", pool=pool)
        return result

    def mount(self, name: str) -> None:
        """See ZfsEngine."""
        self._ask("mount", name=name)

    def unmount(self, name: str, *, force: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("unmount", name=name, force=force)

    def promote(self, name: str) -> None:
        """See ZfsEngine."""
        self._ask("promote", name=name)

    def properties(self, name: str) -> Properties:
        """See ZfsEngine."""
        result: Properties = self._ask("properties", name=name)
        return result

    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """See ZfsEngine."""
        self._ask("set_properties", name=name, properties=properties)

    def inherit_property(self, name: str, property: str, *, received: bool = False) -> None:
        """See ZfsEngine."""
        self._ask("inherit_property", name=name, property=property, received=received)

    def snapshots(
        self, root: str | None = None, *, recursive: bool = True, user_properties: Sequence[str] = ()
    ) -> list[Snapshot]:
        """See ZfsEngine."""
        result: list[Snapshot] = self._ask("snapshots", root=root, recursive=recursive, user_properties=user_properties)
        return result

    def snapshot(self, snapshots: Sequence[str], *, properties: Mapping[str, str] | None = None) -> None:
        """See ZfsEngine."""
        self._ask("snapshot", snapshots=snapshots, properties=properties)

    def destroy_snapshots(self, snapshots: Sequence[str]) -> None:
        """See ZfsEngine."""
        self._ask("destroy_snapshots", snapshots=snapshots)

    def rename_snapshot(self, name: str, new_name: str) -> None:
        """See ZfsEngine."""
        self._ask("rename_snapshot", name=name, new_name=new_name)

    def hold(self, snapshots: Sequence[str], tag: str) -> None:
        """See ZfsEngine."""
        self._ask("hold", snapshots=snapshots, tag=tag)

    def release(self, snapshots: Sequence[str], tag: str) -> None:
        """See ZfsEngine."""
        self._ask("release", snapshots=snapshots, tag=tag)

    def holds(self, name: str) -> list[Hold]:
        """See ZfsEngine."""
        result: list[Hold] = self._ask("holds", name=name)
        return result

    def rollback(self, name: str, *, destroy: Sequence[str] = ()) -> None:
        """See ZfsEngine."""
        self._ask("rollback", name=name, destroy=list(destroy))

    def clone(self, snapshot: str, name: str, *, properties: Mapping[str, str] | None = None) -> None:
        """See ZfsEngine."""
        self._ask("clone", snapshot=snapshot, name=name, properties=properties)

    def load_key(self, name: str, key: bytes) -> None:
        """See ZfsEngine."""
        self._ask("load_key", name=name, key=key)

    def unload_key(self, name: str) -> None:
        """See ZfsEngine."""
        self._ask("unload_key", name=name)

    def create_encryption_root(self, name: str, identifier: str) -> None:
        """See Keys."""
        self._ask("create_encryption_root", name=name, identifier=identifier)

    def load_kept_key(self, name: str) -> None:
        """See Keys."""
        self._ask("load_kept_key", name=name)

    def export_kept_key(self, name: str) -> str:
        """See Keys."""
        result: str = self._ask("export_kept_key", name=name)
        return result

    def confirm_kept_key(self, name: str, key: bytes) -> None:
        """See Keys."""
        self._ask("confirm_kept_key", name=name, key=key)

    def keep_key(self, name: str, key: bytes) -> None:
        """See Keys."""
        self._ask("keep_key", name=name, key=key)

    def kept_keys(self) -> list[KeptKey]:
        """See Keys."""
        result: list[KeptKey] = self._ask("kept_keys")
        return result

    def add_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """See Exports."""
        self._ask(
            "add_export",
            dataset=dataset,
            guid=guid,
            number=number,
            share=share,
            clients=clients,
            squash=squash,
            versions=versions,
            thick_size=thick_size,
        )

    def change_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """See Exports."""
        self._ask(
            "change_export",
            dataset=dataset,
            guid=guid,
            number=number,
            share=share,
            clients=clients,
            squash=squash,
            versions=versions,
            thick_size=thick_size,
        )

    def remove_export(self, number: int) -> None:
        """See Exports."""
        self._ask("remove_export", number=number)

    def forget_export(self, number: int) -> None:
        """See Exports."""
        self._ask("forget_export", number=number)

    def read_copies(self, pool: str) -> list[str]:
        """See ConfigurationCopies."""
        result: list[str] = self._ask("read_copies", pool=pool)
        return result

    def write_copy(self, pool: str, installation: str, generation: int, content: str) -> None:
        """See ConfigurationCopies."""
        self._ask("write_copy", pool=pool, installation=installation, generation=generation, content=content)

    def log_lines(self) -> list[str]:
        """See Log."""
        result: list[str] = self._ask("log_lines")
        return result
