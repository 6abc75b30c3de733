"""The Debian packages that `make packages` builds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from support.programs import CACHE, REPOSITORY, run

PACKAGES = CACHE / "packages"
NEEDED = {
    "zvaai-target": {"/usr/sbin/zvaai-target", "/usr/lib/systemd/system/zvaai-target.service"},
    "zvaai-nfs": {
        "/usr/lib/x86_64-linux-gnu/ganesha/libfsalzvaai.so",
        "/usr/lib/zvaai/ganesha/libganesha_nfsd.so.6.5",
        "/usr/lib/zvaai/choose-library",
        "/usr/lib/zvaai/mounted-exports",
        "/etc/zvaai/ganesha.conf",
        "/etc/zvaai/vaai-nas.conf",
        "/usr/lib/systemd/system/nfs-ganesha.service.d/zvaai.conf",
    },
    "zvaai": {
        "/usr/bin/zvaai",
        "/usr/lib/zvaai/appliance/api/__main__.py",
        "/usr/lib/zvaai/apiflask/__init__.py",
        "/usr/share/zvaai/console/index.html",
        "/etc/zfs/zed.d/all-zvaai.py",
        "/usr/share/dbus-1/system.d/zvaai-nfs.conf",
        *(f"/usr/lib/systemd/system/zvaai-{name}" for name in ("api.service", "worker.service", "helper.service")),
        *(f"/usr/lib/systemd/system/zvaai-{name}" for name in ("helper.socket", "mounts.service")),
    },
    "zvaai-zvol-clone-dkms": {"/usr/src/zvol_clone-2.1/dkms.conf", "/usr/sbin/zvol_clone-load"},
    "libvaainas1": {"/usr/lib/x86_64-linux-gnu/libvaainas.so.1"},
    "libvaainas-dev": {"/usr/include/vaainas.h", "/usr/lib/x86_64-linux-gnu/libvaainas.so"},
    "vaai-nas": {"/usr/bin/vaai-nas", "/usr/share/man/man1/vaai-nas.1.gz"},
    "zvaai-standalone": set(),
}


def field(package: Path, name: str) -> str:
    """Of a package's control file."""
    return run("dpkg-deb", "--field", package, name).strip()


@pytest.fixture(scope="module")
def packages() -> dict[str, Path]:
    """The files by the names of their packages."""
    return {field(path, "Package"): path for path in PACKAGES.glob("*.deb")}


def test_lintian_finds_nothing() -> None:
    """It ran when they were built, with the tags that packaging/build-packages leaves out for a reason."""
    assert (PACKAGES / "lintian.txt").read_text() == ""


def test_each_file_is_in_one_package(packages: dict[str, Path]) -> None:
    listed = {name: run("dpkg-deb", "--contents", path).splitlines() for name, path in packages.items()}
    files = {
        name: {line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")} for name, lines in listed.items()
    }
    assert {name: needed - files[name] for name, needed in NEEDED.items()} == dict.fromkeys(NEEDED, set())
    assert set(files) == set(NEEDED)
    assert [file for file, times in Counter(file for found in files.values() for file in found).items() if times > 1] == []
    assert [file for file in files["zvaai"] if "/tests/" in file or file.endswith(".pyc")] == []


def test_they_belong_together(packages: dict[str, Path]) -> None:
    """One version; and the library of nfs-ganesha that ours is in place of is the pinned one, or a security update of it."""
    assert len({field(path, "Version") for path in packages.values()}) == 1
    pinned = re.findall(r"^NFS_GANESHA_VERSION=(.*)$", (REPOSITORY / "packaging/ganesha/versions").read_text(), re.MULTILINE)[0]
    depends = dict(re.findall(r"nfs-ganesha \((>=|<<) ([^)]+)\)", field(packages["zvaai-nfs"], "Depends")))
    assert depends[">="] == pinned
    for version, accepted in ((f"{pinned}+deb13u1", True), (f"{pinned[:-1]}{int(pinned[-1]) + 1}", False)):
        words = ["dpkg", "--compare-versions", version, "lt", depends["<<"]]
        assert run("sh", "-c", '"$@" && echo yes || echo no', "sh", *words).strip() == ("yes" if accepted else "no")
