# SPDX-License-Identifier: Apache-2.0
"""The helper's socket: checks callers, answers requests in order on each connection, writes an audit line for each change."""

import contextlib
import json
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from appliance import decoding, logs
from appliance.dataplane.ganesha import GaneshaError
from appliance.helper import protocol
from appliance.helper.checks import Policy
from appliance.helper.exports import Exports
from appliance.helper.mounts import Mounts
from appliance.helper.operations import OPERATIONS, Operation
from appliance.helper.pool_locks import PoolLocks, pools_of
from appliance.helper.power import Power
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import Refused, UnexpectedFailure, ZfsError
from appliance.zfs.folders import Folders, SnapshotFolders
from appliance.zfs.keys import Keys

MAX_CONNECTIONS = 64
SILENT_SECONDS = 60.0
"""A connection whose client neither sends nor reads for this time is closed."""
STOP_SECONDS = 30.0
"""Time limit of running changes after SIGTERM."""
_log = logging.getLogger("zvaai-helper")


class Server:
    """Serves an engine over a listening Unix socket to these users. `system` returns the pools that must not be changed.

    `target_user` owns the folders of persistent reservations, and `allow` permits it to reserve space in a pool.
    """

    def __init__(
        self,
        engine: ZfsEngine,
        listener: socket.socket,
        *,
        users: Collection[int],
        policy: Policy,
        system: Callable[[], Collection[str]] = frozenset,
        target_user: int | None = None,
        allow: Callable[[str, int], None] | None = None,
        keys: Keys | None = None,
        exports: Exports | None = None,
        copies: ConfigurationCopies | None = None,
        power: Power | None = None,
    ) -> None:
        self._mounts = Mounts(policy.mount_directories, system, target_user, policy.pools, allow)
        self._engine = engine
        self._owners: dict[type, object | None] = {
            ZfsEngine: engine, Keys: keys, Exports: exports, ConfigurationCopies: copies,
            Folders: SnapshotFolders(engine, self._mounts.place), Power: power,
        }  # fmt: skip
        self._listener = listener
        self._users = frozenset(users)
        self._policy = policy
        self._busy = threading.Semaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._working = 0
        self._stopping = False
        self._end = os.eventfd(0)
        self._changes = 0
        self._locks = PoolLocks()

    def serve(self) -> None:
        """Accepts connections until stop().

        Never shuts the listener down: systemd listens at the same socket for the next helper, and would fail its unit.
        """
        while True:
            ready, _, _ = select.select([self._listener, self._end], [], [])
            if self._end in ready:
                self._listener.close()
                return
            connection, _ = self._listener.accept()
            if not self._busy.acquire(blocking=False):
                self._refuse(connection, f"{MAX_CONNECTIONS} connections are open")
                connection.close()
                continue
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def stop(self) -> None:
        """Accepts no more requests, and waits for running ones."""
        os.eventfd_write(self._end, 1)
        with self._lock:
            self._stopping = True
            self._idle.wait_for(lambda: self._working == 0, STOP_SECONDS)

    def _connection(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(SILENT_SECONDS)
            process, user = peer_of(connection)
            try:
                if user not in self._users:
                    _log.warning("refused: process %d of user %d", process, user)
                    self._refuse(connection, f"user {user} is not served")
                    return
                self._request(connection, process, user)
            except (OSError, protocol.Closed):
                pass
            finally:
                self._busy.release()

    def _refuse(self, connection: socket.socket, reason: str) -> None:
        with contextlib.suppress(OSError):
            protocol.write_message(connection, protocol.encode_error(Refused(reason)))

    def _request(self, connection: socket.socket, process: int, user: int) -> None:
        try:
            message = protocol.read_message(connection, protocol.MAX_REQUEST_BYTES)
        except Refused as problem:
            self._refuse(connection, problem.reason)
            return
        with self._lock:
            if self._stopping:
                return
            self._working += 1
        try:
            protocol.write_message(connection, self.answer(message, process, user))
        finally:
            with self._lock:
                self._working -= 1
                self._idle.notify_all()

    def answer(self, message: bytes, process: int, user: int) -> bytes:
        """Answer to a request; never raises."""
        try:
            request = protocol.decode_request(message)
            logs.of_request(request.request)
            operation = OPERATIONS.get(request.operation)
            if operation is None:
                raise Refused(f"no operation {request.operation[:100]!r}")
            arguments = self._arguments(operation, request)
            self._policy.check(operation.name, arguments)
            return protocol.encode_result(self._perform(operation, arguments, process, user))
        except (ZfsError, GaneshaError) as problem:
            if isinstance(problem, Refused):
                _log.warning(
                    "%s", json.dumps({"audit": "refused", "reason": problem.reason[:300], "process": process, "user": user})
                )
            return protocol.encode_error(problem)
        except Exception as problem:
            _log.exception("a request failed")
            return protocol.encode_error(UnexpectedFailure("helper", repr(problem)[:2000]))

    def _arguments(self, operation: Operation, request: protocol.Request) -> Mapping[str, Any]:
        try:
            decoded = decoding.decode(request.arguments, operation.arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
            raise Refused(f"{operation.name}: {problem}"[:300]) from None
        return {name: getattr(decoded, name) for name in operation.arguments.__struct_fields__}

    def _perform(self, operation: Operation, arguments: Mapping[str, Any], process: int, user: int) -> Any:
        owner = self._owners[operation.owner]
        if owner is None:
            raise Refused(f"{operation.name} needs an option of the helper: --keys, --exports or --power")
        method = getattr(owner, operation.name)
        if not operation.changes:
            shown = self._policy.shown(method(**arguments))
            return self._mounts.marked(shown) if operation.name == "pools" and isinstance(shown, list) else shown
        # A change that hangs in a suspended pool keeps the lock until `clear`.
        pools = frozenset() if operation.name == "clear" else pools_of(arguments)
        with self._locks.held(pools, operation.name):
            return self._change(operation, method, arguments, process, user)

    def _change(
        self, operation: Operation, method: Callable[..., Any], arguments: Mapping[str, Any], process: int, user: int
    ) -> Any:
        allowed = self._mounts.before(self._engine, operation.name, arguments)
        with self._audited(operation, arguments, process, user):
            self._mounts.clear(self._engine, operation.name, arguments)
            result = method(**allowed)
            self._mounts.after(self._engine, operation.name, arguments, result)
            return result

    @contextlib.contextmanager
    def _audited(self, operation: Operation, arguments: Mapping[str, Any], process: int, user: int) -> Iterator[None]:
        with self._lock:
            self._changes += 1
            number = self._changes
        shown = {name: auditable(name, value) for name, value in arguments.items()}
        line = {"change": number, "operation": operation.name, "arguments": shown, "process": process, "user": user}
        _log.info("%s", json.dumps({"audit": "begun", **line}))
        began, outcome = time.monotonic(), "done"
        try:
            yield
        except (ZfsError, GaneshaError) as problem:
            outcome = protocol.code_of(problem)
            raise
        except BaseException:
            outcome = "unexpected"
            raise
        finally:
            seconds = round(time.monotonic() - began, 3)
            line = {"change": number, "operation": operation.name, "outcome": outcome, "seconds": seconds}
            _log.info("%s", json.dumps({"audit": "ended", **line}))


def auditable(name: str, value: Any) -> Any:
    """Form of an argument for the audit: without keys, and of limited length."""
    if name in {"content", "key"} and value is not None:
        return "(not shown)"
    if name == "text":
        return f"({len(value)} bytes)"
    if name == "settings":
        return {**msgspec.to_builtins(value), "clients": auditable("clients", value.clients)}
    if name in {"snapshots", "clients"} and len(value) > 20:
        return [*value[:20], f"and {len(value) - 20} more"]
    return msgspec.to_builtins(value)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Process and user of the peer at its connect (unix(7), SO_PEERCRED)."""
    process, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
    return process, user
