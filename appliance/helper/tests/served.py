# SPDX-License-Identifier: Apache-2.0
"""A helper in this process, over a real socket."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from simulators.copies import FolderCopies

from appliance.helper.checks import Policy
from appliance.helper.client import HelperClient, connect
from appliance.helper.exports import Exports
from appliance.helper.power import Power
from appliance.helper.server import Server
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.keys import StoredKeys


@contextlib.contextmanager
def served(
    engine: ZfsEngine,
    path: Path,
    *,
    users: Collection[int] | None = None,
    policy: Policy | None = None,
    exports: Exports | None = None,
    listen_at: socket.socket | None = None,
    power: Power | None = None,
) -> Iterator[None]:
    """Serves the engine at this path during the body. `listen_at` is the socket to listen at, which stays open afterwards."""
    path.unlink(missing_ok=True)
    listener = listen_at or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(64)
    server = Server(
        engine,
        listener.dup() if listen_at else listener,
        users={os.geteuid()} if users is None else users,
        policy=policy or Policy(),
        keys=StoredKeys(engine, path.with_suffix(".keys")),
        exports=exports,
        copies=FolderCopies(path.with_suffix(".copies")),
        power=power,
    )
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


@contextlib.contextmanager
def client_of(
    engine: ZfsEngine,
    path: Path,
    *,
    policy: Policy | None = None,
    seconds: float = 60.0,
    power: Power | None = None,
) -> Iterator[HelperClient]:
    with served(engine, path, policy=policy, power=power):
        yield connect(path, seconds=seconds)
