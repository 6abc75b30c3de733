# SPDX-License-Identifier: Apache-2.0
"""The first screen of the disk image: a new host name reaches the NFS server and the certificate before the setup."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.programs import REPOSITORY

SCRIPT = REPOSITORY / "packaging/image/files/usr/sbin/zvaai-console"


@pytest.mark.parametrize(
    ("name", "set_up", "restarts"), [("storage1", False, True), ("storage1", True, False), ("zvaai", False, False)]
)
def test_a_new_host_name_reaches_the_services(tmp_path: Path, name: str, set_up: bool, restarts: bool) -> None:
    """`name` is what nmtui sets. After the setup hosts use the server, and its certificate may be an uploaded one."""
    for file in ("zvaai/setup-code", "zvaai-frontend/certificate.pem", "host-name"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("zvaai")
    if set_up:
        (tmp_path / "zvaai/setup-code").unlink()
    stubs = f"""
        clear() {{ :; }}
        sleep() {{ exit 1; }}
        zvaai() {{ echo code; }}
        whiptail() {{ echo network >&2; }}
        uname() {{ cat '{tmp_path}/host-name'; }}
        nmtui() {{ echo {name} >'{tmp_path}/host-name'; touch '{tmp_path}/has-password'; }}
        getent() {{ [ -e '{tmp_path}/has-password' ] && echo 'root:$y$:1' || echo 'root:*:1'; }}
        systemctl() {{ echo "$*" >>'{tmp_path}/calls'; }}
    """
    text = SCRIPT.read_text().replace("/var/lib/", f"{tmp_path}/").replace("/dev/tty", "/dev/null").replace("exec ", "exit # ")
    subprocess.run(["sh", "-c", stubs + text], check=True, timeout=60, stdin=subprocess.DEVNULL)
    calls = tmp_path / "calls"
    assert (calls.read_text() if calls.exists() else "") == ("try-restart zvaai-frontend nfs-ganesha\n" if restarts else "")
    assert (tmp_path / "zvaai-frontend/certificate.pem").exists() != restarts
