# SPDX-License-Identifier: Apache-2.0
"""What who holds the engine has logged, where that is another process: for the support bundle."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Log(ABC):
    """Who tells it."""

    @abstractmethod
    def log_lines(self) -> list[str]:
        """The newest lines, oldest first; no keys are in them. Raises EngineUnavailable, UnexpectedFailure."""
