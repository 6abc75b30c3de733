# SPDX-License-Identifier: Apache-2.0
"""Commands: imperative help with examples that parse, lists that are added to, names not identifiers, confirmation."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import typer
from simulators.appliance import GIB
from simulators.target import TargetSimulator
from sqlalchemy import delete

from appliance.cli.__main__ import application
from appliance.cli.client import Client
from appliance.cli.pools import vdevs_of
from appliance.cli.tests.conftest import Command
from appliance.database.models import User
from appliance.dataplane.ganesha import ExportRefusedError
from appliance.dataplane.reconcile import Failure
from appliance.dataplane.target import LoggedIn, TargetUnreachableError
from appliance.domain import access
from appliance.domain.addresses import Address
from appliance.domain.journal import Finding, update_alerts
from appliance.zfs.model import DiskHealth, Scan, ScanState

ROOT = typer.main.get_command(application)
ESX = "iqn.1998-01.com.vmware:esx1"


def commands(group: click.Command = ROOT, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All, with the words that lead to them."""
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, (*words, name))
    else:
        yield words, group


VISIBLE = {" ".join(words): command for words, command in commands() if not command.hidden}


def examples(command: click.Command) -> list[str]:
    return re.findall(r"^ *Example: (zvaai .*)$", command.help or "", re.MULTILINE)


def raise_alerts(zvaai: Command, *alerts: tuple[str, str]) -> None:
    """Raises alerts, each with a severity and a text."""
    findings = [Finding(f"odd:{number}", severity, "tank", text, "") for number, (severity, text) in enumerate(alerts)]
    with zvaai.appliance.store.session() as session:
        update_alerts(session, "odd", findings)


def parse(line: str) -> None:
    """Parses a line like click, without running it. Raises click.UsageError."""
    words = shlex.split(line)[1:]
    command: click.Command = ROOT
    parent = ROOT.make_context("zvaai", ["status"], resilient_parsing=True)
    while isinstance(command, click.Group):
        word = words.pop(0)
        command = command.commands[word]
        context = command.make_context(word, list(words), parent=parent) if not isinstance(command, click.Group) else parent
        parent = context


@pytest.mark.parametrize("name", VISIBLE)
def test_help_has_imperatives(name: str) -> None:
    """A sentence in the imperative, each option explained, and an example that parses."""
    command = VISIBLE[name]
    first = (command.help or "").split("\n", 1)[0]
    assert re.match(r"[A-Z][a-z]+ ", first) and first.endswith((".", "minute.")), first
    assert not re.match(r"(The|A|An|What|Who|Whether|Of|With|By|All|One|Its|Those|New|[A-Z][a-z]+s) ", first), first
    assert examples(command), "no example"
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in ("help", "wait", "yes"):
            assert option.help, f"{name} --{option.name}"


@pytest.mark.parametrize(("name", "line"), [(name, line) for name in VISIBLE for line in examples(VISIBLE[name])])
def test_examples_parse(name: str, line: str) -> None:
    assert line.startswith(f"zvaai {name}")
    parse(line)


def test_a_wrong_example_would_fail() -> None:
    with pytest.raises(click.UsageError):
        parse("zvaai host change esx1 --no-such-option")
    with pytest.raises(click.UsageError):
        parse("zvaai datastore create vmfs1")


def test_shell_completion_knows_the_nouns(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like bash after `zvaai --install-completion`."""
    from click.shell_completion import BashComplete  # noqa: PLC0415

    monkeypatch.setenv("COMP_WORDS", "zvaai por")
    monkeypatch.setenv("COMP_CWORD", "1")
    completions = BashComplete(ROOT, {}, "zvaai", "_ZVAAI_COMPLETE").get_completions([], "por")
    assert [option.value for option in completions] == ["portal"]
    assert "--install-completion" in zvaai("--help")


def test_lists_are_added_to_and_taken_from(zvaai: Command) -> None:
    for group in ("one", "two"):
        zvaai("group", "create", group)
    zvaai("host", "create", "esx1", "--iqn", ESX, "--group", "one")
    zvaai("host", "change", "esx1", "--add-iqn", f"{ESX}-b", "--add-address", "192.0.2.11")
    zvaai("host", "change", "esx1", "--remove-iqn", ESX)
    (host,) = zvaai.json("host", "list")
    assert host["iqns"] == [f"{ESX}-b"] and host["addresses"] == ["192.0.2.11"]
    code, printed = zvaai.run("host", "change", "esx1", "--remove-iqn", "iqn.2000-01.absent:x")
    assert code == 3 and printed == f"iqn.2000-01.absent:x is not among the iqns: {ESX}-b"
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--group", "one", "--wait")
    zvaai("datastore", "change", "vmfs1", "--add-group", "two", "--wait")
    zvaai("datastore", "change", "vmfs1", "--remove-group", "one", "--wait")
    code, printed = zvaai.run("datastore", "change", "vmfs1", "--remove-group", "one")
    assert code == 3 and printed == "one is not among the host groups: two"
    names = {group["id"]: group["name"] for group in zvaai.json("group", "list")}
    assert [names[host_group] for host_group in zvaai.json("datastore", "show", "vmfs1")["host_groups"]] == ["two"]
    zvaai("group", "change", "two", "--disable", "unmap", "--disable", "token")
    zvaai("group", "change", "two", "--enable", "token")
    assert [group["disabled_offloads"] for group in zvaai.json("group", "list") if group["name"] == "two"] == [["unmap"]]
    shown = zvaai("host", "list")
    assert " one " in shown and host["id"] not in shown
    shown = zvaai("host", "show", "esx1")
    assert ESX in shown and "esxcli" in shown and zvaai.appliance.target_name in shown


def test_the_chap_name_is_the_iscsi_name_unless_another_is_set(zvaai: Command) -> None:
    """As in the console: ESXi uses its iSCSI name by default."""
    zvaai("host", "create", "esx1", "--iqn", ESX, "--iqn", f"{ESX}-second")

    def chap_name(*options: str) -> str:
        zvaai("host", "chap", "esx1", *options, text="a-good-long-secret\n")
        return str(zvaai.json("host", "list")[0]["chap_name"])

    assert chap_name() == ESX
    assert chap_name("--name", "esx1-chap") == "esx1-chap"
    assert chap_name() == "esx1-chap"
    zvaai("host", "chap", "esx1", "--remove", "--yes")
    assert chap_name() == ESX


def test_a_host_has_the_time_at_which_it_was_last_seen(zvaai: Command) -> None:
    zvaai("host", "create", "esx1", "--iqn", ESX)

    def shown() -> tuple[str, str]:
        (row,) = [line for line in zvaai("host", "list").splitlines() if line.startswith("esx1")]
        (fact,) = [line for line in zvaai("host", "show", "esx1").splitlines() if line.startswith("last seen at")]
        return row.split()[2], fact.split()[3]

    assert shown() == ("-", "-")
    target, service = zvaai.appliance.target, zvaai.appliance.service
    assert isinstance(target, TargetSimulator)
    name = zvaai.appliance.target_name
    service.periodic.now = lambda: 1_795_262_400
    target.logged_in = [LoggedIn(ESX, name, "192.0.2.9:51000", "192.0.2.1:3260", 1_795_262_400, None)]
    service.periodic.hosts()
    assert shown() == ("2026-11-21T12:00:00.000Z", "2026-11-21T12:00:00.000Z")


def test_a_change_is_of_the_version_that_was_read(zvaai: Command) -> None:
    """A change by another user in between is not lost: both names exist afterwards."""
    zvaai("host", "create", "esx1", "--iqn", ESX)
    (host,) = zvaai.json("host", "list")
    theirs = {"iqns": [ESX, f"{ESX}-theirs"]}
    zvaai.before_change = lambda: zvaai.appliance.request("PATCH", f"/hosts/{host['id']}", theirs)
    zvaai("host", "change", "esx1", "--add-iqn", f"{ESX}-mine")
    assert zvaai.json("host", "list")[0]["iqns"] == [ESX, f"{ESX}-mine", f"{ESX}-theirs"]


def test_users_are_changed(zvaai: Command) -> None:
    zvaai("user", "create", "olga", "--role", "operator", text="a password of hers\n")
    zvaai("user", "change", "olga", "--role", "viewer", "--disable")
    (olga,) = [user for user in zvaai.json("user", "list") if user["name"] == "olga"]
    assert (olga["role"], olga["disabled"]) == ("viewer", True)


@pytest.mark.parametrize(
    "words",
    [
        ("group", "delete", "cluster"),
        ("datastore", "delete", "vmfs1"),
        ("user", "delete", "viewer"),
        ("schedule", "delete", "often"),
        ("snapshot", "rollback", "vmfs1", "before"),
        ("snapshot", "delete", "vmfs1", "before"),
        ("schedule", "change", "hourly", "--daily", "3"),
        ("schedule", "change", "hourly", "--protect", "0d"),
        ("host", "chap", "esx1", "--remove"),
        ("iscsi", "target-chap", "--remove"),
    ],
)
def test_destructive_commands_ask(zvaai: Command, words: tuple[str, ...]) -> None:
    zvaai("group", "create", "cluster")
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    zvaai("snapshot", "create", "before", "vmfs1", "--wait")
    zvaai("schedule", "scrub", "often", "tank", "--every", "1w")
    zvaai("schedule", "create", "hourly", "vmfs1", "--every", "1h", "--daily", "7", "--protect", "1d")
    zvaai("host", "create", "esx1", "--iqn", ESX)
    zvaai.sent.clear()
    code, printed = zvaai.run(*words)
    assert code == 2 and "--yes" in printed and zvaai.sent == []
    assert [datastore["state"] for datastore in zvaai.json("datastore", "list")] == ["active"]
    zvaai(*words, "--yes")


def test_detach_and_abandon_ask(zvaai: Command) -> None:
    for words in (("pool", "detach", "tank", "/dev/disk/by-id/A"), ("job", "abandon", "0b1c2d3e-4f50-4a6b-8c7d-8e9fa0b1c2d3")):
        code, printed = zvaai.run(*words)
        assert code == 2 and "--yes" in printed and zvaai.sent == []
        assert zvaai.run(*words, "--yes")[0] in (3, 7) and len(zvaai.sent) == 1
        zvaai.sent.clear()


def test_a_schedule_that_retains_more_does_not_ask(zvaai: Command) -> None:
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    zvaai("schedule", "create", "hourly", "vmfs1", "--every", "1h", "--daily", "7")
    zvaai("schedule", "change", "hourly", "--daily", "30", "--weekly", "4")
    code, printed = zvaai.run("schedule", "change", "hourly", "--daily", "8", "--weekly", "5")
    assert code == 2 and "Lower daily from 30 to 8? The snapshots that hourly no longer retains are destroyed." in printed


def test_a_rollback_destroys_the_newer_snapshots_that_it_has_named(zvaai: Command) -> None:
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    for name in ("one", "two", "three"):
        zvaai("snapshot", "create", name, "vmfs1", "--wait")
    words = ("snapshot", "rollback", "vmfs1", "one")
    code, printed = zvaai.run(*words)
    assert code == 2 and "the newer snapshots two, three. Repeat" in printed
    code, printed = zvaai.run(*words, "--yes", "--force")
    assert code == 4 and "two, three" in printed and "--destroy-newer" in printed
    snapshot = {"name": "late", "datastores": [store["id"] for store in zvaai.json("datastore", "list")]}
    zvaai.before_change = lambda: zvaai.appliance.job("POST", "/snapshots", snapshot)
    code, printed = zvaai.run(*words, "--yes", "--destroy-newer")
    assert code == 4 and "late" in printed and "--force" not in printed
    assert len(zvaai.json("snapshot", "list", "vmfs1")) == 4
    zvaai(*words, "--yes", "--destroy-newer", "--wait")
    assert [snapshot["name"] for snapshot in zvaai.json("snapshot", "list", "vmfs1")] == ["one"]


def test_several_snapshots_are_deleted_or_none(zvaai: Command) -> None:
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    for name in ("one", "two", "three"):
        zvaai("snapshot", "create", name, "vmfs1", "--wait")
    zvaai("snapshot", "hold", "vmfs1", "two", "audit", "--wait")
    code, printed = zvaai.run("snapshot", "delete", "vmfs1", "one", "two", "three")
    assert code == 2 and "vmfs1@one, vmfs1@two, vmfs1@three" in printed
    code, printed = zvaai.run("snapshot", "delete", "vmfs1", "one", "two", "three", "--yes")
    assert code == 4 and "two (held: audit)" in printed
    assert len(zvaai.json("snapshot", "list", "vmfs1")) == 3
    zvaai("snapshot", "delete", "vmfs1", "one", "three", "--yes", "--wait")
    assert [snapshot["name"] for snapshot in zvaai.json("snapshot", "list", "vmfs1")] == ["two"]


def test_alerts_are_shown(zvaai: Command) -> None:
    with zvaai.appliance.store.session() as session:
        update_alerts(session, "odd", [Finding("odd:one", "warning", "tank", "it is odd", "check it")])
    assert "check it" in zvaai("alert", "list")
    raise_alerts(zvaai, *[("info", str(number)) for number in range(501)])
    assert len(zvaai.json("alert", "list", "--all")) >= 501, "no page is left out"


def test_everybody_needs_to_be_meant(zvaai: Command) -> None:
    words = ("datastore", "create", "nfs1", "--kind", "nfs", "--pool", "tank", "--size", "1G", "--client", "0.0.0.0/0", "--wait")
    code, printed = zvaai.run(*words)
    assert code == 7 and "--anyone" in printed and zvaai.json("datastore", "list") == []
    zvaai(*words, "--anyone")
    for network in ("::/0", "0.0.0.0/0.0.0.0", "0.0.0.0/00"):
        code, printed = zvaai.run("datastore", "change", "nfs1", "--add-client", network)
        assert code == 7 and "--anyone" in printed
    zvaai("datastore", "change", "nfs1", "--add-client", "192.0.2.0/24", "--anyone", "--wait")


def test_login_has_the_role_of_the_user(zvaai: Command) -> None:
    """The token's scope is the user's role unless another is given."""
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    from appliance.cli import overview  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "_server", lambda url, _fingerprint: (url, None))
        patch.setattr(DefaultCookiePolicy, "return_ok_secure", lambda *_: True)  # this server has no TLS
        printed = zvaai("login", zvaai.url, "--user", "operator", text=f"{PASSWORD}\n")
    assert "as operator (operator)" in printed
    assert (zvaai.home / "zvaai" / "cli.json").stat().st_mode & 0o077 == 0


def test_a_token_makes_one_that_ends_earlier_without_a_password(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("token", "create", "prometheus", "--scope", "viewer", "--days", "1")
    assert zvaai.json(*words)["secret"].startswith("zvaai_")
    monkeypatch.setattr("appliance.cli.shared.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert re.search("secret +zvaai_", zvaai(*words, text="\n")), "at a terminal too"


def test_a_login_deletes_the_token_of_the_login_before(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    from appliance.cli import overview  # noqa: PLC0415

    monkeypatch.setattr(overview, "_server", lambda url, _fingerprint: (url, None))
    monkeypatch.setattr(DefaultCookiePolicy, "return_ok_secure", lambda *_: True)  # this server has no TLS
    ids = []
    for _ in range(3):
        zvaai("login", zvaai.url, text=f"{PASSWORD}\n")
        ids.append([token["id"] for token in zvaai.json("token", "list") if token["name"].startswith("zvaai on ")])
        if len(ids) == 2:
            zvaai("token", "delete", ids[1][0], "--yes")  # the next login finds nothing to delete
    assert [len(each) for each in ids] == [1, 1, 1] and len({each[0] for each in ids}) == 3
    stored = json.loads((zvaai.home / "zvaai" / "cli.json").read_text())
    assert stored["token"].split("_")[1] == ids[2][0]


def test_the_first_admin_types_the_code(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the arguments, all users of the machine could read it."""
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    from appliance.cli import overview  # noqa: PLC0415

    with zvaai.appliance.store.session() as session:
        session.execute(delete(User))
        code = access.prepare_setup(session, zvaai.appliance.configuration.setup_code)
    monkeypatch.setattr(overview, "_server", lambda url, _fingerprint: (url, None))
    monkeypatch.setattr(DefaultCookiePolicy, "return_ok_secure", lambda *_: True)  # this server has no TLS
    printed = zvaai("login", zvaai.url, "--setup-code", text=f"{code}\n{PASSWORD}\n")
    assert "recovery key: " in printed and "as admin (admin)" in printed


def test_a_terminal_obeys_no_log_message(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients without a login write to the log, and NFS clients make names."""
    entry = {"at": "2026-11-29", "unit": "zvaai-api", "priority": "info", "text": "POST /\x1b]0;title\x1b\\\x07\x9b2J"}
    monkeypatch.setattr(Client, "all", lambda *_, **__: [entry])
    replaced = "POST /\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}\\"
    assert replaced + "\N{REPLACEMENT CHARACTER}" * 2 + "2J" in zvaai("logs")


def test_two_factor_login(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned on with a code, required at the login only, turned off, and reset for another user."""
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    from appliance.cli import overview  # noqa: PLC0415
    from appliance.domain import second_factor  # noqa: PLC0415

    secret = second_factor.new_secret()
    monkeypatch.setattr(second_factor, "new_secret", lambda: secret)
    monkeypatch.setattr(second_factor, "_now", lambda: 1_000_000_000.0)
    code = second_factor.code_of(secret, 1_000_000_000 // 30)
    printed = zvaai("user", "totp", "--on", text=f"{PASSWORD}\n{code}\n")
    assert secret in printed and "otpauth://totp/" in printed
    recovery = re.findall(r"^[0-9a-f]{4}(?:-[0-9a-f]{4}){3}$", printed, re.MULTILINE)
    assert len(recovery) == second_factor.RECOVERY_CODES
    monkeypatch.setattr(overview, "_server", lambda url, _fingerprint: (url, None))
    monkeypatch.setattr(DefaultCookiePolicy, "return_ok_secure", lambda *_: True)  # this server has no TLS
    assert "as admin (admin)" in zvaai("login", zvaai.url, text=f"{PASSWORD}\n{recovery[0]}\n")
    status, printed = zvaai.run("login", zvaai.url, text=f"{PASSWORD}\n{recovery[0]}\n")
    assert status == 5 and "wrong, or was used before" in printed
    assert "is off" in zvaai("user", "totp", "--off", text=f"{PASSWORD}\n")
    zvaai("user", "change", "operator", "--reset-totp")
    assert {user["totp"] for user in zvaai.json("user", "list")} == {False}


def test_load_is_shown_by_name_the_most_operations_first(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("idle", "large", "busy"):
        zvaai("datastore", "create", name, "--pool", "tank", "--size", "1G", "--wait")
    ids = {datastore["name"]: datastore["id"] for datastore in zvaai.json("datastore", "list")}
    history = zvaai.appliance.service.history
    history.stop()
    now = int(time.time()) // 10 * 10
    rates: dict[str, list[float | None]] = {name: [0.0] * 9 for name in ids}
    rates["busy"][0], rates["busy"][2] = 340.0, 12.0 * (1 << 20)
    rates["large"][0], rates["large"][2] = 20.0, 20.0 * (1 << 20)
    monkeypatch.setattr(history, "_at", now)
    monkeypatch.setattr(history, "_load", {f"datastore-{ids[name]}": values for name, values in rates.items()})
    lines = [line.split() for line in zvaai("datastore", "load").splitlines()]
    assert lines[1:] == [["busy", "340/s", "12", "MiB/s"], ["large", "20/s", "20", "MiB/s"], ["idle", "0/s", "0", "B/s"]]


def test_history_is_a_line_for_each_time(zvaai: Command) -> None:
    zvaai("host", "create", "esx1", "--iqn", ESX)
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    zvaai.appliance.service.history.collect(int(time.time()) // 60 * 60)
    lines = zvaai("datastore", "history", "vmfs1", "--range", "hour").splitlines()
    assert "P99 MS" in lines[0] and len(lines) in range(20, 27) and any(line.endswith("KiB") for line in lines)
    assert "not foreseen" in zvaai("pool", "history", "tank")
    assert "USED" not in zvaai("host", "history", "esx1", "--range", "year", "--until", "2026-01-01")
    rows = zvaai("pool", "history", "tank", "--range", "day", "--until", "2026-01-02 00:00Z").splitlines()
    assert rows[1].startswith("2026-01-01T01:00:00Z ")
    zvaai("pool", "history", "tank", "--until", "2h")
    assert zvaai.run("pool", "history", "tank", "--until", "noon")[0] == 7
    assert len(zvaai.json("pool", "history", "tank", "--range", "hour")["load"]["series"]["p99_ms"]) == 360


def test_a_scan_shows_what_it_repaired(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for function, state, done in (
        ("scrub", ScanState.SCANNING, "99 %, 3 GiB repaired, 1 errors left"),
        ("resilver", ScanState.FINISHED, "100 %, 3 GiB written, 1 errors left"),
    ):
        scan = Scan(function=function, state=state, started=1, to_examine=1000, issued=996, repaired=3 * GIB, errors=1)
        monkeypatch.setattr(zvaai.appliance.simulator, "_report_scan", lambda _pool, scan=scan: scan)
        zvaai.appliance.service.context.scan()
        assert f"{function}: {state}, {done}" in zvaai("pool", "show", "tank")
        running = "scan      running  tank: scrub, 99 %" in zvaai.run("status")[1]
        assert running == (state == ScanState.SCANNING)
    assert zvaai.json("pool", "show", "tank")["scan"]["repaired"] == str(3 * GIB)


def test_snapshots_are_found_in_all_datastores(zvaai: Command) -> None:
    for name in ("gold1", "gold2", "silver"):
        zvaai("datastore", "create", name, "--pool", "tank", "--size", "1G", "--wait")
        zvaai("snapshot", "create", f"Before-{name}", name, "--wait")
    zvaai("snapshot", "create", "after", "gold2", "--wait")
    lines = [line.split()[:2] for line in zvaai("snapshot", "find", "gold", "before").splitlines()[1:]]
    assert sorted(lines) == [["gold1", "Before-gold1"], ["gold2", "Before-gold2"]]
    assert len(zvaai.json("snapshot", "find", "gold2")) == 2
    pages = zvaai.appliance.get("/snapshots?limit=3")
    rest = zvaai.appliance.get(f"/snapshots?limit=3&cursor={pages['next_cursor']}")
    names = [snapshot["name"] for snapshot in pages["items"] + rest["items"]]
    assert sorted(names) == ["Before-gold1", "Before-gold2", "Before-silver", "after"] and rest["next_cursor"] is None


def test_a_reboot_asks(zvaai: Command) -> None:
    """For a confirmation and the password. What it interrupts is shown before."""
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    done: list[bool] = []
    zvaai.appliance.service.context.shut_down = done.append
    code, printed = zvaai.run("power", "reboot", text=f"{PASSWORD}\n")
    assert code == 2 and "--yes" in printed and "console users" in printed and done == []
    assert zvaai.run("power", "off", "--yes", text="wrong\n")[0] == 7
    zvaai("power", "reboot", "--yes", text=f"{PASSWORD}\n")
    zvaai("power", "off", "--yes", text=f"{PASSWORD}\n")
    assert done == [True, False]


def test_updates_are_shown(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from appliance import updates  # noqa: PLC0415

    plan = updates.Plan({"zvaai": ("1.0", "1.1"), "vim": ("1", "2")}, ["zvaai-nfs"])
    monkeypatch.setattr(updates, "_plan", lambda *_: plan)
    printed = zvaai("updates", "--notes")
    assert "zvaai: 1.0 -> 1.1" in printed and "1 other packages" in printed
    assert "IN THE WAY: apt keeps zvaai-nfs back" in printed and "apt changelog zvaai" in printed
    assert zvaai.json("updates")["packages"][0]["version"] == "1.1"


def test_without_lists_of_packages_updates_are_unknown(zvaai: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from appliance import updates  # noqa: PLC0415

    monkeypatch.setattr(updates, "_plan", lambda *_: updates.Plan({}, []))
    dated = [line for line in zvaai("updates").splitlines() if "newest versions" in line]
    assert len(dated) == 1 and re.search(r" of \d{4}-\d\d-\d\d \d\d:\d\d UTC\.$", dated[0]), dated
    monkeypatch.setattr(updates, "LISTS", tmp_path)
    printed = zvaai("updates")
    assert "newest versions" not in printed and "Run: apt update" in printed


def test_the_list_of_missing_datastores_has_their_uuids(zvaai: Command) -> None:
    """A replica without properties gets one of them by hand."""
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    uuid = zvaai.json("datastore", "show", "vmfs1")["uuid"]
    zvaai.appliance.simulator.export_pool("tank")
    zvaai("reconcile")
    assert uuid in zvaai("datastore", "list", "--state", "missing")


def test_json_has_the_problem_of_a_refusal_and_of_a_failed_job(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    zvaai("group", "create", "one")
    code, printed = zvaai.run("-o", "json", "group", "create", "one", stderr=False)
    problem, end = json.JSONDecoder().raw_decode(printed)
    assert code == 4 and problem["errors"][0]["field"] == "name" and problem["blocking"] == ["one"]
    assert printed[end:].strip() == "the name is taken: one", "the text too"

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(zvaai.appliance.simulator, "create_volume", fail)
    words = ("-o", "json", "datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    code, printed = zvaai.run(*words, stderr=False)
    job, end = json.JSONDecoder().raw_decode(printed)
    assert code == 1 and job["state"] == "failed" and job["problem"]["text"] in printed[end:]


def test_a_job_that_leaves_the_datastore_unserved_has_failed(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ExportRefusedError("no such path")

    monkeypatch.setattr(zvaai.appliance.nfs, "add", refuse)
    words = ("datastore", "create", "nfs1", "--kind", "nfs", "--pool", "tank", "--size", "1G", "--wait")
    code, printed = zvaai.run(*words)
    assert code == 1 and "not served yet: " in printed and "no such path" in printed
    (store,) = zvaai.json("datastore", "list")
    assert store["name"] == "nfs1" and store["state"] == "active"


def test_a_pool_whose_datastores_are_not_served_has_a_problem(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of another pool does not count."""
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    uuid = zvaai.json("datastore", "show", "vmfs1")["uuid"]
    failures = [Failure(uuid, "vmfs1 is not served"), Failure("of-another-pool", "nor is it")]
    monkeypatch.setattr(zvaai.appliance.service.context.reconciling, "reconcile", lambda *_: SimpleNamespace(failures=failures))
    code, printed = zvaai.run("pool", "change", "tank", "--warning", "70", "--wait")
    assert code == 1 and "done, with a problem: vmfs1 is not served\n" in printed
    assert zvaai.run("-o", "json", "pool", "change", "tank", "--warning", "71", "--wait")[0] == 1


def test_a_datastore_and_a_host_are_shown_without_the_target(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    zvaai("host", "create", "esx1", "--iqn", ESX)
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")

    def away(*_: object) -> None:
        raise TargetUnreachableError("no answer")

    for query in ("lun_space", "sessions", "status", "targets"):
        monkeypatch.setattr(zvaai.appliance.target, query, away)
    assert re.search("^problem +no answer$", zvaai("datastore", "show", "vmfs1"), re.MULTILINE)
    shown = zvaai("host", "show", "esx1")
    assert re.search("^sessions +unknown$", shown, re.MULTILINE) and "esxcli" in shown and "no answer" in shown
    assert zvaai.json("host", "show", "esx1")["sessions"] is None


def test_an_adopted_lun_shows_the_names_that_hosts_know(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    zvaai("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    call, names = Client.call, {"serial_number": "6001405", "designators": ["naa.6001405"], "vendor": "LIO-ORG", "product": "old"}

    def adopted(client: Client, method: str, path: str, *more: Any, **query: Any) -> Any:
        answer = call(client, method, path, *more, **query)
        return answer | {"designation": names} if "designation" in answer else answer

    monkeypatch.setattr(Client, "call", adopted)
    shown = zvaai("datastore", "show", "vmfs1")
    assert re.search("^serial number +6001405$", shown, re.MULTILINE) and "LIO-ORG" in shown


def test_an_existing_file_is_refused_before_the_work(zvaai: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for words in (("support", "create"), ("configuration", "backup"), ("support", "download", "0b1c2d3e")):
        code, printed = zvaai.run(*words, str(file), text="password\n")
        assert code == 4 and printed == f"{file} exists. Remove it, or give another name"
    assert zvaai.sent == []


def test_devices_have_their_guids(zvaai: Command) -> None:
    """For `zvaai pool detach`, when several devices have one path."""
    (vdev, *_) = zvaai.json("pool", "show", "tank")["vdevs"]
    assert "GUID" in (shown := zvaai("pool", "show", "tank")) and all(leaf["guid"] in shown for leaf in (vdev, *vdev["vdevs"]))


def test_a_missing_device_has_its_former_path(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenZFS names it by its GUID."""
    simulator, path = zvaai.appliance.simulator, "/dev/disk/by-id/ata-GONE-part1"
    real = simulator._report_device
    monkeypatch.setattr(simulator, "_report_device", lambda *about: replace(real(*about), name="7241", path=None, was=path))
    zvaai.appliance.service.context.scan()
    assert f"7241 (was {path})" in zvaai("pool", "show", "tank")
    assert {leaf["was"] for leaf in zvaai.json("pool", "show", "tank")["vdevs"][0]["vdevs"]} == {path}


def test_text_in_brackets_is_no_markup(zvaai: Command) -> None:
    texts = ("[error] of nginx", "[/gone] :warning:")
    raise_alerts(zvaai, *(("warning", text) for text in texts))
    listed, shown = zvaai("alert", "list"), zvaai.run("status")[1]
    for text in texts:
        assert text in listed and text in shown


def test_status_has_all_open_alerts_the_most_severe_first(zvaai: Command) -> None:
    raise_alerts(zvaai, ("critical", "the oldest"), *(("info", f"number {number}") for number in range(30)), ("warning", "last"))
    code, printed = zvaai.run("status")
    words = [line.split()[0] for line in printed.splitlines() if line.split()[0] in ("CRITICAL", "WARNING", "INFO")]
    assert code == 1 and words == ["CRITICAL", "WARNING", *["INFO"] * 30]


def test_status_fails_while_the_target_is_away(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the next reconcile, which raises the alert."""
    assert zvaai.run("status")[0] == 0

    def away() -> None:
        raise TargetUnreachableError("no answer")

    monkeypatch.setattr(zvaai.appliance.target, "status", away)
    code, printed = zvaai.run("status")
    assert code == 1 and "target    PROBLEM  " in printed


def test_obstacles_are_named_once(zvaai: Command) -> None:
    zvaai("group", "create", "cluster")
    for number in range(7):
        zvaai("host", "create", f"esx{number}", "--iqn", f"{ESX}-{number}", "--group", "cluster")
    code, printed = zvaai.run("group", "delete", "cluster", "--yes")
    assert code == 4 and all(printed.count(f"esx{number}") == 1 for number in range(7)), printed


def test_readiness_has_the_line_that_mounts_an_export(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from appliance.api import appliance_resource  # noqa: PLC0415

    monkeypatch.setattr(appliance_resource, "local_addresses", lambda: [Address("eth0", "192.0.2.5")])
    zvaai("datastore", "create", "nfs1", "--kind", "nfs", "--pool", "tank", "--size", "1G", "--client", "192.0.2.11", "--wait")
    _code, printed = zvaai.run("readiness")
    assert "esxcli storage nfs add -H 192.0.2.5 -s /nfs1 -v nfs1" in printed, printed


def test_without_a_terminal_rows_are_not_folded(zvaai: Command) -> None:
    text = "word " * 100 + "end"
    raise_alerts(zvaai, ("warning", text), ("warning", "short"))
    lines = zvaai("alert", "list").splitlines()
    assert len(lines) == 3 and any(text in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_columns_have_the_words_of_the_console(zvaai: Command) -> None:
    zvaai("datastore", "create", "nfs1", "--kind", "nfs", "--pool", "tank", "--size", "1G", "--wait")
    heading, row = zvaai("datastore", "list").splitlines()
    assert "EXPORT PATH" in heading and "SHARE" not in heading and "REFERENCED" in heading and " /nfs1 " in row
    assert re.search(r"^export path +/nfs1$", zvaai("datastore", "show", "nfs1"), re.MULTILINE)


def test_the_room_of_a_schedule_is_a_table(zvaai: Command) -> None:
    zvaai("datastore", "create", "thick", "--pool", "tank", "--size", "1G", "--thick", "--wait")
    zvaai.appliance.simulator.write(zvaai.json("datastore", "show", "thick")["dataset"], 100 << 20)
    zvaai.appliance.service.context.scan(0)
    zvaai("schedule", "create", "hourly", "thick", "--every", "1h", "--keep", "2")
    printed = zvaai("schedule", "show", "hourly")
    assert re.search(r"^needed +100\.?\d* MiB$", printed, re.MULTILINE) and "{" not in printed
    assert re.search(r"^thick +100\.?\d* MiB$", printed, re.MULTILINE)


def test_a_purged_datastore_is_removed_from_its_schedule(zvaai: Command) -> None:
    for name in ("stays", "goes"):
        zvaai("datastore", "create", name, "--pool", "tank", "--size", "1G", "--wait")
    identifier = zvaai.json("datastore", "show", "goes")["id"]
    zvaai("schedule", "create", "hourly", "stays", "goes", "--every", "1h", "--keep", "2")
    zvaai("datastore", "delete", "goes", "--yes", "--wait")
    zvaai("datastore", "purge", "goes", "--yes", "--wait")
    zvaai("schedule", "change", "hourly", "--remove-datastore", identifier)
    assert identifier not in zvaai.json("schedule", "show", "hourly")["datastores"]


def test_raidz_is_raidz1() -> None:
    assert vdevs_of(["raidz", "a", "b", "c"]) == vdevs_of(["raidz1", "a", "b", "c"])


def test_disks_are_as_well_as_their_alerts_say(zvaai: Command) -> None:
    worn, well, *_ = (disk.path for disk in zvaai.appliance.simulator.disks())
    for path, wear in ((worn, 95), (well, 3)):
        zvaai.appliance.simulator.smart[path] = DiskHealth(available=True, passed=True, wear=wear)
    zvaai.appliance.service.watch.read_disks()
    printed = zvaai("pool", "disks")
    assert "warning, 95 % worn" in printed and "ok, 3 % worn" in printed, printed


def test_the_layout_of_a_pool(zvaai: Command) -> None:
    """With its warnings, as JSON too, for a new pool and for more vdevs."""
    disks = [disk["path"] for disk in zvaai.json("pool", "disks") if not disk["used_by"]]
    for words in (("create", "fast"), ("extend", "tank", "--force")):
        printed = zvaai("pool", *words, disks[0], "--dry-run")
        assert "Warning: No redundancy" in printed
        plan = zvaai.json("pool", *words, disks[0], "--dry-run")
        assert plan["layout"] and plan["warnings"]
    code, printed = zvaai.run("pool", "extend", "tank", disks[0], "--force", "--wait")
    assert code == 0 and "Warning: No redundancy" in printed


def test_the_key_of_a_pool(zvaai: Command) -> None:
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    zvaai("datastore", "create", "secret", "--pool", "tank", "--size", "1G", "--encrypted", "--wait")
    secret = zvaai("key", "export", "tank", text=f"{PASSWORD}\n").strip()
    assert json.loads(zvaai("-o", "json", "key", "export", "tank", text=f"{PASSWORD}\n"))["secret"] == secret
    assert "tank" in zvaai("key", "enter", "tank", text=f"{secret}\n")
