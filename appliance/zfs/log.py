# SPDX-License-Identifier: Apache-2.0
"""Log of the engine's process, for the support bundle."""

from abc import ABC, abstractmethod


class Log(ABC):
    @abstractmethod
    def log_lines(self) -> list[str]:
        """The latest lines, oldest first, without keys. Raises EngineUnavailable, UnexpectedFailure."""
