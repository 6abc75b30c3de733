# SPDX-License-Identifier: Apache-2.0
"""Reboot and shutdown of the server, by systemd's logind."""

import subprocess
from abc import ABC, abstractmethod

from appliance.zfs.errors import UnexpectedFailure

_DELAY = "+2s"
"""So that the answer reaches the browser before its connection ends."""
_LIMIT_S = 30


class Power(ABC):
    @abstractmethod
    def shut_down(self, reboot: bool) -> None:
        """Schedules the shutdown in a moment, and with `reboot` a start after it. Raises UnexpectedFailure."""


class SystemPower(Power):
    def shut_down(self, reboot: bool) -> None:
        words = ["systemctl", "reboot" if reboot else "poweroff", f"--when={_DELAY}"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        except (OSError, subprocess.SubprocessError) as problem:
            raise UnexpectedFailure("shut_down", str(problem)) from problem
        if done.returncode != 0:
            raise UnexpectedFailure("shut_down", f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
