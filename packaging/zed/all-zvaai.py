#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""Hands events about the health of pools to the appliance's worker. Installed in /etc/zfs/zed.d, where zed(8) finds it.

Without it the worker sees the state of pools every minute, and no single events. While the worker is away an event is lost;
what it has changed is seen in the state of the pool.
"""

import os
import sys

# The history of commands and writes of a pool's configuration are most events, and of no use. What follows is slow to load.
if os.environ.get("ZEVENT_CLASS", "").rpartition(".")[2] in ("history_event", "config_sync", "config_cache_write"):
    sys.exit()

import json  # noqa: E402
import socket  # noqa: E402

SOCKET = "/run/zvaai/worker.sock"
SECONDS = 5
FIELDS = {"class": "ZEVENT_CLASS", "pool": "ZEVENT_POOL", "vdev": "ZEVENT_VDEV_PATH", "state": "ZEVENT_VDEV_STATE_STR"}


def main() -> int:
    """Prints nothing if the worker's socket is closed: the appliance's readiness check reports that."""
    event = {name: os.environ.get(variable, "")[:1024] for name, variable in FIELDS.items()}
    number = os.environ.get("ZEVENT_EID", "")
    fields = {**event, "eid": int(number) if number.isdecimal() else 0}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS)
            connection.connect(SOCKET)
            connection.sendall(json.dumps({"method": "zfs_event", "params": fields}).encode() + b"\n")
            return 0 if b'"result"' in connection.recv(65536) else 1
    except OSError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
