# SPDX-License-Identifier: Apache-2.0
"""What disks tell of themselves: smartctl(8), read as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.commands import Json
from appliance.zfs.model import DiskHealth

_SECONDS = 60.0
_OPTIONS = ("--json=c", "--nocheck=standby", "--info", "--health", "--attributes")
_WRONG_COMMAND_LINE = 0x01
"""Bit of the exit status (smartctl(8), EXIT STATUS)."""

_NO_ANSWER = 0x06
"""Bits: the device could not be opened, or a command to it failed. A disk that dies is so, and one that sleeps."""

# Attributes of ATA disks have no names in any standard; these are the same with all vendors that have them.
_REALLOCATED, _PENDING, _UNCORRECTABLE = 5, 197, 198
# Of flash: normalised values that fall from 100 as it wears.
_LIFE_LEFT = (231, 233, 177, 202, 169)


def health(device: str) -> DiskHealth:
    """Of a device by the kernel's name. Raises Timeout, EngineUnavailable where smartctl is not installed, UnexpectedFailure."""
    result = commands.run((commands.SMARTCTL, *_OPTIONS, "--", device), seconds=_SECONDS)
    document = commands.json_of(result.output, "smartctl")
    if not document:
        raise UnexpectedFailure("smartctl", result.complaint[:2000])
    if result.status & _WRONG_COMMAND_LINE and _why(document).startswith("=======>"):  # the same bit tells of no known device
        raise UnexpectedFailure("smartctl", _why(document))
    told = read(document)
    support = _of(document, "smart_support", "available")
    if not told.available and not told.asleep and result.status & _NO_ANSWER and support is not False:
        return replace(told, unanswered=True)
    return told


def read(document: Json) -> DiskHealth:
    """What smartctl printed."""
    verdict = _of(document, "smart_status", "passed")
    nvme = document.get("nvme_smart_health_information_log")
    attributes = {
        entry["id"]: entry for entry in _of(document, "ata_smart_attributes", "table") or () if isinstance(entry.get("id"), int)
    }
    if verdict is None and not isinstance(nvme, dict) and not attributes:
        why = _why(document)
        return DiskHealth(available=False, reason=why or "it has none", asleep="STANDBY" in why or "SLEEP" in why)
    told: dict[str, Any] = {
        "passed": verdict if isinstance(verdict, bool) else None,
        "temperature": _number(document, "temperature", "current"),
        "power_on_hours": _number(document, "power_on_time", "hours"),
    }
    if isinstance(nvme, dict):
        told |= _nvme(nvme, document)
    elif attributes:
        told |= {
            "reallocated": _raw(attributes, _REALLOCATED),
            "pending": _raw(attributes, _PENDING),
            "uncorrectable": _raw(attributes, _UNCORRECTABLE),
            "wear": _wear(attributes, document),
        }
    else:
        told |= _scsi(document)
    return DiskHealth(available=True, **told)


def _nvme(log: Json, document: Json) -> dict[str, Any]:
    return {
        "uncorrectable": _number(log, "media_errors"),
        "wear": _number(log, "percentage_used"),
        "spare": _number(log, "available_spare"),
        "spare_limit": _number(log, "available_spare_threshold"),
        "critical_warning": _number(log, "critical_warning") or 0,
        "temperature_limit": _number(document, "temperature", "op_limit_max"),
    }


def _scsi(document: Json) -> dict[str, Any]:
    counters = document.get("scsi_error_counter_log")
    uncorrected = [
        _number(counters, kind, "total_uncorrected_errors") for kind in ("read", "write", "verify") if isinstance(counters, dict)
    ]
    known = [count for count in uncorrected if count is not None]
    return {
        "reallocated": _number(document, "scsi_grown_defect_list"),
        "uncorrectable": sum(known) if known else None,
        "wear": _number(document, "scsi_percentage_used_endurance_indicator"),
        "temperature_limit": _number(document, "temperature", "drive_trip"),
    }


def _wear(attributes: dict[int, Json], document: Json) -> int | None:
    used = _number(document, "endurance_used", "current_percent")
    if used is not None:
        return used
    if _number(document, "rotation_rate") != 0:  # a disk that turns wears otherwise, and uses these numbers for other things
        return None
    left = [value for one in _LIFE_LEFT if one in attributes and (value := _number(attributes[one], "value")) is not None]
    return 100 - left[0] if left and 0 <= left[0] <= 100 else None


def _raw(attributes: dict[int, Json], number: int) -> int | None:
    return _number(attributes.get(number, {}), "raw", "value")


def _of(document: Json, *names: str) -> Any:
    found: Any = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _number(document: Json, *names: str) -> int | None:
    found = _of(document, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _why(document: Json) -> str:
    messages = _of(document, "smartctl", "messages") or ()
    return "; ".join(str(one.get("string", "")) for one in messages if isinstance(one, dict))[:500]
