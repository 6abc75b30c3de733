# SPDX-License-Identifier: Apache-2.0
"""How the HTTP process asks the worker. It imports nothing that changes storage."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from appliance import logs
from appliance.domain.errors import UnavailableError, from_wire
from appliance.domain.requests import Request

_LONGEST_ANSWER = 256 << 20
_QUICK_S = 2.0


class WorkerClient:
    """The worker behind its socket. For several threads at once: each call has a connection of its own."""

    def __init__(self, path: Path, timeout_s: float = 60) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def quick(self) -> WorkerClient:
        """One that does not wait long, for what only has to know whether somebody answers."""
        return WorkerClient(self._path, _QUICK_S)

    def call(self, method: str, **parameters: Any) -> Any:
        """The result. Raises the DomainError that the worker did, UnavailableError when it does not answer."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self._timeout_s)
                connection.connect(str(self._path))
                connection.sendall(
                    json.dumps({"method": method, "params": parameters, "request": logs.request()}).encode() + b"\n"
                )
                with connection.makefile("rb") as lines:
                    line = lines.readline(_LONGEST_ANSWER)
            answer = msgspec.json.decode(line)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise UnavailableError(f"the worker does not answer: {error}") from error
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer["result"]

    def submit(self, request: Request, actor: str, key: str | None) -> str:
        """A job's identifier, once it is checked and queued. Raises DomainError when it is refused.

        The same `key` again is the same job. What the worker can't queue while somebody waits for the answer it does not queue.
        """
        until = time.monotonic() + self._timeout_s * 0.9  # one clock for all processes
        return str(self.call("submit", request=msgspec.to_builtins(request), actor=actor, key=key, until=until)["job"])
