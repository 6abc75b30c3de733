# SPDX-License-Identifier: Apache-2.0
"""Names of other targets: as hosts read them, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.names_of_disk import descriptor, of_lio, page
from support.programs import REPOSITORY

from appliance.domain.designation import Designation, NamesCreate, checked, known_as, of_property, to_property
from appliance.domain.errors import InvalidError

SERIAL = "e4a3b2c1-0f0e-4d0c-8b0a-090807060504"
NAA = "naa.6001405e4a3b2c10f0e4d0c8b0a09080"
LIO = of_lio(SERIAL, NAA[4:], "disk1")
DESIGNATION = Designation(f"{SERIAL}\0", (NAA, f"t10.LIO-ORG disk1:{SERIAL}\0"), "LIO-ORG", "disk1")


def names(**other: str) -> Designation:
    """Of the LIO disk, with other fields. Without the checks of the request's schema."""
    return known_as(NamesCreate.model_construct(None, **{**LIO, **other}))


def test_pages_as_a_host_reads_them() -> None:
    """Names of ports and of the target are ignored, and so are the blanks around vendor and product."""
    assert known_as(NamesCreate(**LIO)) == names(vendor="LIO-ORG", product="disk1") == DESIGNATION


def test_a_name_of_each_kind() -> None:
    body = (
        descriptor(2, 1, b"TrueNAS c2c96ad2")
        + descriptor(1, 2, bytes(range(8)))
        + descriptor(1, 3, bytes.fromhex("3589cfc000000d9b"))
    )
    given = names(page_83=page(0x83, body).hex()).designators
    assert given == ("t10.TrueNAS c2c96ad2", "eui.0001020304050607", "naa.3589cfc000000d9b")


def test_the_documented_command_prints_the_names(tmp_path: Path) -> None:
    """In a folder as sysfs has it. Vendor and model end with blanks and a newline."""
    for name, field in (("vpd_pg80", "page_80"), ("vpd_pg83", "page_83")):
        (tmp_path / name).write_bytes(bytes.fromhex(LIO[field]))
    for name, field in (("vendor", "vendor"), ("model", "product")):
        (tmp_path / name).write_text(f"{LIO[field]}\n")
    text = (REPOSITORY / "docs" / "appliance.md").read_text()
    (command,) = re.findall(r"^ +(cd /sys/block/sdX/device .*) >~/vol1.json$", text, re.MULTILINE)
    command = command.replace("/sys/block/sdX/device", str(tmp_path))
    printed = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
    assert known_as(NamesCreate(**json.loads(printed))) == DESIGNATION


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"page_83": LIO["page_80"]}, "page_83"),
        ({"page_83": "no"}, "page_83"),
        ({"page_83": LIO["page_83"][:-2]}, "page_83"),
        ({"page_83": page(0x83, b"\1\3\0\x10\x60").hex()}, "page_83"),
        ({"page_83": page(0x83, descriptor(1, 3, bytes.fromhex("4589cfc000000d9b"))).hex()}, "designators"),
        ({"page_83": page(0x83, descriptor(2, 1, "SCST_BIO\xf6".encode())).hex()}, "designators"),
        ({"page_83": page(0x83, b"").hex()}, "designators"),
        ({"page_80": page(0x80, b"").hex()}, "serial_number"),
        ({"product": "a model of seventeen"}, "product"),
        ({"vendor": "a vendor of"}, "vendor"),
    ],
)
def test_names_that_no_disk_has_are_refused(fields: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidError) as refused:
        names(**fields)
    assert refused.value.field_name == f"known_as.{field}"


@given(st.text(max_size=300), st.lists(st.text(max_size=40), max_size=10))
def test_any_value_is_refused_or_survives_a_round_trip(serial: str, designators: list[str]) -> None:
    try:
        names_of_disk = checked(Designation(serial, tuple(designators), "ACME", "disk"))
    except InvalidError:
        return
    assert of_property(to_property(names_of_disk)) == names_of_disk


def test_a_property_that_was_not_written_so_is_none() -> None:
    text = to_property(DESIGNATION)
    assert of_property(text) == DESIGNATION and "\0" not in text
    for wrong in (
        "",
        "{}",
        "[]",
        "null",
        text[:-1],
        text.replace("naa.6", "naa.4"),
        text.replace('"vendor"', '"seller"'),
        f" {text}",
    ):
        assert of_property(wrong) is None, wrong
    assert Designation("a", (NAA,), "A", "b").names == {"serial number a", NAA}
