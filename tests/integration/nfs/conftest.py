# SPDX-License-Identifier: Apache-2.0
"""File systems for NFS: XFS with reflink natively, a dataset in the guest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ganesha import mounted_dataset, mounted_xfs
from support.programs import IN_GUEST

StoreMaker = Callable[..., Path]
"""The argument is a name; `size_mib` is the size of an XFS."""


@contextlib.contextmanager
def store_maker(directory: Path, request: pytest.FixtureRequest) -> Iterator[StoreMaker]:
    """Makes empty file systems by name; removes all at the end."""
    with contextlib.ExitStack() as stack:

        def make(name: str, size_mib: int = 512) -> Path:
            if IN_GUEST:
                return stack.enter_context(mounted_dataset(f"{request.getfixturevalue('pool').name}/{name}"))
            return stack.enter_context(mounted_xfs(directory / name, size_mib))

        yield make


@pytest.fixture
def make_store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StoreMaker]:
    """`store_maker` for a test."""
    with store_maker(tmp_path, request) as make:
        yield make


@pytest.fixture
def nfs_store(make_store: StoreMaker) -> Path:
    """An empty file system."""
    return make_store("store")


@pytest.fixture(scope="module")
def make_lasting_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[StoreMaker]:
    """`store_maker` for all tests of a file."""
    with store_maker(tmp_path_factory.mktemp("stores"), request) as make:
        yield make


@pytest.fixture(scope="module")
def lasting_store(make_lasting_store: StoreMaker) -> Path:
    """A file system that all tests of a file share."""
    return make_lasting_store("lasting")
