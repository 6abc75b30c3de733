# SPDX-License-Identifier: Apache-2.0
"""Licences of files."""

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
