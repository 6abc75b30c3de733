# SPDX-License-Identifier: Apache-2.0
"""What `apt upgrade` would do on this server, for the worker and `zvaai upgrade --check`. Needs no privilege, changes nothing."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from math import inf
from pathlib import Path

EFFECTS = {
    "zvaai": "The configuration is backed up in /var/backups/zvaai. Console and jobs stop for the upgrade. Hosts are served.",
    "zvaai-target": "The iSCSI target restarts. Hosts wait for seconds and log in again.",
    "zvaai-nfs": "The NFS server restarts. Hosts of NFSv3 wait for seconds, of NFSv4.1 until all of them have reclaimed.",
    "nfs-ganesha": "The NFS server restarts. Without a new zvaai-nfs it serves without VAAI-NAS.",
    "zfsutils-linux": "Reboot after the upgrade: the loaded module of OpenZFS remains the old one until then.",
    "zfs-dkms": "DKMS builds OpenZFS, and zvol_clone for it. Both are used after a reboot.",
    "zvaai-zvol-clone-dkms": "DKMS builds zvol_clone. It is used after a reboot.",
}
LISTS = Path("/var/lib/apt/lists")
_STATE = (LISTS, LISTS / "partial", Path("/var/lib/dpkg/status"))
"""Each change of apt's lists or of the installed packages changes one of these."""
_REBOOT = Path("/run/reboot-required")
_BOOT, _DKMS = Path("/boot"), Path("/var/lib/dkms/zfs")
LONGEST_NOTES = 1 << 16
_LONGEST_CHANGELOG = 1 << 22
_reading = threading.Lock()


class UpdatesError(Exception):
    """apt or dpkg failed, or did not end in time."""


@dataclass(frozen=True)
class Plan:
    """apt's plan: new versions by package (with the old one, if there is any), and packages that apt does not upgrade."""

    new: dict[str, tuple[str, str]]
    postponed: list[str]


@dataclass(frozen=True)
class PackageUpdate:
    """A package that serves hosts or the console. `installed` is null for a new one."""

    name: str
    installed: str | None
    version: str
    effect: str


@dataclass(frozen=True)
class Updates:
    packages: list[PackageUpdate]
    others: int
    """How many more packages the upgrade changes."""
    refreshed_at: float | None
    """Time of the last `apt update`."""
    obstacles: list[str]
    reboot: list[str]
    """Why the server needs a reboot."""
    notes: str
    """Changes of the new zvaai, as its repository describes them."""


def read(unhealthy: str = "", seconds: float = 300) -> Updates:
    """`unhealthy`: the pool that is not healthy. Raises UpdatesError."""
    with _reading:  # a simulation takes seconds of a processor
        plan = _plan(tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in _STATE), seconds)
    installed, loaded = _installed("zfs-dkms"), _loaded()
    running = os.uname().release
    newest = _next_kernel()
    return Updates(
        packages=[PackageUpdate(name, plan.new[name][0] or None, plan.new[name][1], text)
                  for name, text in EFFECTS.items() if name in plan.new],
        others=len(plan.new.keys() - EFFECTS.keys()),
        refreshed_at=_STATE[1].stat().st_mtime if any(LISTS.glob("*_Packages*")) else None,
        obstacles=list(obstacles(plan, unhealthy, loaded, installed, lacks_openzfs(newest, _DKMS))),
        reboot=list(reasons_to_reboot(loaded, installed, running, newest, _flagged())),
        notes=_notes(plan.new["zvaai"][0]) if "zvaai" in plan.new else "",
    )  # fmt: skip


def unprepared_kernel(now: float = inf) -> str:
    """The kernel of the next boot if it lacks OpenZFS; "" if it is newer than an hour, as DKMS can still be building."""
    kernel = lacks_openzfs(_next_kernel(), _DKMS)
    try:
        return kernel if kernel and (_BOOT / f"vmlinuz-{kernel}").stat().st_ctime < now - 3600 else ""
    except FileNotFoundError:  # apt removes the kernel at this moment
        return ""


def without_openzfs(kernel: str) -> tuple[str, str]:
    """The problem of a kernel without OpenZFS, and its remedy."""
    remedy = f"apt install linux-headers-{kernel} && dkms autoinstall -k {kernel}"
    return f"Linux {kernel} has no OpenZFS: after a reboot nothing is served", remedy


def read_plan(simulation: str) -> Plan:
    """Parses the output of `apt-get --simulate`."""
    lines = re.finditer(r"^Inst (\S+)(?: \[([^\]]+)\])? \((\S+)", simulation, re.MULTILINE)
    postponed = re.search(r"^The following packages have been kept back:\n((?:  .*\n)+)", simulation, re.MULTILINE)
    return Plan({line[1]: (line[2] or "", line[3]) for line in lines}, postponed[1].split() if postponed else [])


def newest_kernel(running: str, kernels: list[str]) -> str:
    """The kernel of the next boot: the newest in /boot of the running one's flavour; "" if the running one is not there."""
    flavour = running.partition("-")[2]
    return max([kernel for kernel in kernels if kernel.partition("-")[2] == flavour], key=_natural) if running in kernels else ""


def lacks_openzfs(kernel: str, dkms: Path) -> str:
    """The kernel, if DKMS has no module of OpenZFS for it: its headers are missing, or the build failed."""
    return kernel if kernel and dkms.exists() and not (dkms / f"kernel-{kernel}-{os.uname().machine}").exists() else ""


def obstacles(plan: Plan, unhealthy: str, loaded: str, installed: str, lacking: str) -> Iterator[str]:
    """Obstacles with their remedies. `loaded` and `installed` are versions of OpenZFS, `lacking` is the kernel of the next boot
    if it lacks OpenZFS; "" is unknown.
    """
    for name in plan.postponed:
        if name in EFFECTS:
            yield f"apt keeps {name} back. Wait until the repositories have all packages that work with the new {name}."
    if unhealthy:
        yield f"A pool is not healthy; mend it first: {unhealthy}"
    if loaded and installed and loaded != installed:
        yield f"OpenZFS {loaded} is loaded and {installed} is installed. Reboot first, so that an upgrade does not meet both."
    if lacking:
        yield ". Run: ".join(without_openzfs(lacking))


def reasons_to_reboot(loaded: str, installed: str, running: str, newest: str, flagged: list[str]) -> Iterator[str]:
    """`newest`: the kernel of the next boot, "" is unknown. `flagged`: packages that need a reboot, by Debian."""
    if loaded and installed and loaded != installed:
        yield f"OpenZFS {loaded} is loaded and {installed} is installed."
    if newest and newest != running:
        yield f"Linux {running} runs and {newest} is installed."
    if flagged:
        yield f"Packages need a reboot: {', '.join(flagged)}."


def newer_notes(text: str, installed: str) -> str:
    """The sections of a changelog above that of the installed version; the first one if that has none."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    number = re.split(r"[~+-]", installed)[0]
    newer = list(takewhile(lambda section: section.split()[1] != number, sections))
    return "".join(newer if len(newer) < len(sections) else sections[:1]).strip()


def _natural(release: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.findall(r"\d+|\D+", release)]


@lru_cache(maxsize=1)
def _plan(_state: tuple[int, ...], seconds: float) -> Plan:
    return read_plan(_run(seconds, "apt-get", "--simulate", "--quiet=1", "--with-new-pkgs", "upgrade"))  # what `apt upgrade` does


def _run(seconds: float, *words: str) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds, env=environment)
    except OSError as error:
        raise UpdatesError(f"{words[0]}: {error}") from error
    except subprocess.TimeoutExpired:
        raise UpdatesError(f"{words[0]} does not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        raise UpdatesError(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _installed(package: str) -> str:
    """Version of a package; "" if it is not installed."""
    try:
        return _run(10, "dpkg-query", "--show", "--showformat", "${Version}", package)
    except UpdatesError:
        return ""


def _next_kernel() -> str:
    return newest_kernel(os.uname().release, [path.name.removeprefix("vmlinuz-") for path in _BOOT.glob("vmlinuz-*")])


def _loaded() -> str:
    """Version of the loaded module of OpenZFS: that of zfs-dkms. Debian can rebuild zfsutils-linux alone ("+b1")."""
    module = Path("/sys/module/zfs/version")
    return module.read_text().strip() if module.exists() else ""


def _flagged() -> list[str]:
    packages = _REBOOT.with_suffix(".pkgs")
    if not _REBOOT.exists():
        return []
    return sorted(set(packages.read_text().split())) if packages.exists() else ["unknown"]


def _notes(installed: str) -> str:
    """Of the newest list that apt has, if the repository publishes notes (packaging/build-repository)."""
    files = sorted(LISTS.glob("*_zvaai-notes"), key=lambda file: file.stat().st_mtime)
    if not files:
        return ""
    with files[-1].open(errors="replace") as file:
        return newer_notes(file.read(_LONGEST_CHANGELOG), installed)[:LONGEST_NOTES]
