# SPDX-License-Identifier: Apache-2.0
"""At boot zvol_clone is built again if it is for another build of zfs than the loaded one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.programs import REPOSITORY

SCRIPT = REPOSITORY / "packaging/dkms/zvol_clone/zvol_clone-load"
BUILD_ID = "d9" * 20


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The loader with its own /sys and /proc, and programs that record how they are called."""
    zfs = tmp_path / "sys/module/zfs"
    (zfs / "notes").mkdir(parents=True)
    (zfs / "srcversion").write_text("D994CC\n")
    note = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0"
    (zfs / "notes/.note.gnu.build-id").write_bytes(note + bytes.fromhex(BUILD_ID))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/kallsyms").write_text("ffffffffc0de0000 t rrm_exit\t[zfs]\n")
    text = SCRIPT.read_text()
    for folder in ("sys", "proc"):
        text = text.replace(f"/{folder}/", f"{tmp_path}/{folder}/")
    return text


def called(
    script: str, installed: Path, *arguments: str, built: str = BUILD_ID, srcversion: str = "D994CC"
) -> tuple[list[str], str]:
    """The calls of dkms and modprobe, and the error."""
    calls = installed / "calls"
    stubs = f"""
        id() {{ echo 0; }}
        dkms() {{ [ "$1" = status ] && echo 'zvol_clone/2.1, 6.12, x86_64: installed' || echo "dkms $1" >>'{calls}'; }}
        modprobe() {{ echo "modprobe $*" >>'{calls}'; }}
        modinfo() {{
          case "$2 $3" in
            'srcversion zfs') echo {srcversion} ;;
            'zfs_build_id zvol_clone') echo {built} ;;
            'parm zvol_clone') echo 'rrm_exit:address of that function (ulong)' ;;
          esac
        }}
    """
    command = ["sh", "-c", stubs + script, "zvol_clone-load", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return calls.read_text().splitlines() if calls.exists() else [], result.stderr


LOADED = "modprobe zvol_clone rrm_exit=0xffffffffc0de0000"


def test_it_is_built_again_for_another_build_of_the_same_source(script: str, tmp_path: Path) -> None:
    assert called(script, tmp_path, "--rebuild", built="0b" * 20) == (["dkms build", "dkms install", LOADED], "")


def test_it_is_not_built_again_for_the_same_build(script: str, tmp_path: Path) -> None:
    assert called(script, tmp_path, "--rebuild") == ([LOADED], "")


def test_it_is_not_built_for_a_zfs_that_is_not_loaded(script: str, tmp_path: Path) -> None:
    calls, error = called(script, tmp_path, "--rebuild", built="", srcversion="ABCDEF")
    assert calls == [] and "reboot first" in error
