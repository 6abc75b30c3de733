# SPDX-License-Identifier: Apache-2.0
"""DKMS never builds zvol_clone on its own: an OpenZFS that the module does not support must not break a kernel's installation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.programs import REPOSITORY, run

PACKAGE = REPOSITORY / "packaging/dkms/zvol_clone"
SKIPPED = 77
"""Exit code of dkms for a module that excludes this machine (BUILD_EXCLUSIVE_*)."""


@pytest.fixture
def dkms(tmp_path: Path) -> list[str | Path]:
    """Options of dkms for private trees with the package, and a kernel without an OpenZFS build."""
    kernel = "6.12.99+test"
    (tmp_path / "modules" / kernel / "build" / "include").mkdir(parents=True)
    run(PACKAGE / "install-dkms", tmp_path)
    (tmp_path / "tree").mkdir()
    trees: list[str | Path] = ["--dkmstree", tmp_path / "tree", "--sourcetree", tmp_path / "usr/src"]
    trees += ["--installtree", tmp_path / "modules"]
    run("dkms", "add", *trees, "zvol_clone/2.1")
    return [*trees, "--kernelver", kernel]


def code_of(*words: str | Path) -> int:
    return subprocess.run([*map(str, words)], capture_output=True, timeout=60, check=False).returncode


def test_the_installation_of_a_kernel_skips_it(dkms: list[str | Path], tmp_path: Path) -> None:
    assert code_of("dkms", "autoinstall", *dkms, "--arch", "x86_64") == 0
    assert code_of("dkms", "build", *dkms, "--arch", "x86_64", "zvol_clone/2.1") not in {0, SKIPPED}, "OpenZFS is not built"
    # With AUTOINSTALL the hook of linux-image failed.
    with (tmp_path / "usr/src/zvol_clone-2.1/dkms.conf").open("a") as configuration:
        configuration.write('AUTOINSTALL="yes"\n')
    assert code_of("dkms", "autoinstall", *dkms, "--arch", "x86_64") == 11


def test_other_processors_are_skipped(dkms: list[str | Path]) -> None:
    assert code_of("dkms", "build", *dkms, "--arch", "aarch64", "zvol_clone/2.1") == SKIPPED
