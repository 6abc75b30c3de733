# SPDX-License-Identifier: Apache-2.0
"""SMART data of disks: smartctl(8), read as JSON."""

import re
from dataclasses import replace
from typing import Any

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.commands import Json
from appliance.zfs.model import DiskHealth

_SECONDS = 60.0
_OPTIONS = ("--json=c", "--nocheck=standby", "--info", "--health", "--attributes", "--log=error")
"""The counters of SCSI disks belong to the error log."""
_WRONG_COMMAND_LINE = 0x01
"""Bit of the exit status (smartctl(8), EXIT STATUS)."""

_NO_ANSWER = 0x06
"""Bits: the device could not be opened, or a command failed. True for a dying and for a sleeping disk."""

# No standard names the attributes of ATA disks; these have the same meaning for all vendors.
_REALLOCATED, _PENDING, _UNCORRECTABLE = 5, 197, 198
# Flash: normalised values that fall from 100 with wear, if drivedb.h has such a name for the number. Of some vendors they are
# bytes written or bad blocks. 230 of WD and SanDisk is not life left: it rises with some firmware.
_LIFE_LEFT = (231, 233, 177, 202, 169)
_OF_LIFE = re.compile(r"(?!.*(?:wts|writ|temp|read|delta|nand|curve|protect)).*(?:life|wear|remain)", re.IGNORECASE)


def health(device: str) -> DiskHealth:
    """Health of a device by kernel name. Raises Timeout, EngineUnavailable without smartctl, UnexpectedFailure."""
    result = commands.run((commands.SMARTCTL, *_OPTIONS, "--", device), seconds=_SECONDS)
    document = commands.json_of(result.output, "smartctl")
    if not document:
        raise UnexpectedFailure("smartctl", result.complaint[:2000])
    if result.status & _WRONG_COMMAND_LINE and _why(document).startswith("=======>"):  # also set for an unknown device
        raise UnexpectedFailure("smartctl", _why(document))
    data = read(document)
    support = _of(document, "smart_support", "available")
    if not data.available and not data.asleep and result.status & _NO_ANSWER and support is not False:
        return replace(data, unanswered=True)
    return data


def read(document: Json) -> DiskHealth:
    verdict = _of(document, "smart_status", "passed")
    nvme = document.get("nvme_smart_health_information_log")
    attributes = {
        entry["id"]: entry for entry in _of(document, "ata_smart_attributes", "table") or () if isinstance(entry.get("id"), int)
    }
    if verdict is None and not isinstance(nvme, dict) and not attributes:
        why = _why(document)
        return DiskHealth(available=False, reason=why or "it has none", asleep="STANDBY" in why or "SLEEP" in why)
    data: dict[str, Any] = {
        "passed": verdict if isinstance(verdict, bool) else None,
        "temperature": _number(document, "temperature", "current"),
        "power_on_hours": _number(document, "power_on_time", "hours"),
    }
    if isinstance(nvme, dict):
        data |= _nvme(nvme)
    elif attributes:
        data |= {
            "reallocated": _raw(attributes, _REALLOCATED),
            "pending": _raw(attributes, _PENDING),
            "uncorrectable": _raw(attributes, _UNCORRECTABLE),
            "wear": _wear(attributes, document),
        }
    else:
        data |= _scsi(document)
    return DiskHealth(available=True, **data)


def _nvme(log: Json) -> dict[str, Any]:
    return {
        "uncorrectable": _number(log, "media_errors"),
        "wear": _number(log, "percentage_used"),
        "spare": _number(log, "available_spare"),
        "spare_limit": _number(log, "available_spare_threshold"),
        "critical_warning": _number(log, "critical_warning") or 0,
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
    if _number(document, "rotation_rate") != 0:  # rotating disks use these numbers for other values
        return None
    entries = [attributes[number] for number in _LIFE_LEFT if number in attributes]
    named = [entry for entry in entries if _OF_LIFE.match(str(entry.get("name", "")))]
    left = [value for entry in named if (value := _number(entry, "value")) is not None]
    return 100 - left[0] if left and 0 <= left[0] <= 100 else None


def _raw(attributes: dict[int, Json], number: int) -> int | None:
    return _number(attributes.get(number, {}), "raw", "value")


def _of(document: Json, *names: str) -> Any:
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(document: Json, *names: str) -> int | None:
    value = _of(document, *names)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _why(document: Json) -> str:
    messages = _of(document, "smartctl", "messages") or ()
    return "; ".join(str(message.get("string", "")) for message in messages if isinstance(message, dict))[:500]
