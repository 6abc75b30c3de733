"""The header is usable from user space, and the Python structure beside this file is the same."""

from __future__ import annotations

import ctypes
from pathlib import Path

from integration.kernel.zvol_clone.kernel_module import PACKAGE
from integration.kernel.zvol_clone.zvol_clone_ioctl import DEVICE, VERSION, ZVOL_CLONE_RANGE, Request, Stopped
from support.programs import run


def test_python_and_c_agree(tmp_path: Path) -> None:
    fields = [name for name, *_ in Request._fields_]
    lines = [f'printf("%zu\\n", offsetof(struct zvol_clone_range, {name}));' for name in fields]
    lines += [f'printf("%d\\n", ZVOL_CLONE_{reason.name});' for reason in Stopped]
    source = tmp_path / "agree.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{PACKAGE}/zvol_clone.h"\nint main(void) {{\n'
        + "\n".join(lines)
        + 'printf("%zu %lu ", sizeof(struct zvol_clone_range), ZVOL_CLONE_RANGE);'
        + 'printf("%d %s\\n", ZVOL_CLONE_VERSION, ZVOL_CLONE_DEVICE);'
        + "return 0; }\n"
    )
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", tmp_path / "agree", source)
    printed = run(tmp_path / "agree").split()
    expected = [str(getattr(Request, name).offset) for name in fields] + [str(int(reason)) for reason in Stopped]
    assert printed == [*expected, str(ctypes.sizeof(Request)), str(ZVOL_CLONE_RANGE), str(VERSION), str(DEVICE)]
