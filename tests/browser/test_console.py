# SPDX-License-Identifier: Apache-2.0
"""The console in a real browser against the appliance's real processes on simulated storage.

The browser is Debian's Chromium, driven by playwright-core. The stories are JavaScript, run by Node's test runner in the order of
their names: the first one starts with an appliance that is not set up. ZVAAI_PICTURES names a folder for screenshots of every
screen; without it none are saved.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import journal
from support.appliance import PORT, Appliance
from support.oidc_provider import provider
from support.programs import CACHE
from support.slapd import slapd

STORIES = sorted(Path(__file__).parent.glob("[0-9]*.js"))
CONSOLE = CACHE / "console"


@pytest.fixture(scope="module")
def server_journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A journal for the worker, with more than a page of entries."""
    folder = tmp_path_factory.mktemp("journal")
    fields = {"_TRANSPORT": "stdout", "_SYSTEMD_UNIT": "zvaai-target.service"}
    entries = [journal.entry(1_795_000_000 + number, f"login {number} of esx1", PRIORITY=6, **fields) for number in range(120)]
    entries.append(journal.entry(1_795_000_200, "WARNING: Pool 'tank' is suspended", _TRANSPORT="kernel", PRIORITY=4))
    journal.write(folder, entries)
    journal.program(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, server_journal: None) -> Iterator[dict[str, str]]:
    """Environment of the stories: the appliance's address and its one-time code."""
    appliance = Appliance(tmp_path_factory.mktemp("console"))
    code = appliance.serve()
    back = f"https://localhost:{PORT}/login/oidc"
    with slapd(tmp_path_factory.mktemp("slapd")) as directory, provider(tmp_path_factory.mktemp("oidc"), back) as oidc:
        logins = {"ZVAAI_DIRECTORY": json.dumps(directory.settings()), "ZVAAI_OIDC": json.dumps(oidc.settings())}
        yield _environment(appliance, code) | logins
    appliance.stop()


def _environment(appliance: Appliance, code: str) -> dict[str, str]:
    return {
        **os.environ,
        "ZVAAI_URL": f"https://localhost:{PORT}",
        "ZVAAI_SETUP_CODE": code,
        "ZVAAI_TARGET_CONTROL": str(appliance.target.socket_path),
        "ZVAAI_VOLUMES": str(appliance.directory / "volumes"),
        "ZVAAI_CONSOLE_MODULES": str(CONSOLE),
    }


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_story(story: Path, environment: dict[str, str]) -> None:
    command = ["node", "--test-reporter=spec", str(story)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-4000:]
