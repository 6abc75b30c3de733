# SPDX-License-Identifier: Apache-2.0
"""Licence lines of files: text and position."""

from __future__ import annotations

import pytest
import spdx


@pytest.mark.parametrize(
    ("name", "licence"),
    [
        ("appliance/config.py", "Apache-2.0"),
        ("ganesha_fsal/fileops/clone.c", "LGPL-3.0-or-later"),
        ("ganesha_fsal/client/command.c", "Apache-2.0"),
        ("ganesha_fsal/vaai_nas/procedure22_codec.h", "Apache-2.0"),
        ("ganesha_fsal/vaai_nas/procedure22.c", "LGPL-3.0-or-later"),
        ("packaging/dkms/zvol_clone/device.c", "GPL-2.0-only"),
        ("packaging/dkms/zvol_clone/zvol_clone.h", "GPL-2.0-only WITH Linux-syscall-note"),
    ],
)
def test_the_path_decides(name: str, licence: str) -> None:
    assert spdx.licence(name) == licence


def test_the_line_follows_the_interpreter() -> None:
    assert spdx.with_line("#!/bin/sh\necho\n", "# x") == "#!/bin/sh\n# x\necho\n"
    assert spdx.with_line('"""Doc."""\n', "# x") == '# x\n"""Doc."""\n'


def test_unknown_options_are_refused() -> None:
    assert spdx.main(["--nonsense"]) == 2
