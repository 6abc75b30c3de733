#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""Writes seeds. usage: seeds.py FOLDER     FOLDER/TARGET/*"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support import procedure22

FILE, OTHER, OF_OTHER, READ_ONLY, ROOT, FOLDER = (bytes([number]) for number in (30, 31, 130, 160, 200, 201))


def sequence(*calls: bytes) -> bytes:
    """Encodes calls for next_call() of fake_server.c."""
    return b"".join(struct.pack("<H", len(call)) + call for call in calls)


def of_procedure22() -> dict[str, bytes]:
    """Every command, clones of every kind, and invalid calls."""

    def clone(source: bytes, destination: bytes, name: bytes) -> bytes:
        return procedure22.arguments(destination, source, procedure22.argument(procedure22.CLONE, name))

    def command(number: int, handle: bytes) -> bytes:
        return procedure22.arguments(handle, None, procedure22.argument(number))

    seeds = {f"command{number}": sequence(command(number, FILE), command(number, ROOT)) for number in range(1, 9)}
    seeds["odd_name"] = sequence(clone(FILE, OTHER, b"n" * 256), clone(FILE, ROOT, b"vm1//disk"), clone(FILE, FOLDER, b"vm1"))
    seeds["full"] = sequence(clone(FILE, OTHER, b"disk"), command(procedure22.PROGRESS, OTHER), command(procedure22.ABORT, OTHER))
    seeds["lazy"] = sequence(clone(FILE, ROOT, b"disk"), clone(FILE, FOLDER, b"vm1/disk"), clone(FILE, ROOT, b"vm1/disk"))
    seeds["across"] = sequence(clone(OF_OTHER, OTHER, b"disk"), clone(OF_OTHER, ROOT, b"new"), clone(FILE, READ_ONLY, b"x"))
    seeds["version"] = sequence(procedure22.arguments(FILE, None, procedure22.argument(3, version=2)))
    seeds["short"] = sequence(procedure22.arguments(FILE, None, b"short"), b"")
    return seeds


def of_copy() -> dict[str, bytes]:
    """Single calls: with a source, without, truncated, and with handles that are too long."""
    argument = procedure22.argument(procedure22.CLONE, b"disk")
    whole = procedure22.arguments(bytes(31), bytes(64), argument)
    return {
        "source": whole,
        "none": procedure22.arguments(FILE, None, argument),
        "short": whole[:-1],
        "more": whole + bytes(4),
        "long": procedure22.arguments(bytes(65), None, argument),
        "longest": procedure22.arguments(bytes(4096), None, argument),
        "largest": procedure22.arguments(bytes(64), bytes(64), bytes(1024)),
    }


def of_control() -> dict[str, bytes]:
    """Every method, requests about jobs, paths outside the export, and invalid lines."""

    def line(method: str, **parameters: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()

    def clone(source: str, destination: str, **more: object) -> bytes:
        return line("clone.start", export=1, source=source, destination=destination, request_id="0123456789abcdef" * 2, **more)

    def about(method: str) -> bytes:
        return line(method, export=1, job=0).replace(b'"job": 0', b'"job": @')

    return {
        "statistics": sequence(line("service.get"), line("statistics.get"), line("statistics.get", x=1)),
        "list": sequence(line("files.list", export=1), line("files.list", export=1, after="a", limit=5)),
        "space": sequence(
            line("space.get", export=1), line("space.shared", export=1, restart=True), line("space.shared", export=2, restart=1)
        ),
        "file": sequence(line("file.statistics", export=1, path="30"), line("file.statistics", export=1, path="vm1")),
        "clone": sequence(clone("30", "vm1/new.vmdk"), about("job.get"), about("job.cancel"), about("job.get")),
        "repeat": sequence(clone("30", "new", fast=True), clone("30", "new", fast=True), clone("31", "new")),
        "folder": sequence(clone("30", "vm1")),
        "paths": sequence(clone("../30", "/new"), clone("30", "vm1/../../new"), clone("30//1", "vm1/")),
        "none": sequence(b"", b"{", b"[]", b'{"jsonrpc":"2.0"}'),
    }


ALL = {"procedure22": of_procedure22(), "procedure22_copy": of_copy(), "nas_control": of_control()}
for name, seeds in ALL.items():
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True, exist_ok=True)
    for title, data in seeds.items():
        (folder / title).write_bytes(data)
