# SPDX-License-Identifier: Apache-2.0
"""Texts of NVMe's warning bits."""

from appliance.domain.disks import nvme_warnings


def test_bits() -> None:
    assert nvme_warnings(0b101) == ["spare blocks are short", "it is not reliable any more"]
    assert nvme_warnings(0x80) == ["bits 0x80"]
