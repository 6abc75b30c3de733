# SPDX-License-Identifier: Apache-2.0
"""SMART data from the output of smartctl.

The project has no disks with SMART: the documents have smartctl 7.4's structure and invented values. The last test runs the
program itself.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.kernel import commands, smart
from appliance.zfs.kernel.smart import read


def attribute(number: int, name: str, value: int, raw: int) -> dict[str, Any]:
    return {
        "id": number, "name": name, "value": value, "worst": value, "thresh": 10, "when_failed": "",
        "flags": {"value": 51, "string": "PO--CK ", "prefailure": True}, "raw": {"value": raw, "string": str(raw)},
    }  # fmt: skip


HEADER: dict[str, Any] = {"json_format_version": [1, 0], "smartctl": {"version": [7, 4], "exit_status": 0}}
TURNING = {
    **HEADER,
    "device": {"name": "/dev/sda", "info_name": "/dev/sda [SAT]", "type": "sat", "protocol": "ATA"},
    "rotation_rate": 7200,
    "smart_status": {"passed": True},
    "ata_smart_attributes": {
        "revision": 16,
        "table": [
            attribute(5, "Reallocated_Sector_Ct", 100, 8),
            attribute(177, "Wear_Leveling_Count", 1, 0),
            attribute(197, "Current_Pending_Sector", 100, 2),
            attribute(198, "Offline_Uncorrectable", 100, 1),
        ],
    },
    "power_on_time": {"hours": 31337},
    "temperature": {"current": 38},
}
FLASH = {
    **HEADER,
    "rotation_rate": 0,
    "smart_status": {"passed": False},
    "ata_smart_attributes": {"table": [attribute(5, "Reallocated_Sector_Ct", 100, 0), attribute(231, "SSD_Life_Left", 7, 0)]},
    "temperature": {"current": 41},
}
NVME = {
    **HEADER,
    "device": {"name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe"},
    "smart_status": {"passed": False, "nvme": {"value": 1}},
    "nvme_smart_health_information_log": {
        "critical_warning": 1, "temperature": 52, "available_spare": 4, "available_spare_threshold": 10, "percentage_used": 103,
        "media_errors": 3, "power_on_hours": 900,
    },
    "temperature": {"current": 52},
    "power_on_time": {"hours": 900},
}  # fmt: skip
SCSI = {
    **HEADER,
    "device": {"name": "/dev/sdb", "type": "scsi", "protocol": "SCSI"},
    "smart_status": {"passed": True},
    "temperature": {"current": 30, "drive_trip": 65},
    "scsi_grown_defect_list": 4,
    "scsi_error_counter_log": {"read": {"total_uncorrected_errors": 2}, "write": {"total_uncorrected_errors": 1}},
}
ASLEEP = {**HEADER, "smartctl": {"exit_status": 2, "messages": [{"string": "Device is in STANDBY mode, exit(2)"}]}}
NONE = {
    **HEADER,
    "smartctl": {"exit_status": 1, "messages": [{"string": "/dev/ubda: Unable to detect device type", "severity": "error"}]},
}


def test_a_turning_disk() -> None:
    health = read(TURNING)
    assert health.available and health.passed and (health.reallocated, health.pending, health.uncorrectable) == (8, 2, 1)
    assert (health.temperature, health.power_on_hours, health.wear) == (38, 31337, None), "a rotating disk has no flash wear"


def test_flash() -> None:
    health = read(FLASH)
    assert health.passed is False and health.wear == 93 and health.reallocated == 0 and health.pending is None
    assert read({**FLASH, "endurance_used": {"current_percent": 12}}).wear == 12


@pytest.mark.parametrize(
    ("attributes", "wear"),
    [
        ([(230, "Media_Wearout_Indicator", 1), (233, "NAND_GB_Written_TLC", 100)], None),  # WD, SanDisk
        ([(233, "Lifetime_Wts_To_Flsh_GB", 0), (231, "SSD_Life_Left", 93)], 7),
        ([(169, "Bad_Block_Count", 100)], None),
        ([(231, "Controller_Temperature", 60), (169, "Remaining_Lifetime_Perc", 95)], 5),
        ([(177, "Wear_Range_Delta", 0), (202, "Perc_Rated_Life_Used", 98)], 2),  # normalised: what is left
        ([(177, "DriveLife_Remaining%", 88)], 12),
        ([(177, "Wear_Leveling_Count", 99)], 1),
        ([(233, "Media_Wearout_Indicator", 97)], 3),
        ([(202, "End_of_Life", 100)], 0),
        ([(177, "Read_Retry_Cnt", 0), (202, "Exception_Mode_Status", 0), (231, "Unknown_SSD_Attribute", 0)], None),
    ],
)
def test_wear_of_flash_is_from_attributes_of_such_a_name(attributes: list[tuple[int, str, int]], wear: int | None) -> None:
    """Names from smartmontools' drivedb.h."""
    table = [attribute(number, name, value, 0) for number, name, value in attributes]
    assert read({**FLASH, "ata_smart_attributes": {"table": table}}).wear == wear


def test_nvme() -> None:
    health = read(NVME)
    assert (health.passed, health.critical_warning, health.wear, health.uncorrectable) == (False, 1, 103, 3)
    assert (health.spare, health.spare_limit, health.temperature, health.temperature_limit) == (4, 10, 52, None)


def test_scsi() -> None:
    health = read(SCSI)
    assert (health.reallocated, health.uncorrectable, health.temperature_limit) == (4, 3, 65)


def test_disks_without_smart_and_sleeping_disks() -> None:
    none, asleep = read(NONE), read(ASLEEP)
    assert not none.available and "Unable to detect" in none.reason and not none.asleep
    assert not asleep.available and asleep.asleep
    assert not read({}).available


@pytest.mark.parametrize("document", [
    {"smart_status": "odd", "ata_smart_attributes": {"table": [{"id": 5}, {}]}},
    {"nvme_smart_health_information_log": {"critical_warning": "1", "media_errors": None}},
    {"smart_status": {"passed": True}, "temperature": [], "scsi_error_counter_log": []},
    {"smartctl": {"messages": ["text"]}},
])  # fmt: skip
def test_invalid_values_are_not_reported(document: dict[str, Any]) -> None:
    health = read(document)
    assert (health.temperature, health.reallocated, health.uncorrectable, health.critical_warning) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("status", "document", "unanswered"),
    [
        (2, {"smartctl": {"messages": [{"string": "Smartctl open device: /dev/sda failed: No such device"}]}}, True),
        (4, {"smartctl": {"messages": []}}, True),
        (4, {"smart_support": {"available": False}}, False),
        (2, ASLEEP, False),
        (1, NONE, False),
        (4, TURNING, False),
    ],
)
def test_a_disk_that_fails_to_answer_is_none_without_smart(
    status: int, document: dict[str, Any], unanswered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = commands.Result(status, json.dumps(document).encode(), "")
    monkeypatch.setattr(commands, "run", lambda *_, **__: result)
    assert smart.health("/dev/sda").unanswered is unanswered


def test_the_program_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's smartctl with the same options: a file has no data, which is not an error."""
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    health = smart.health(str(file))
    assert not health.available and health.reason
    absent = smart.health(str(tmp_path / "absent"))
    assert not absent.available and "Unable to detect" in absent.reason
    monkeypatch.setattr(smart, "_OPTIONS", ("--json=c", "--nocheck=wrong"))
    with pytest.raises(UnexpectedFailure):  # so the options above are right
        smart.health(str(file))
