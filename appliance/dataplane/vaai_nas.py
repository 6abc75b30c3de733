"""Client of the VAAI-NAS service's control socket (docs/vaai_nas.md): JSON-RPC 2.0, a message a line; statistics only."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from appliance.dataplane.ganesha import GaneshaUnreachableError

_LONGEST_ANSWER = 64 << 20


def statistics(path: Path, timeout_s: float = 10) -> dict[str, Any]:
    """What was offloaded since the daemon began, `exports` and `hosts`. Raises GaneshaUnreachableError."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "statistics.get"}\n')
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline(_LONGEST_ANSWER))
        return dict(answer["result"])
    except (OSError, ValueError, KeyError) as error:
        raise GaneshaUnreachableError(f"the NFS server's counters can't be had at {path}: {error}") from error
