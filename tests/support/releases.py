# SPDX-License-Identifier: Apache-2.0
"""Other versions of our packages in a repository: the built ones with another number and a change or none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from support.programs import REPOSITORY, run

Change = Callable[[str, Path], None]
"""Changes a package: receives its name and the folder where it is unpacked (control files in DEBIAN)."""


def nothing(_package: str, _tree: Path) -> None:
    """No change."""


def version_of(repository: Path) -> str:
    """The one version that a repository has."""
    versions = {run("dpkg-deb", "--field", package, "Version").strip() for package in (repository / "pool").glob("*.deb")}
    assert len(versions) == 1, versions
    return versions.pop()


def publish(repository: Path, version: str, change: Change = nothing) -> None:
    """Adds this version of all packages to a repository, made of the version that was built."""
    scratch = repository.with_name(f"{repository.name}.scratch")
    built = [package for package in sorted((repository / "pool").glob("*.deb")) if not package.name.startswith("made-")]
    for package in built:
        tree = scratch / package.stem
        tree.parent.mkdir(exist_ok=True)
        run("dpkg-deb", "--raw-extract", package, tree)
        control = tree / "DEBIAN/control"
        text = control.read_text()
        before = re.findall(r"^Version: (.*)$", text, re.MULTILINE)[0]
        control.write_text(
            text.replace(f"Version: {before}\n", f"Version: {version}\n").replace(f"(= {before})", f"(= {version})")
        )
        name = re.findall(r"^Package: (.*)$", text, re.MULTILINE)[0]
        change(name, tree)
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, repository / f"pool/made-{name}-{version}.deb")
    shutil.rmtree(scratch)
    index(repository)


def index(repository: Path) -> None:
    """Signs it again; zvaai.sources does not change, because it has the machine's address."""
    sources = (repository / "zvaai.sources").read_text()
    run(REPOSITORY / "packaging/build-repository", "--index", repository)
    (repository / "zvaai.sources").write_text(sources)


def insert(script: Path, lines: str) -> None:
    """Puts lines at the start of a maintainer script."""
    text = script.read_text()
    assert "\nset -e\n" in text, script
    script.write_text(text.replace("\nset -e\n", f"\nset -e\n{lines}\n", 1))
