# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.helper`: serves until SIGTERM or SIGINT.

Exit codes: 2 for the command line, 69 (EX_UNAVAILABLE) without OpenZFS, 78 (EX_CONFIG) for a user that does not exist.
"""

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

from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.helper import places
from appliance.helper.checks import Policy
from appliance.helper.exports import CheckedExports
from appliance.helper.mounts import pools_of_the_system
from appliance.helper.power import SystemPower
from appliance.helper.server import Server
from appliance.logs import to_standard_error
from appliance.zfs.configuration_copies import ConfigurationCopies, PoolCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import ZfsError
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.kernel.delegation import allow_reservation
from appliance.zfs.kernel.disks import FOLDERS
from appliance.zfs.keys import StoredKeys

FIRST_PASSED_DESCRIPTOR = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zvaai-helper", description="Root's operations on OpenZFS for the appliance's worker.")
    parser.add_argument("--socket", type=Path, help="path of the socket (default: the socket from systemd)")
    parser.add_argument("--user", action="append", default=[], help="user that may connect, in addition to root; repeatable")
    parser.add_argument(
        "--device-directory",
        action="append",
        default=[],
        help="folder of the devices for pools; repeatable (default: /dev/disk/)",
    )
    parser.add_argument(
        "--mount-directory",
        action="append",
        default=[],
        help="folder where file systems are mounted; repeatable (default: /srv/zvaai/)",
    )
    parser.add_argument(
        "--pool", action="append", metavar="NAME", help="pool that may be shown and changed; repeatable (default: all)"
    )
    parser.add_argument("--target-user", help="user of the iSCSI target, which stores persistent reservations")
    parser.add_argument("--keys", type=Path, metavar="DIRECTORY", help="folder of the sealed keys of encrypted datasets")
    parser.add_argument(
        "--exports",
        type=Path,
        metavar="DIRECTORY",
        help="folder of nfs-ganesha's export files; without it exports cannot be changed",
    )
    parser.add_argument(
        "--with-exports", type=Path, metavar="FILE", help="configuration sent to nfs-ganesha with each new export"
    )
    parser.add_argument("--power", action="store_true", help="permit reboot and shutdown of this server")
    parser.add_argument("--bus", default="SYSTEM", metavar="ADDRESS", help="message bus of nfs-ganesha (default: the system bus)")
    parser.add_argument(
        "--repair-mounts",
        action="store_true",
        help="load the keys, mount the datastores, unmount copies that are mounted in their place, and exit",
    )
    parser.add_argument(
        "--search",
        action="append",
        default=[],
        help=f"folder to search for importable pools; repeatable (default: {' and '.join(FOLDERS)})",
    )
    return parser.parse_args()


def _listener(path: Path | None) -> socket.socket:
    """The socket from systemd, or a new one with mode 0666: the server checks the user of each connection."""
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
    engine: ZfsEngine
    copies: ConfigurationCopies
    system: Callable[[], frozenset[str]] = pools_of_the_system
    allow: Callable[[str, int], None] | None = allow_reservation
    """Lets the target's user reserve space; see kernel.delegation."""


def openzfs(options: argparse.Namespace, policy: Policy) -> Storage:
    # Not zpool's default folders: they include zvols, and a host could write a pool's labels into one.
    engine = KernelEngine(device_directories=options.search or FOLDERS)
    return Storage(engine, PoolCopies(engine, policy.mount_directories[0]))


def main(storage_of: Callable[[argparse.Namespace, Policy], Storage] = openzfs) -> int:
    to_standard_error()
    options = _arguments()
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
    keys = StoredKeys(engine, options.keys) if options.keys else None
    if options.repair_mounts:
        if keys:
            places.unlock(engine, policy.mount_directories, keys)
        return 0 if places.repair(engine, policy.mount_directories) else 1

    ganesha = Ganesha(options.exports, options.bus, options.with_exports) if options.exports else None
    exports = CheckedExports(engine, ganesha, policy.mount_directories) if ganesha else None
    listener = _listener(options.socket)
    server = Server(
        engine, listener, users=users, policy=policy, system=storage.system, target_user=target_user,
        allow=storage.allow, keys=keys, exports=exports,
        copies=storage.copies, power=SystemPower() if options.power else None,
    )  # fmt: skip
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    failed = threading.Event()

    def serve() -> None:
        try:
            server.serve()
        except Exception:
            logging.exception("no more connections are accepted")
            failed.set()
            stopping.set()

    threading.Thread(target=serve, daemon=True).start()
    while not stopping.wait(1):  # while a tracer stops this thread, another one gets the signal, and no wait ends
        pass
    server.stop()
    return 70 if failed.is_set() else 0  # systemd starts it again


if __name__ == "__main__":
    sys.exit(main())
