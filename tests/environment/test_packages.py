# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of `make packages` and their repository. Their dependencies come from the archive."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import CACHE, REPOSITORY, ProgramFailed, run

PACKAGES = CACHE / "packages"
NEEDED = {
    "zvaai-target": {
        "/usr/sbin/zvaai-target",
        "/usr/lib/systemd/system/zvaai-target.service",
        "/usr/lib/udev/rules.d/59-zvaai-target.rules",
    },
    "zvaai-nfs": {
        "/usr/lib/x86_64-linux-gnu/ganesha/libfsalzvaai.so",
        "/usr/lib/zvaai/ganesha/libganesha_nfsd.so.6.5",
        "/usr/lib/zvaai/choose-library",
        "/usr/lib/zvaai/mounted_exports.py",
        "/etc/zvaai/ganesha.conf",
        "/etc/zvaai/vaai-nas.conf",
        "/usr/lib/systemd/system/nfs-ganesha.service.d/zvaai.conf",
        "/usr/lib/systemd/system/nfs-ganesha-config.service.d/zvaai.conf",
    },
    "zvaai": {
        "/usr/bin/zvaai",
        "/usr/lib/zvaai/appliance/gateway/__main__.py",
        "/usr/lib/zvaai/apiflask/__init__.py",
        "/usr/share/zvaai/console/index.html",
        "/etc/zfs/zed.d/all-zvaai.py",
        "/etc/zvaai/nginx.conf",
        "/usr/share/dbus-1/system.d/zvaai-nfs.conf",
        *(f"/usr/lib/systemd/system/zvaai-{name}" for name in ("api.service", "api.socket", "worker.service", "helper.service")),
        *(f"/usr/lib/systemd/system/zvaai-{name}" for name in ("helper.socket", "mounts.service")),
        *(f"/usr/lib/systemd/system/zvaai-{name}" for name in ("login-screen.service", "login-screen.path", "setup.service")),
        "/usr/lib/zvaai/login-screen",
        *(f"/usr/lib/systemd/system/zvaai-frontend{name}" for name in (".service", "-reload.service", "-restart.timer")),
    },
    "zvaai-zvol-clone-dkms": {"/usr/src/zvol_clone-2.1/dkms.conf", "/usr/sbin/zvol_clone-load"},
    "vaai-nas": {"/usr/bin/vaai-nas", "/usr/share/man/man1/vaai-nas.1.gz"},
    "zvaai-standalone": set(),
}


def field(package: Path, name: str) -> str:
    """Field of a package's control file."""
    return run("dpkg-deb", "--field", package, name).strip()


@pytest.fixture(scope="module")
def packages() -> dict[str, Path]:
    """Package files by package name."""
    return {field(path, "Package"): path for path in PACKAGES.glob("*.deb")}


def test_the_version_has_the_commit_of_a_checkout_of_another_user(tmp_path: Path) -> None:
    script = """
        cp "$1/pyproject.toml" . && git init --quiet . && git add .
        git -c user.name=test -c user.email=test@localhost commit --quiet --message first
        chown --recursive nobody .
        eval "$(sed -n '/^version() {/,/^}/p' "$1/packaging/build-packages")"
        fail() { exit 1; }
        repository=$PWD version
    """
    assert re.fullmatch(r"[\d.]+~\d{12}\.g[0-9a-f]+\n", run("bash", "-euc", script, "bash", REPOSITORY, cwd=tmp_path))


def test_a_cleaned_cache_still_has_the_key_of_the_repository(tmp_path: Path) -> None:
    """Servers refuse a repository that another key has signed."""
    checkout, cache = tmp_path / "checkout", tmp_path / "cache"
    for name in ("clean", "rootfs/common.sh"):
        (checkout / "packaging" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "packaging" / name, checkout / "packaging" / name)
    for folder in (cache / "repository-key", cache / "rootfs", cache / "layers", checkout / ".cache"):
        folder.mkdir(parents=True)
    run(checkout / "packaging/clean", "cache", env={**os.environ, "ZVAAI_CACHE": str(cache)})
    assert [path.name for path in cache.iterdir()] == ["repository-key"] and not (checkout / ".cache").exists()


def test_a_folder_that_cannot_be_signed_does_not_change(tmp_path: Path) -> None:
    """The root folder has only the checkout and the cache."""
    (tmp_path / "dists").mkdir()
    with pytest.raises(ProgramFailed, match="FOLDER must lie below"):
        run(REPOSITORY / "packaging/build-repository", "--index", tmp_path, "https://repository.example")
    assert (tmp_path / "dists").exists()


def test_lintian_finds_nothing() -> None:
    """It ran during the build, with the tags that packaging/build-packages excludes, with reasons."""
    assert (PACKAGES / "lintian.txt").read_text() == ""


def test_each_file_is_in_one_package(packages: dict[str, Path]) -> None:
    listed = {name: run("dpkg-deb", "--contents", path).splitlines() for name, path in packages.items()}
    files = {
        name: {line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")} for name, lines in listed.items()
    }
    assert {name: needed - files[name] for name, needed in NEEDED.items()} == dict.fromkeys(NEEDED, set())
    assert set(files) == set(NEEDED)
    assert [file for file, times in Counter(file for contents in files.values() for file in contents).items() if times > 1] == []
    assert [file for file in files["zvaai"] if "/tests/" in file or file.endswith(".pyc")] == []


def test_they_belong_together(packages: dict[str, Path]) -> None:
    """All have one version. Our build of ganesha's library replaces the pinned version, or a security update of it."""
    assert len({field(path, "Version") for path in packages.values()}) == 1
    pinned = re.findall(r"^NFS_GANESHA_VERSION=(.*)$", (REPOSITORY / "packaging/ganesha/versions").read_text(), re.MULTILINE)[0]
    depends = dict(re.findall(r"nfs-ganesha \((>=|<<) ([^)]+)\)", field(packages["zvaai-nfs"], "Depends")))
    assert depends[">="] == pinned
    for version, accepted in ((f"{pinned}+deb13u1", True), (f"{pinned[:-1]}{int(pinned[-1]) + 1}", False)):
        words = ["dpkg", "--compare-versions", version, "lt", depends["<<"]]
        assert run("sh", "-c", '"$@" && echo yes || echo no', "sh", *words).strip() == ("yes" if accepted else "no")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """URL of a web server with the repository, and `forged` below it with a modified list of packages."""
    for name, forged in (("", False), ("forged", True)):
        folder = shutil.copytree(CACHE / "repository", tmp_path / "www" / name, dirs_exist_ok=True)
        if forged:
            index = folder / "dists/trixie/InRelease"
            index.write_text(index.read_text().replace("Label: zvaai", "Label: other"))
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        for name in ("", "/forged"):
            sources = tmp_path / f"www{name}" / "zvaai.sources"
            sources.write_text(re.sub("^URIs: .*", f"URIs: {url}{name}", sources.read_text(), flags=re.MULTILINE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Logs no requests."""

    def log_message(self, *_: object) -> None: ...


def facts(url: str, what: str, *options: str) -> dict[str, str]:
    """Output of tests/support/install-packages on a bare Debian 13, by name."""
    support = REPOSITORY / "tests/support"
    printed = run(support / "bare-debian", *options, "tests/support/install-packages", url, what, timeout=1800)
    sections = re.split(r"^== (.*)\n", printed, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


def test_a_bare_debian_finds_all_of_them(served: str, packages: dict[str, Path]) -> None:
    """Including dependencies. The list of packages must be signed."""
    printed = facts(served, "resolve")
    fetched = {line.split()[1].partition("_")[0] for line in printed["resolve"].splitlines() if line.startswith("'")}
    assert set(packages) <= fetched, printed
    assert {"linux-headers-amd64", "nfs-ganesha", "smartmontools", "zfs-dkms"} <= fetched
    refused = facts(f"{served}/forged", "resolve")
    assert "exit code" in refused["update"] and "zvaai" not in refused["resolve"].partition("E: ")[0], refused


ENABLED = {
    *("zvaai-frontend.service", "zvaai-frontend-restart.timer", "zvaai-frontend-reload.path"),
    *("zvaai-api.socket", "zvaai-api.service", "zvaai-worker.service"),
    *("zvaai-target.service", "zvaai-mounts.service", "zvaai-helper.socket"),
}
LEFT = {"/run/zvaai", "/run/zvaai-certificate", "/run/zvaai-helper", "/var/lib/zvaai-helper"}
"""Folders in memory, and the keys of encrypted datastores."""


@pytest.mark.long("2 min: it installs 220 packages; the short test has apt find them")
def test_a_bare_debian_gets_all_of_it_and_loses_it_again(served: str) -> None:
    printed = facts(served, "install", "--disk")
    assert re.search(r"groups=.*\(zvaai-target\)", printed["users"]) and re.search(r"groups=.*\(disk\)", printed["users-target"])
    assert printed["folders"].splitlines() == [
        "/etc/zvaai/exports.d root 755", "/run/zvaai-target zvaai-target 710", "/run/zvaai-helper root 755",
    ]  # fmt: skip
    assert printed["verify"] == ""
    assert {Path(line).name for line in printed["enabled"].splitlines()} >= ENABLED
    for serving in ("nginx-with-files", "nginx-with-a-site"):
        assert re.search(r"(?s)^enabled\n.*S\d\dnginx", printed[serving]), f"{serving} does not serve any more"
    assert re.search(r"(?s)^disabled\n.*K\d\dnginx", printed["nginx-alone"]), printed["postinst"] + printed["nginx-alone"]
    for name, says in (
        ("command", "datastore"),
        ("api", '"/api/v1/datastores"'),
        ("target", "zvaai-target"),
        ("client", "clone"),
    ):
        assert says in printed[name], printed[name]
    assert printed["worker"] == ""
    assert printed["library"] == "/usr/lib/zvaai/ganesha\n"
    for folder in ("zvaai/ganesha", "ganesha"):  # with Debian's library too
        assert "undefined" not in printed[f"module {folder}"] and "not found" not in printed[f"module {folder}"]
    assert {line for line in printed["left"].splitlines() if not line.startswith(("/var/cache/apt/", "/etc/apt/"))} == LEFT
    assert printed["keys"] == "tank.key\n", "an encrypted datastore would be lost"
