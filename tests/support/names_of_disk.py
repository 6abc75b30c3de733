# SPDX-License-Identifier: Apache-2.0
"""A disk of another target, as hosts read it: a LIO volume."""

from __future__ import annotations


def page(code: int, body: bytes) -> bytes:
    """A vital product data page."""
    return bytes([0, code]) + len(body).to_bytes(2) + body


def descriptor(code_set: int, flags: int, designator: bytes) -> bytes:
    """One designation descriptor of page 83h. `flags` are association and type."""
    return bytes([code_set, flags, 0, len(designator)]) + designator


def of_lio(serial: str, naa: str, model: str) -> dict[str, str]:
    """The request's `known_as`, as docs/appliance.md reads it: in sysfs, vendor and model are padded with blanks.

    `naa` has 32 hexadecimal digits. The page also has names of the port and of the target.
    """
    of_unit = descriptor(1, 0x03, bytes.fromhex(naa)) + descriptor(2, 0x01, f"LIO-ORG {model}:{serial}\0".encode())
    of_port = descriptor(0x51, 0x94, bytes(4)) + descriptor(1, 0x06, bytes(4))
    body = of_unit + of_port + descriptor(0x53, 0xA8, b"iqn.2003-01.org.linux-iscsi.a:b\0")
    return {
        "page_80": page(0x80, f"{serial}\0".encode()).hex().upper(), "page_83": page(0x83, body).hex().upper(),
        "vendor": "LIO-ORG ", "product": model.ljust(16),
    }  # fmt: skip
