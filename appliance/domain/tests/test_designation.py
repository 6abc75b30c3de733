# SPDX-License-Identifier: Apache-2.0
"""Names of other targets: as those make them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.domain import designation
from appliance.domain.designation import Designation, checked, of_property, to_property
from appliance.domain.errors import InvalidError

LIO = {"system": "lio", "unit_serial": "e4a3b2c1-0f0e-4d0c-8b0a-090807060504", "model": "disk1"}
SCST = {
    "system": "scst", "usn": "c2c96ad2", "t10_vend_id": "SCST_BIO", "vend_specific_id": "c2c96ad2-disk1",
    "t10_dev_id": "c2c96ad2-disk1", "prod_id": "disk1",
}  # fmt: skip
NAA = "naa.6001405e4a3b2c10f0e4d0c8b0a09080"


def known_as(fields: dict[str, Any]) -> Designation:
    """Without the checks of the request's schema."""
    kinds: dict[str, type[designation.Names]] = {
        "lio": designation.LioNamesCreate, "scst": designation.ScstNamesCreate, "pages": designation.PageNamesCreate,
    }  # fmt: skip
    return designation.known_as(kinds[fields["system"]].model_construct(**fields))


def test_lio() -> None:
    """Output of `sg_vpd -p di` for a LIO disk with this unit serial number: 36 + 64 bits of it after the company identifier."""
    names = known_as(LIO)
    assert names.designators == (NAA, "t10.LIO-ORG disk1:e4a3b2c1-0f0e-4d0c-8b0a-090807060504\0")
    assert (names.vendor, names.product, names.serial_number) == ("LIO-ORG", "disk1", f"{LIO['unit_serial']}\0")
    # Other characters than hexadecimal digits are skipped, missing digits are zero, and another company may be set.
    short = known_as({**LIO, "unit_serial": "xyz-12345678-XY-AB", "company_id": "0x00A098", "vendor": "ACME"})
    assert short.designators == ("naa.600a09812345678ab000000000000000", "t10.ACME    disk1:xyz-12345678-XY-AB\0")


def test_scst() -> None:
    names = known_as(SCST)
    assert names.designators == ("t10.SCST_BIOc2c96ad2-disk1", "eui.6332633936616432")
    assert (names.vendor, names.product, names.serial_number) == ("SCST_BIO", "disk1", "c2c96ad2")
    both = known_as(
        {**SCST, "eui64_id": "0x0011223344556677", "naa_id": "0x6589cfc000000d9b4c1e1d6c1a2b3c4d", "t10_vend_id": "TrueNAS"}
    )
    assert both.designators == (
        "t10.TrueNAS c2c96ad2-disk1", "eui.0011223344556677", "naa.6589cfc000000d9b4c1e1d6c1a2b3c4d"
    )  # fmt: skip


def page(code: int, body: bytes) -> str:
    return (bytes([0, code]) + len(body).to_bytes(2) + body).hex()


def test_pages_as_a_host_reads_them() -> None:
    """Names of ports and of the target are ignored, and so are other kinds of names."""

    def descriptor(code_set: int, flags: int, name: bytes) -> bytes:
        return bytes([code_set, flags, 0, len(name)]) + name

    lio = known_as(LIO)
    body = b"".join(
        (
            descriptor(1, 0x03, bytes.fromhex(NAA[4:])),
            descriptor(2, 0x01, lio.designators[1][4:].encode()),
            descriptor(0x51, 0x94, bytes(4)),
            descriptor(1, 0x06, bytes(4)),
            descriptor(0x53, 0xA8, b"iqn.2003-01.org.linux-iscsi.a:b\0"),
        )
    )
    pages = {
        "system": "pages", "vendor": "LIO-ORG", "product": "disk1", "page_80": page(0x80, lio.serial_number.encode()),
        "page_83": page(0x83, body),
    }  # fmt: skip
    assert known_as(pages) == lio
    for wrong in (
        {"page_83": pages["page_80"]},
        {"page_83": "no"},
        {"page_83": pages["page_83"][:-2]},
        {"page_80": page(0x80, b"")},
    ):
        with pytest.raises(InvalidError):
            known_as({**pages, **wrong})
    broken = page(0x83, body + b"\1\3\0\x10\x60")
    with pytest.raises(InvalidError, match="in the middle"):
        known_as({**pages, "page_83": broken})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({**LIO, "unit_serial": "no hx 12"}, "unit_serial"),
        ({**LIO, "company_id": "0014"}, "company_id"),
        ({**LIO, "model": "a model of seventeen"}, "model"),
        ({**SCST, "naa_id": "0x6589"}, "naa_id"),
        ({**SCST, "naa_id": "4589cfc000000d9b"}, "designators"),
        ({**SCST, "t10_dev_id": "short"}, "t10_dev_id"),
        ({**SCST, "vend_specific_id": "\xf6"}, "designators"),
        ({**SCST, "usn": ""}, "serial_number"),
    ],
)
def test_names_that_no_disk_has_are_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as refused:
        known_as(fields)
    assert refused.value.field_name == f"known_as.{field}"


@given(st.text(max_size=300), st.lists(st.text(max_size=40), max_size=10))
def test_any_value_is_refused_or_survives_a_round_trip(serial: str, names: list[str]) -> None:
    try:
        names_of_disk = checked(Designation(serial, tuple(names), "ACME", "disk"))
    except InvalidError:
        return
    assert of_property(to_property(names_of_disk)) == names_of_disk


def test_a_property_that_was_not_written_so_is_none() -> None:
    text = to_property(known_as(LIO))
    assert of_property(text) == known_as(LIO) and "\0" not in text
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
