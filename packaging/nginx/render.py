# SPDX-License-Identifier: Apache-2.0
"""nginx.conf with other addresses and paths, for the demo and for tests."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_name("nginx.conf")


def render(address: str, port: int, *, api: Path, certificates: Path, site: Path, runtime: Path) -> str:
    """The configuration for a frontend at `address`, with the API's socket and the folders of certificate, console and nginx."""
    text = FILE.read_text()
    for installed, other in {
        "0.0.0.0:8443": f"{address}:{port}",
        "/run/zvaai-api/http.sock": str(api),
        "/var/lib/zvaai-frontend": str(certificates),
        "/usr/share/zvaai/console": str(site),
        "/run/zvaai-frontend": str(runtime),
    }.items():
        assert installed in text, installed
        text = text.replace(installed, other)
    return text
