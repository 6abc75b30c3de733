# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.helper`: serves until SIGTERM or SIGINT.

Exit codes: 2 for the command line, 69 (EX_UNAVAILABLE) when OpenZFS is not there, 78 (EX_CONFIG) for a user that does not exist.
"""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.dataplane.ganesha import Ganesha
from appliance.helper import places
from appliance.helper.checks import Policy
from appliance.helper.exports import CheckedExports
from appliance.helper.log import keep
from appliance.helper.mounts import pools_of_the_system
from appliance.helper.server import Server
from appliance.zfs.configuration_copies import ConfigurationCopies, PoolCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import ZfsError
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.kernel.delegation import allow_reservation
from appliance.zfs.keys import KeptKeys

FIRST_PASSED_DESCRIPTOR = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zvaai-helper", description="Root's operations on OpenZFS for the appliance's worker.")
    parser.add_argument("--socket", type=Path, help="where to listen; without, the socket systemd passes")
    parser.add_argument("--user", action="append", default=[], help="who may call, besides root; again for another")
    parser.add_argument(
        "--device-directory", action="append", default=[], help="where pools' devices lie (/dev/disk/ unless told)"
    )
    parser.add_argument("--mount-directory", action="append", default=[], help="where file systems are mounted (/srv/zvaai/)")
    parser.add_argument("--pool", action="append", metavar="NAME", help="no other pool is shown or touched; again for another")
    parser.add_argument("--target-user", help="who keeps persistent reservations: the iSCSI target's user")
    parser.add_argument("--keys", type=Path, metavar="DIRECTORY", help="where keys of encrypted datasets are kept, sealed")
    parser.add_argument(
        "--master-key", type=Path, metavar="FILE", help="what they are sealed with (made in the directory unless told)"
    )
    parser.add_argument(
        "--logs", type=Path, metavar="DIRECTORY", help="where the log is kept in files too (in memory unless told)"
    )
    parser.add_argument(
        "--exports", type=Path, metavar="DIRECTORY", help="nfs-ganesha's exports, one file each; without, none is changed"
    )
    parser.add_argument(
        "--with-exports", type=Path, metavar="FILE", help="configuration that goes to nfs-ganesha with each new export"
    )
    parser.add_argument(
        "--bus", default="SYSTEM", metavar="ADDRESS", help="where nfs-ganesha is asked (the system's bus unless told)"
    )
    parser.add_argument(
        "--settle-mounts",
        action="store_true",
        help="no service: unmount copies of datastores that are mounted at their places, mount these, and end",
    )
    parser.add_argument("--search", action="append", default=[], help="where to look for pools to import (/dev/disk/by-id)")
    return parser.parse_args()


def _listener(path: Path | None) -> socket.socket:
    """The socket that systemd passed, or a new one that everybody may connect to: who may call is checked for each."""
    if path is None:
        if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
            raise SystemExit("zvaai-helper: neither --socket nor a socket of systemd")
        return socket.socket(fileno=FIRST_PASSED_DESCRIPTOR)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(64)
    return listener


def _directories(given: list[str], usual: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{directory.rstrip('/')}/" for directory in given) or usual


@dataclass(frozen=True)
class Storage:
    """What the helper works on."""

    engine: ZfsEngine
    copies: ConfigurationCopies
    system: Callable[[], frozenset[str]] = pools_of_the_system
    allow: Callable[[str, int], None] | None = allow_reservation
    """Lets the target's user reserve space; see kernel.delegation."""


def openzfs(options: argparse.Namespace, policy: Policy) -> Storage:
    """OpenZFS of this machine."""
    # Not what zpool searches by itself: zvols are among it, and what a host wrote into one could look like a pool.
    engine = KernelEngine(device_directories=options.search or ["/dev/disk/by-id"])
    return Storage(engine, PoolCopies(engine, policy.mount_directories[0]))


def main(storage_of: Callable[[argparse.Namespace, Policy], Storage] = openzfs) -> int:
    """Runs the helper."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s: %(message)s")
    options = _arguments()
    log = keep(options.logs)
    try:
        users = {0, os.geteuid(), *(pwd.getpwnam(user).pw_uid for user in options.user)}
        target_user = pwd.getpwnam(options.target_user).pw_uid if options.target_user else None
    except KeyError as problem:
        logging.error("%s", problem)
        return 78
    usual = Policy()
    policy = Policy(
        device_directories=_directories(options.device_directory, usual.device_directories),
        mount_directories=_directories(options.mount_directory, usual.mount_directories),
        pools=frozenset(options.pool) if options.pool else None,
    )
    storage = storage_of(options, policy)
    engine = storage.engine
    try:
        engine.pools()
    except ZfsError as problem:
        logging.error("%s", problem)
        return 69
    if options.settle_mounts:
        return 0 if places.settle(engine, policy.mount_directories) else 1

    keys = KeptKeys(engine, options.keys, options.master_key) if options.keys else None
    ganesha = Ganesha(options.exports, options.bus, options.with_exports) if options.exports else None
    exports = CheckedExports(engine, ganesha, policy.mount_directories) if ganesha else None
    listener = _listener(options.socket)
    server = Server(
        engine, listener, users=users, policy=policy, system=storage.system, target_user=target_user,
        allow=storage.allow, keys=keys, exports=exports,
        copies=storage.copies, log=log,
    )  # fmt: skip
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=server.serve, daemon=True).start()
    stopping.wait()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
