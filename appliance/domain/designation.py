# SPDX-License-Identifier: Apache-2.0
"""Names that a volume's hosts know it by from another target, and that it keeps when it is adopted.

ESXi takes a VMFS datastore on a disk with other names for a copy of it, and does not mount it. How the others make their names:

    LIO     NAA 6, company identifier (001405 unless set), then the hexadecimal digits of the unit serial number, 25 at most,
            filled up with zeros; T10: vendor filled up to 8 characters, MODEL:SERIAL and a zero. A zero ends the serial number
            too (spc_gen_naa_6h_vendor_specific, spc_emulate_evpd_80 and _83 of Linux, drivers/target/target_core_spc.c)
    SCST    T10: t10_vend_id filled up to 8 characters, and vend_specific_id; eui64_id and naa_id where they are set, and where
            neither is, the first eight characters of t10_dev_id as EUI-64. Serial number: usn (vdisk_dev_id_vpd of scst_vdisk.c)

The two vital product data pages, read from a host, have all of it whatever the target was.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import Field

from appliance.domain.errors import InvalidError
from appliance.domain.fields import ASCII, Model

PROPERTY = "zvaai:designation"

_FORMS = (
    re.compile(r"naa\.([235][0-9a-f]{15}|6[0-9a-f]{31})"),
    re.compile(r"eui\.([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})"),
    re.compile(r"t10\.(?=.{9,252}$)[ -~]{8}[ -~]+\0?", re.DOTALL),
)
_SERIAL = re.compile(r"(?=.{1,252}$)[ -~]+\0?", re.DOTALL)
_BINARY, _ASCII = 1, 2
_PRINTABLE = re.compile(r"[ -~]*")


Shown = Annotated[str, Field(max_length=16, pattern=r"^[ -~]*$")]
Text = Annotated[str, Field(min_length=1, max_length=253)]
Digits = Annotated[str, Field(min_length=1, max_length=34, pattern=r"^(0x)?[0-9A-Fa-f]+$")]
PageText = Annotated[str, Field(min_length=8, max_length=16384)]


@dataclass(frozen=True)
class Designation:
    """Vendor, product and serial number of INQUIRY, and the designators of the logical unit as the target writes them."""

    serial_number: str
    designators: tuple[str, ...]
    vendor: str
    product: str

    @property
    def names(self) -> frozenset[str]:
        """Names that no other LUN may have."""
        return frozenset({f"serial number {self.serial_number.rstrip(chr(0))}", *self.designators})


def _text(field: str, value: str, longest: int) -> str:
    if not _PRINTABLE.fullmatch(value) or len(value) > longest:
        raise InvalidError(f"known_as.{field}", "not what INQUIRY can show", f"at most {longest} characters of printable ASCII")
    return value


def _hexadecimal(field: str, value: str, *digits: int) -> str:
    value = value.lower().removeprefix("0x")
    if not re.fullmatch(r"[0-9a-f]+", value, re.ASCII) or len(value) not in digits:
        raise InvalidError(f"known_as.{field}", "not a name of this kind", f"{' or '.join(map(str, digits))} hexadecimal digits")
    return value


def _page(field: str, text: str, code: int) -> bytes:
    allowed = f"page {code:x}h of the logical unit in hexadecimal digits, its four bytes of header too"
    try:
        page = bytes.fromhex(text)
    except ValueError as error:
        raise InvalidError(f"known_as.{field}", "not hexadecimal", allowed) from error
    if len(page) < 4 or page[1] != code or int.from_bytes(page[2:4]) > len(page) - 4:
        raise InvalidError(f"known_as.{field}", "not this page, or cut off", allowed)
    return page[4 : 4 + int.from_bytes(page[2:4])]


def _of_descriptor(code_set: int, flags: int, designator: bytes) -> str | None:
    if flags & 0x30:  # association: a port's, or the target's
        return None
    match flags & 0xF, code_set:
        case 1, 2:
            return f"t10.{designator.decode('latin-1')}"
        case 2, 1:
            return f"eui.{designator.hex()}"
        case 3, 1:
            return f"naa.{designator.hex()}"
    return None


class LioNamesCreate(Model):
    """LIO: values in its configfs folder wwn: `vpd_unit_serial`, `product_id`, `vendor_id` and `company_id`."""

    system: Literal["lio"]
    unit_serial: Annotated[str, Field(min_length=8, max_length=128, pattern=ASCII)]
    model: Annotated[str, Field(min_length=1, max_length=16, pattern=ASCII)]
    vendor: Shown = "LIO-ORG"
    company_id: Digits = "001405"

    def designation(self) -> Designation:
        model, vendor = _text("model", self.model, 16), _text("vendor", self.vendor or "LIO-ORG", 8)
        company = _hexadecimal("company_id", self.company_id, 6)
        digits = "".join(re.findall(r"[0-9a-f]", self.unit_serial.lower()))[:25]
        if len(digits) < 8:  # the NAA names of two such units are likely to be the same
            reason = "LIO makes no name of so few hexadecimal digits"
            raise InvalidError("known_as.unit_serial", reason, "vpd_unit_serial as LIO has it")
        names = f"naa.6{company}{digits.ljust(25, '0')}", f"t10.{vendor.ljust(8)}{model}:{self.unit_serial}\0"
        return Designation(f"{self.unit_serial}\0", names, vendor, model)


class ScstNamesCreate(Model):
    """SCST: the device's attributes with these names."""

    system: Literal["scst"]
    usn: Text
    t10_vend_id: Shown
    vend_specific_id: Text
    prod_id: Shown
    t10_dev_id: Text | None = None
    eui64_id: Digits | None = None
    naa_id: Digits | None = None

    def designation(self) -> Designation:
        vendor = _text("t10_vend_id", self.t10_vend_id, 8)
        names = [f"t10.{vendor.ljust(8)}{self.vend_specific_id}"]
        if self.eui64_id:
            names.append(f"eui.{_hexadecimal('eui64_id', self.eui64_id, 16, 24, 32)}")
        if self.naa_id:
            names.append(f"naa.{_hexadecimal('naa_id', self.naa_id, 16, 32)}")
        if not self.eui64_id and not self.naa_id:
            first = (self.t10_dev_id or "").encode()[:8]
            if len(first) < 8:
                reason = "SCST makes a name of its first eight characters"
                raise InvalidError("known_as.t10_dev_id", reason, "t10_dev_id as SCST has it")
            names.append(f"eui.{first.hex()}")
        return Designation(self.usn, tuple(names), vendor, _text("prod_id", self.prod_id, 16))


class PageNamesCreate(Model):
    """Any target: vital product data pages 80h and 83h that a host reads, in hexadecimal; vendor and product of INQUIRY."""

    system: Literal["pages"]
    page_80: PageText
    page_83: PageText
    vendor: Shown
    product: Shown

    def designation(self) -> Designation:
        """Ignores names of ports and target."""
        serial, body = _page("page_80", self.page_80, 0x80), _page("page_83", self.page_83, 0x83)
        names, at = [], 0
        while at + 4 <= len(body):
            head, designator = body[at : at + 4], body[at + 4 : at + 4 + body[at + 3]]
            if len(designator) != head[3]:
                raise InvalidError("known_as.page_83", "it ends in the middle of a designator", "the whole page")
            at += 4 + head[3]
            name = _of_descriptor(head[0] & 0xF, head[1], designator)
            if name is not None:
                names.append(name)
        return Designation(serial.decode("latin-1"), tuple(names), self.vendor, self.product)


Names = LioNamesCreate | ScstNamesCreate | PageNamesCreate


def checked(designation: Designation) -> Designation:
    """Raises InvalidError for names that no disk has (SPC-5 7.7.6, 7.7.18)."""
    _text("vendor", designation.vendor, 8)
    _text("product", designation.product, 16)
    if not _SERIAL.fullmatch(designation.serial_number):
        raise InvalidError("known_as.serial_number", "not a serial number", "1 to 252 characters of printable ASCII")
    if not 1 <= len(designation.designators) <= 8:
        raise InvalidError("known_as.designators", "a disk has some names", "1 to 8")
    for name in designation.designators:
        if not any(form.fullmatch(name) for form in _FORMS):
            raise InvalidError(
                "known_as.designators",
                f"{name[:300]!r} is not a designator",
                "naa. and 16 (NAA 2, 3, 5) or 32 (NAA 6) hexadecimal digits, eui. and 16, 24 or 32, "
                "t10. and the vendor in 8 characters and the rest",
            )
    if len(set(designation.designators)) != len(designation.designators):
        raise InvalidError("known_as.designators", "one is there twice", "each once")
    return designation


def known_as(names: Names) -> Designation:
    """Names that a volume must retain, from what is known about it. Raises InvalidError."""
    return checked(names.designation())


def to_property(designation: Designation) -> str:
    return json.dumps(asdict(designation), separators=(",", ":"), sort_keys=True)


def of_property(text: str) -> Designation | None:
    """Parses the output of `to_property`; None for any other text."""
    try:
        fields = json.loads(text)
        designation = checked(Designation(**{**fields, "designators": tuple(fields["designators"])}))
    except (ValueError, TypeError, KeyError, InvalidError):
        return None
    return designation if to_property(designation) == text else None
