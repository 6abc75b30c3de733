# SPDX-License-Identifier: Apache-2.0
"""A private message bus."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

_LIKE_SYSTEM = """
    <allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
    <allow receive_type="signal"/><allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
"""
"""Rights of every user on the system bus (dbus's system.conf)."""
_ALL = '<allow user="root"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>'
_CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">{everybody}</policy>
  {policies}
</busconfig>
"""


@contextlib.contextmanager
def message_bus(directory: Path, *policies: Path) -> Iterator[str]:
    """Address of a running dbus-daemon. With policy files every user has the system bus's rights, otherwise root has all."""
    directory.mkdir(parents=True)
    configuration = directory / "bus.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            socket=directory / "socket",
            everybody=_LIKE_SYSTEM if policies else _ALL,
            policies="".join(f"<include>{path}</include>" for path in policies),
        )
    )
    command = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
