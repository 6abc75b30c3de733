# SPDX-License-Identifier: Apache-2.0
"""Health data of disks, and findings about them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from shlex import quote

from appliance.domain.journal import Finding
from appliance.domain.pool_health import command
from appliance.zfs.model import Disk, DiskHealth

HOT, COOL = 60, 55
"""Degrees Celsius: an alert begins at HOT and ends below COOL, so that it does not flap. A disk's own limit has precedence."""
WORN, WORN_OUT = 90, 100
"""Percent of its life."""
AREA = "disk"


WEAR_STEP = 5
"""Percent after which the alert is raised again."""
COUNTS_RETAINED = 2000


@dataclass(frozen=True)
class DiskReport:
    """A disk with its latest SMART data; None until it was read."""

    disk: Disk
    smart: DiskHealth | None
    read_at: float
    severity: str | None = None
    """The worst of its findings; None without findings."""


@dataclass(frozen=True)
class Count:
    """A counter that only increases: the value in an alert, and the acknowledged value."""

    reported: int
    acknowledged: int = 0


def counts(healths: Iterable[tuple[Disk, DiskHealth]]) -> dict[str, int]:
    """Counters of each disk, by the key of its alert. After an acknowledgement, only an increase causes an alert."""
    by_key = {}
    for disk, health in healths:
        wear = None if health.wear is None or health.wear < WORN else min(health.wear, WORN_OUT) // WEAR_STEP * WEAR_STEP
        for what, count in (("reallocated", health.reallocated), ("uncorrectable", health.uncorrectable), ("wear", wear)):
            if health.available and count:
                by_key[f"{AREA}:{what}:{identity(disk)}"] = count
    return by_key


def grown(known: Mapping[str, Count], now: Mapping[str, int], acknowledged: Collection[str]) -> dict[str, Count]:
    """The counters to store; `acknowledged` are keys of acknowledged open alerts. The oldest are dropped."""
    remembered = dict(known)
    for key in set(acknowledged) & known.keys():
        remembered[key] = Count(remembered[key].reported, remembered[key].reported)
    for key, count in now.items():
        before = remembered.pop(key, Count(0))
        # A counter that was reset, or a new disk under the same name, causes an alert again.
        remembered[key] = Count(count, before.acknowledged if count >= before.acknowledged else 0)
    return dict(list(remembered.items())[-COUNTS_RETAINED:])


def identity(disk: Disk) -> str:
    return disk.serial or disk.path


def silent(disk: Disk, health: DiskHealth) -> Finding:
    text = f"disk {disk.path} {disk.serial} does not answer SMART requests: {health.reason}"
    remedy = "Check the disk and its cables. If the alert returns, replace the disk"
    return Finding(f"{AREA}:silent:{identity(disk)}", "warning", disk.path, text, remedy)


def findings(
    healths: Mapping[str, tuple[Disk, DiskHealth]], hot: Collection[str] = (), system: Collection[str] = ()
) -> list[Finding]:
    """Findings about disks by path; `hot` are the keys of open alerts of disks that were too warm, `system` are pools of the
    running system.
    """
    return [finding for path, (disk, health) in sorted(healths.items()) for finding in _of(path, disk, health, hot, system)]


def severity(disk: Disk, health: DiskHealth, hot: Collection[str], alerts: Mapping[str, str]) -> str | None:
    """The worst severity of findings and open alerts about a disk; None without any. `hot`: see `findings`.

    `alerts`: severities by key. A disk that sleeps or does not answer has alerts without findings.
    """
    severities = {finding.severity for finding in findings({disk.path: (disk, health)}, hot)}
    severities |= {worst for key, worst in alerts.items() if key.endswith(f":{identity(disk)}")}
    return max(severities, key=("warning", "critical").index, default=None)


def _of(path: str, disk: Disk, health: DiskHealth, hot: Collection[str], system: Collection[str]) -> list[Finding]:
    if not health.available:
        return []
    name = " ".join(part for part in (path, disk.model, disk.serial) if part)
    whose = f" ({disk.used_by})" if disk.used_by else ""
    kind, _, pool = (disk.used_by or "").partition(" ")
    replace, scrub = "Replace the disk", "If the number grows, replace the disk"
    if kind == "pool":
        tool = command(pool in system)
        replace = f"Replace the disk: {tool} replace {quote(pool)} {disk.in_pool or path} NEW_DISK"
        scrub = f"Scrub the pool: {tool} scrub {quote(pool)}. {scrub}"
    findings = []

    def add(what: str, severity: str, text: str, remedy: str = replace) -> None:
        findings.append(Finding(f"{AREA}:{what}:{identity(disk)}", severity, path, f"disk {name}{whose} {text}", remedy))

    if health.critical_warning == NVME_TEMPERATURE:  # smartctl then says that the disk fails
        add("temperature", "warning", "is outside the limits of its temperature", "check the fans")
    elif health.critical_warning:
        add("failing", "critical", f"warns: {', '.join(nvme_warnings(health.critical_warning))}")
    elif health.passed is False:
        add("failing", "critical", "says by SMART that it fails")
    for what, count, text in (
        ("pending", health.pending, "sectors that it can't read"),
        ("reallocated", health.reallocated, "sectors that it has put elsewhere"),
        ("uncorrectable", health.uncorrectable, "errors that it could not correct"),
    ):
        if count:
            add(what, "warning", f"has {count} {text}", scrub)
    if health.wear is not None and health.wear >= WORN:
        add("wear", "critical" if health.wear >= WORN_OUT else "warning", f"has used {health.wear} % of its life")
    if health.spare is not None and health.spare_limit is not None and health.spare < health.spare_limit:
        add("spare", "critical", f"has {health.spare} % of its spare blocks left, and should have {health.spare_limit} %")
    if health.temperature is not None and health.spare is None:  # an NVMe disk knows its limit
        limit = health.temperature_limit or HOT
        was = f"{AREA}:temperature:{identity(disk)}" in hot
        if health.temperature >= limit - (HOT - COOL if was else 0):
            add("temperature", "warning", f"is at {health.temperature} °C; its limit is {limit} °C", "check the fans")
    return findings


NVME_TEMPERATURE = 0x02
"""NVM Express, SMART / Health Information Log Page, Critical Warning: above or below a temperature threshold."""
_WARNINGS = (
    "spare blocks are short", "it is too hot or too cold", "it is not reliable any more", "it takes no writes any more",
    "its protection against loss of power failed", "its persistent memory takes no writes any more",
)  # fmt: skip


def nvme_warnings(bits: int) -> list[str]:
    """NVM Express, SMART / Health Information Log Page: Critical Warning."""
    return [text for bit, text in enumerate(_WARNINGS) if bits & 1 << bit] or [f"bits {bits:#x}"]
