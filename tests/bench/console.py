# SPDX-License-Identifier: Apache-2.0
"""The console with 1,000 datastores and 208 hosts: long tasks of the browser, and the first load on slow lines.

Service, target, nginx and browser are real; storage is simulated. tests/browser/measure.js adds two sessions of each host.
Nothing fails by time. Limits apply to elements and requests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
from bench.service import running
from support.programs import CACHE, REPOSITORY

PASSWORD = "correct horse battery"


def main(words: Sequence[str]) -> int:
    """Prints the figures; returns 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datastores", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--only", choices=["lists", "loads"], default="", help="measure only the lists, or only the first loads")
    options = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name), options.datastores, hosts_of_each=13) as (appliance, token, *_),
    ):
        url = f"https://localhost:{appliance.port}"
        user = {"name": "admin", "role": "admin", "password": PASSWORD}
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{url}/api/v1/users", json=user, headers=headers, verify=False, timeout=60)
        answer.raise_for_status()
        environment = {**os.environ, "ZVAAI_URL": url, "ZVAAI_CONSOLE_MODULES": str(CACHE / "console")}
        script = REPOSITORY / "tests/browser/measure.js"
        return subprocess.run(["node", str(script), options.only], env=environment, check=False, timeout=1800).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
