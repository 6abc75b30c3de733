#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a Module.symvers for the kernel in an ELF file, from its own export tables.

Usage: symvers.py LINUX_UML > Module.symvers

Debian's user-mode-linux package carries no Module.symvers and its binary is stripped, but the export
tables `__ksymtab` and `__ksymtab_gpl` stay. An entry of a kernel without CONFIG_HAVE_ARCH_PREL32_RELOCATIONS is three
absolute 64-bit pointers: value, name, namespace (Linux, include/linux/export.h, `struct kernel_symbol`).
CONFIG_MODVERSIONS is off in that kernel, so that every CRC is 0.

Exit status 1 with a message when the file is not such a kernel.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path

SHT_NOBITS = 8
KERNEL_SYMBOL_BYTES = 24
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


class NotAKernel(Exception):
    """The file is not an ELF64 kernel with absolute export tables."""


@dataclass(frozen=True)
class Section:
    """One ELF section: name offset, type, load address, file offset, length in bytes."""

    name_offset: int
    kind: int
    address: int
    offset: int
    size: int


class KernelImage:
    """The sections of an ELF64 little-endian file and the strings its pointers lead to."""

    def __init__(self, image: bytes) -> None:
        if image[:6] != b"\x7fELF\x02\x01":
            raise NotAKernel("not an ELF64 little-endian file")
        self._image = image
        (table,) = struct.unpack_from("<Q", image, 0x28)
        entry_bytes, count, names = struct.unpack_from("<HHH", image, 0x3A)
        self._sections = [
            Section(h[0], h[1], h[3], h[4], h[5])
            for h in (SECTION_HEADER.unpack_from(image, table + i * entry_bytes) for i in range(count))
        ]
        self._names = self._sections[names]

    def _string(self, offset: int) -> str:
        return self._image[offset : self._image.index(b"\0", offset)].decode()

    def _string_at(self, address: int) -> str:
        for section in self._sections:
            inside = section.address and section.address <= address < section.address + section.size
            if inside and section.kind != SHT_NOBITS:
                return self._string(section.offset + address - section.address)
        raise NotAKernel(f"an export table points outside the file (0x{address:x}): relative relocations?")

    def exports(self) -> list[str]:
        """The lines of Module.symvers, in table order."""
        lines = []
        for section in self._sections:
            name = self._string(self._names.offset + section.name_offset)
            if name not in ("__ksymtab", "__ksymtab_gpl"):
                continue
            kind = "EXPORT_SYMBOL" + ("_GPL" if name.endswith("_gpl") else "")
            for entry in range(section.offset, section.offset + section.size, KERNEL_SYMBOL_BYTES):
                _value, symbol, namespace = struct.unpack_from("<QQQ", self._image, entry)
                in_namespace = self._string_at(namespace) if namespace else ""
                lines.append(f"0x00000000\t{self._string_at(symbol)}\tvmlinux\t{kind}\t{in_namespace}")
        if not lines:
            raise NotAKernel("no __ksymtab section")
        return lines


def main() -> int:
    """Print the exports of the kernel named on the command line."""
    try:
        print("\n".join(KernelImage(Path(sys.argv[1]).read_bytes()).exports()))
    except NotAKernel as error:
        print(f"symvers: {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
