# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the fault suites, which run on the host and kill guests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import CACHE


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder shared by host and guest."""
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        yield Path(directory)
