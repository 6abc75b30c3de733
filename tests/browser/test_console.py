"""The console in a real browser against the appliance's real processes on simulated storage.

The browser is Debian's Chromium, led by playwright-core. The stories are JavaScript, run by Node's own test runner in the order
of their names: the first one meets an appliance that nobody has set up yet. Pictures of every screen are left in
`.cache/console/pictures`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.appliance import PORT, Appliance
from support.programs import CACHE

STORIES = sorted(Path(__file__).parent.glob("[0-9]*.js"))
CONSOLE = CACHE / "console"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of the stories: where the appliance is, and its one-time code."""
    appliance = Appliance(tmp_path_factory.mktemp("console"))
    code = appliance.serve()
    yield {
        **os.environ,
        "ZVAAI_URL": f"https://localhost:{PORT}",
        "ZVAAI_SETUP_CODE": code,
        "ZVAAI_TARGET_CONTROL": str(appliance.target.socket_path),
        "ZVAAI_VOLUMES": str(appliance.directory / "volumes"),
        "ZVAAI_CONSOLE_MODULES": str(CONSOLE),
        "ZVAAI_PICTURES": str(CONSOLE / "pictures"),
    }
    appliance.stop()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_story(story: Path, environment: dict[str, str]) -> None:
    command = ["node", "--test", "--test-reporter=spec", str(story)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-4000:]
