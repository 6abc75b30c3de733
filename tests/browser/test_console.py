"""The console in a real browser against the appliance's real processes on simulated storage.

The browser is Debian's Chromium, led by playwright-core. The stories are JavaScript, run by Node's own test runner in the order
of their names: the first one meets an appliance that nobody has set up yet. ZVAAI_PICTURES is the folder where pictures of every
screen are left; none are made without it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.appliance import PORT, Appliance
from support.programs import CACHE, REPOSITORY

STORIES = sorted(Path(__file__).parent.glob("[0-9]*.js"))
CONSOLE = CACHE / "console"
SOURCES = REPOSITORY / "ui/src"
RAN: set[Path] = set()
"""Stories."""


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
        "ZVAAI_FORMS_WALKED": str(appliance.directory / "forms-walked"),
    }
    appliance.stop()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_story(story: Path, environment: dict[str, str]) -> None:
    RAN.add(story)
    command = ["node", "--test-reporter=spec", str(story)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-4000:]


SENDS = re.compile(r"^\s*const (\w+|\{[^}]*\}) = useSubmission\b|<(?:JobDialog|ChangeDialog)\b", re.MULTILINE)


def functions_of(source: Path) -> list[str]:
    """Those of a module, components too: what comes before the first one, and each from its name on."""
    # At the beginning of a line.
    return re.split(r"^(?:export )?(?:default )?(?:async )?function ", source.read_text(), flags=re.MULTILINE)


def forms_of(source: Path) -> list[str]:
    """What a screen sends: its folder and component, and where a component sends several things, the name of each."""
    folder = source.relative_to(SOURCES / "screens").parent
    found = []
    for component in functions_of(source)[1:]:
        name = component[: component.index("(")].partition("<")[0]
        several = [sent.group(1) for sent in SENDS.finditer(component)]
        found += [f"{folder} {name}" if len(several) == 1 else f"{folder} {name}.{one}" for one in several]
    return found


def test_every_form_met_what_can_go_wrong(environment: dict[str, str]) -> None:
    """Lost connection, 409, 422, 500 and the session's end lose nothing of what was typed, on each form (forms.js)."""
    if set(STORIES) != RAN:
        pytest.skip("only some stories ran, and each has its forms")
    forms = Counter(form for source in SOURCES.rglob("screens/**/*.tsx") for form in forms_of(source))
    assert set(forms.values()) == {1}, forms.most_common(3)
    assert set(forms) == set(Path(environment["ZVAAI_FORMS_WALKED"]).read_text().splitlines())


def test_all_that_is_sent_goes_through_the_parts_of_forms() -> None:
    """By which test_every_form_met_what_can_go_wrong finds them. The session's own requests are told by who uses them."""
    sources = [source for source in SOURCES.rglob("*.ts*") if (SOURCES / "session") not in source.parents]
    functions = [(str(source), one) for source in sources for one in functions_of(source)]
    sending = [(source, one) for source, one in functions if re.search(r"\bapi\.(POST|PUT|PATCH|DELETE)\b", one)]
    assert sending and [(source, one[:40]) for source, one in sending if not SENDS.search(one)] == []
