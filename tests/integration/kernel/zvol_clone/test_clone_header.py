# SPDX-License-Identifier: Apache-2.0
"""The header can be used from user space, and agrees with the Python structure in this folder."""

from __future__ import annotations

import ctypes
from pathlib import Path

from integration.kernel.zvol_clone.kernel_module import PACKAGE
from integration.kernel.zvol_clone.zvol_clone_ioctl import (
    DEVICE,
    MAP_BLOCKS,
    VERSION,
    ZVOL_CLONE_MAP,
    ZVOL_CLONE_RANGE,
    Kind,
    MapExtent,
    MapRequest,
    Request,
    Stopped,
)
from support.programs import run


def test_python_and_c_agree(tmp_path: Path) -> None:
    structures = {"zvol_clone_range": Request, "zvol_clone_map": MapRequest, "zvol_clone_extent": MapExtent}
    fields = [(name, structure, field) for name, structure in structures.items() for field, *_ in structure._fields_]
    lines = [f'printf("%zu\\n", offsetof(struct {name}, {field}));' for name, _, field in fields]
    lines += [f'printf("%zu\\n", sizeof(struct {name}));' for name in structures]
    lines += [f'printf("%d\\n", ZVOL_CLONE_{value.name});' for value in (*Stopped, *Kind)]
    source = tmp_path / "agree.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{PACKAGE}/zvol_clone.h"\nint main(void) {{\n'
        + "\n".join(lines)
        + 'printf("%lu %lu ", ZVOL_CLONE_RANGE, ZVOL_CLONE_MAP);'
        + 'printf("%u %d %s\\n", ZVOL_CLONE_MAP_BLOCKS, ZVOL_CLONE_VERSION, ZVOL_CLONE_DEVICE);'
        + "return 0; }\n"
    )
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", tmp_path / "agree", source)
    printed = run(tmp_path / "agree").split()
    expected = [getattr(structure, field).offset for _, structure, field in fields]
    expected += [ctypes.sizeof(structure) for structure in structures.values()]
    expected += [int(value) for value in (*Stopped, *Kind)]
    expected += [ZVOL_CLONE_RANGE, ZVOL_CLONE_MAP, MAP_BLOCKS, VERSION]
    assert printed == [*map(str, expected), str(DEVICE)]
