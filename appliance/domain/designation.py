# SPDX-License-Identifier: Apache-2.0
"""Names that a volume's hosts know it by from another target, and that it keeps when it is adopted.

ESXi takes a VMFS datastore on a disk with other names for a copy of it, and does not mount it. The vital product data pages 80h
and 83h have all names of a disk (SPC-5 7.7.6, 7.7.18).
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from appliance.domain.errors import InvalidError
from appliance.domain.fields import Model

PROPERTY = "zvaai:designation"

_FORMS = (
    re.compile(r"naa\.([235][0-9a-f]{15}|6[0-9a-f]{31})"),
    re.compile(r"eui\.([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})"),
    re.compile(r"t10\.(?=.{9,252}$)[ -~]{8}[ -~]+\0?", re.DOTALL),
)
_SERIAL = re.compile(r"(?=.{1,252}$)[ -~]+\0?", re.DOTALL)
_PRINTABLE = re.compile(r"[ -~]*")

Shown = Annotated[str, Field(max_length=16, pattern=r"^[ -~]*$")]
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


def _check_text(field: str, value: str, longest: int) -> None:
    if not _PRINTABLE.fullmatch(value) or len(value) > longest:
        raise InvalidError(f"known_as.{field}", "not what INQUIRY can show", f"at most {longest} characters of printable ASCII")


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


class NamesCreate(Model):
    """Vital product data pages 80h and 83h that a host reads, in hexadecimal; vendor and product of INQUIRY, also with the blanks
    at their ends.
    """

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
        return Designation(serial.decode("latin-1"), tuple(names), self.vendor.rstrip(" "), self.product.rstrip(" "))


def checked(designation: Designation) -> Designation:
    """Raises InvalidError for names that no disk has (SPC-5 7.7.6, 7.7.18)."""
    _check_text("vendor", designation.vendor, 8)
    _check_text("product", designation.product, 16)
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


def known_as(names: NamesCreate) -> Designation:
    """Names that a volume must retain. Raises InvalidError."""
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
