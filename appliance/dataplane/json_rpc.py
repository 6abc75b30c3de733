# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC 2.0 over a Unix socket, a message a line, as target and VAAI-NAS service speak it."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from appliance import decoding

_LONGEST_ANSWER = 64 << 20
"""Bytes: some MiB with many LUNs."""


def request(path: Path, method: str, parameters: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Sends one request on a new connection and returns the answer. Raises OSError, ValueError."""
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        connection.sendall(message + b"\n")
        with connection.makefile("rb", 1 << 20) as lines:
            line = lines.readline(_LONGEST_ANSWER)
    try:
        return decoding.decode(line, dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
