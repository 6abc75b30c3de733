# SPDX-License-Identifier: Apache-2.0
"""Calls into libzfs_core (pyzfs) with a time limit. Their failures are raised as ZfsErrors.

A call that waits in the kernel for a suspended pool cannot be ended: its thread remains, at most MAX_STUCK per pool.
"""

import collections
import concurrent.futures
import importlib
import threading
from typing import Any

from appliance.zfs import errors, leftover, names
from appliance.zfs.errors import ZfsError

MAX_STUCK = 8


class Library:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls: collections.Counter[str] = collections.Counter()
        self._loaded: Any = None

    def call(self, function: str, *arguments: Any) -> Any:
        """Result of the function. Raises Timeout, EngineUnavailable, and libzfs_core's exceptions."""
        if self._loaded is None:
            self._load()
        pool = _pool_of(arguments)
        with self._lock:
            if self._calls[pool] >= MAX_STUCK:
                raise errors.EngineUnavailable(f"{MAX_STUCK} calls wait for pool {pool}, which does not answer")
            self._calls[pool] += 1
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            try:
                done.set_result(getattr(self._loaded, function)(*arguments))
            except BaseException as problem:  # noqa: BLE001  # it is raised in the caller's thread
                done.set_exception(problem)
            finally:
                with self._lock:
                    self._calls[pool] -= 1

        threading.Thread(target=work, name=function, daemon=True).start()
        try:
            return done.result(self._seconds)
        except concurrent.futures.TimeoutError:
            leftover.add(done.done)
            raise errors.Timeout(function, self._seconds) from None

    def _load(self) -> None:
        try:
            self._loaded = importlib.import_module("libzfs_core")
            self._loaded.lzc_exists(b"nosuchpool")
        except Exception as problem:
            self._loaded = None
            raise errors.EngineUnavailable(f"libzfs_core: {problem}") from problem

    def exceptions(self) -> Any:
        return importlib.import_module("libzfs_core.exceptions")


def _pool_of(value: Any) -> str:
    while isinstance(value, (tuple, list, dict)) and value:
        value = next(iter(value))
    return names.pool_of(value.decode(errors="replace")) if isinstance(value, bytes) else ""


def failures(problem: BaseException) -> list[BaseException]:
    """Failures of a step over several names; those with a name first."""
    several = getattr(problem, "errors", None)
    single = list(several) if several else [problem]
    return sorted(single, key=lambda failure: getattr(failure, "name", None) is None)


def name_of(problem: BaseException, otherwise: str) -> str:
    name = getattr(problem, "name", None)
    return name.decode(errors="replace") if isinstance(name, bytes) else otherwise


def unexpected(operation: str, problem: BaseException) -> ZfsError:
    return errors.UnexpectedFailure(operation, str(problem)[:2000])
