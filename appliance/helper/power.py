# SPDX-License-Identifier: Apache-2.0
"""Reboot and shutdown of the server, by systemd's logind."""

from abc import ABC, abstractmethod

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel import commands

_DELAY = "+2s"
"""So that the answer reaches the browser before its connection ends."""
_LIMIT_S = 30.0


class Power(ABC):
    @abstractmethod
    def shut_down(self, reboot: bool) -> None:
        """Schedules the shutdown in a moment, and with `reboot` a start after it. Raises ZfsError."""


class SystemPower(Power):
    def shut_down(self, reboot: bool) -> None:
        action = "reboot" if reboot else "poweroff"
        done = commands.run((commands.SYSTEMCTL, action, f"--when={_DELAY}"), seconds=_LIMIT_S)
        if done.status != 0:
            raise UnexpectedFailure("shut_down", f"systemctl {action}: {done.complaint.strip()[-500:]}")
