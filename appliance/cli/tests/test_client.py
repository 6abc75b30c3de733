# SPDX-License-Identifier: Apache-2.0
"""How the command speaks to the API: each change once, whatever is lost; never over another change; and first contact."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from support.authority import Authority, pem_of

from appliance.api import certificate
from appliance.cli import client, overview
from appliance.cli.tests.conftest import Command


def test_a_change_whose_answer_is_lost_is_made_once(zvaai: Command) -> None:
    zvaai.lost = 1
    zvaai("group", "create", "cluster")
    assert [group["name"] for group in zvaai.json("group", "list")] == ["cluster"]
    first, second = [request["HTTP_IDEMPOTENCY_KEY"] for request in zvaai.sent]
    assert first == second


class HastyClient(httpx.Client):
    """Gives up before the answer of a change, four times."""

    hasty = 4

    def request(self, method: str, *arguments: Any, **more: Any) -> httpx.Response:
        answer = super().request(method, *arguments, **more)
        if method != "GET" and self.hasty:
            self.hasty -= 1
            raise httpx.ReadTimeout("timed out")
        return answer


@pytest.mark.parametrize("way", ["lost", "cut", "late"])
def test_a_change_waits_for_its_answer(zvaai: Command, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """As while apt restarts the worker, or the network is away."""
    if way == "late":
        monkeypatch.setattr(httpx, "Client", HastyClient)
    setattr(zvaai, way, 4)
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    assert zvaai("group", "create", "cluster").count("Waiting") == 1
    assert [group["name"] for group in zvaai.json("group", "list")] == ["cluster"]
    assert len({request["HTTP_IDEMPOTENCY_KEY"] for request in zvaai.sent}) == 1
    monkeypatch.setattr(client, "_PATIENCE_S", -1)
    setattr(zvaai, way, 4)
    assert zvaai.run("group", "create", "later")[0] == 6


def test_an_address_without_a_scheme_is_no_lost_answer() -> None:
    """The change is not repeated for minutes."""
    with pytest.raises(client.CommandError) as refused:
        client.Client("zvaai.example.com:8443", "token", None).call("POST", "/groups", {"name": "cluster"})
    assert not refused.value.unknown


def test_reading_does_not_wait(zvaai: Command) -> None:
    zvaai.appliance.datastore("vmfs1")
    (job,) = zvaai.json("job", "list")
    zvaai.away = 1
    code, printed = zvaai.run("job", "show", job["id"])
    assert code == 6 and "the API does not run" in printed and "Waiting" not in printed


def test_each_command_has_a_different_key(zvaai: Command) -> None:
    zvaai("group", "create", "one")
    zvaai("group", "create", "two")
    assert len({request["HTTP_IDEMPOTENCY_KEY"] for request in zvaai.sent}) == 2


def test_first_contact_says_to_log_in(zvaai: Command) -> None:
    code, printed = zvaai.run("status", role=None)
    assert code == 5 and "Log in first: zvaai login https://HOST:8443" in printed, printed
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    code, printed = zvaai.run("status", role=None, url=f"http://127.0.0.1:{port}")
    assert code == 6 and "does not answer" in printed


@contextlib.contextmanager
def tls_server(folder: Path, address: str) -> Iterator[str]:
    """URL of a server at a loopback address, with the certificate that an appliance makes in the folder."""
    certificate.ensure(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / certificate.CERTIFICATE, folder / certificate.KEY)
    with socket.create_server((address, 0)) as server:

        def greet() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as connection:
                context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=greet, daemon=True).start()
        yield f"https://{address}:{server.getsockname()[1]}"


def test_first_contact_with_an_untrusted_certificate_asks_for_a_login(zvaai: Command, tmp_path: Path) -> None:
    """The appliance makes its certificate, so this is the first thing that happens."""
    with tls_server(tmp_path, "127.0.0.1") as url:
        code, printed = zvaai.run("status", role=None, url=url)
    assert code == 5 and f"Log in first: zvaai login {url}" in printed, printed
    assert "CERTIFICATE_VERIFY_FAILED" not in printed


def test_the_certificate_of_a_pipeline_needs_the_name_of_the_url(zvaai: Command, tmp_path: Path) -> None:
    """A new login and a comparison of fingerprints would not help."""
    with tls_server(tmp_path, "127.0.0.2") as url:
        code, printed = zvaai.run("--certificate", str(tmp_path / certificate.CERTIFICATE), "status", url=url)
    assert code == 6 and "ZVAAI_CA" in printed and "not valid for '127.0.0.2'" in printed, printed


def test_login_without_an_answer_says_what_to_check(zvaai: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    code, printed = zvaai.run("login", f"https://127.0.0.1:{port}")
    assert code == 6 and f"No appliance answers at https://127.0.0.1:{port}" in printed, printed
    assert "systemctl status zvaai-frontend" in printed


def test_a_name_is_that_of_the_active_datastore(zvaai: Command) -> None:
    """A deleted datastore or a replica can have the same name."""
    old = zvaai.appliance.datastore("vmfs1")
    zvaai("datastore", "delete", "vmfs1", "--yes", "--wait")
    new = zvaai.appliance.datastore("vmfs1")
    assert zvaai.json("datastore", "show", "vmfs1")["id"] == new
    zvaai("datastore", "delete", "vmfs1", "--yes", "--wait")
    code, printed = zvaai.run("datastore", "restore", "vmfs1")
    assert code == 4 and f"{old} (deleted)" in printed and f"{new} (deleted)" in printed and "Use the ID" in printed, printed


def test_a_deleted_datastore_comes_first_where_one_is_restored_or_purged(zvaai: Command) -> None:
    old = zvaai.appliance.datastore("vmfs1")
    zvaai("datastore", "delete", "vmfs1", "--yes", "--wait")
    new = zvaai.appliance.datastore("vmfs1")
    zvaai("datastore", "restore", "vmfs1", "--name", "restored", "--wait")
    assert zvaai.json("datastore", "show", "restored")["id"] == old
    zvaai("datastore", "delete", "vmfs1", "--yes", "--wait")
    newest = zvaai.appliance.datastore("vmfs1")
    zvaai("datastore", "purge", "vmfs1", "--yes", "--wait")
    assert newest in (left := {store["id"] for store in zvaai.json("datastore", "list")}) and new not in left


@pytest.mark.parametrize("active", [True, False])
def test_a_copy_is_suggested_in_recovery_mode_only(zvaai: Command, monkeypatch: pytest.MonkeyPatch, active: bool) -> None:
    """On a server that is fine, another server's configuration would replace everything."""
    response = {
        "active": active, "reason": "x", "generation": 1, "installation": "i", "copies": [], "changes": [], "suggested": "tank",
    }  # fmt: skip
    monkeypatch.setattr(client.Client, "call", lambda *_, **__: response)
    assert ("suggested: zvaai recover --from tank" in zvaai("recover")) == active


def test_a_dry_run_needs_a_copy(zvaai: Command) -> None:
    code, printed = zvaai.run("recover", "--dry-run")
    assert code == 2 and "--from POOL or --file FILE" in printed


def test_keeping_the_database_needs_a_confirmation(zvaai: Command) -> None:
    code, printed = zvaai.run("recover", "--keep")
    assert code == 2 and "Hosts lose each datastore" in printed and "--yes" in printed
    assert "not in recovery mode" in zvaai.run("recover", "--keep", "--yes")[1], "the service decides"


def test_a_recovery_shows_its_changes_and_asks(zvaai: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulators.appliance import PASSWORD  # noqa: PLC0415

    file = tmp_path / "site.json"
    key = zvaai("configuration", "recovery-key").strip()
    zvaai("configuration", "backup", str(file), text=f"{PASSWORD}\n")
    zvaai("group", "create", "newer")
    words = ("recover", "--file", str(file), "--recovery-key")
    code, printed = zvaai.run(*words, text=f"{key}\n")
    assert code == 2 and "host group newer: removed" in printed and "--yes" in printed
    assert zvaai.run("-o", "json", *words, text=f"{key}\n")[0] == 2 and len(zvaai.json("group", "list")) == 1
    questions: list[str] = []
    monkeypatch.setattr("appliance.cli.configuration.confirm", lambda question, _yes: questions.append(question))
    assert zvaai(*words, text=f"{key}\n").count("host group newer: removed") == 1, "the key is read once"
    assert questions == ["Replace the whole configuration by this copy?"] and zvaai.json("group", "list") == []
    zvaai("group", "create", "newest")
    assert "host group newest: removed" in zvaai(*words, "--yes", text=f"{key}\n")


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [("small", "2", "use a size from 1 GiB to 64 TiB"), ("no name", "1G", "use at most 42 letters, digits and _ . - only")],
)
def test_refused_values_are_explained_in_words(zvaai: Command, name: str, size: str, said: str) -> None:
    """Neither a number of ten digits nor a pattern."""
    code, printed = zvaai.run("datastore", "create", name, "--pool", "tank", "--size", size)
    assert code == 7 and said in printed, printed
    assert "1073741824" not in printed and "^" not in printed


def test_after_an_upload_the_login_trusts_the_new_certificate(zvaai: Command, tmp_path: Path) -> None:
    """Old and new: nginx serves the new one some seconds later."""
    zvaai.appliance.configuration.http.uploads.mkdir()
    key, authority = ec.generate_private_key(ec.SECP256R1()), Authority()
    leaf = authority.sign(key, "storage.example")
    for name, content in (("chain.pem", leaf + authority.certificate), ("key.pem", pem_of(key))):
        (tmp_path / name).write_text(content)
    settings = zvaai.home / "zvaai/cli.json"
    settings.parent.mkdir(parents=True)
    before = Authority().certificate
    settings.write_text(json.dumps({"url": zvaai.url, "certificate": before, "token": "x"}))
    assert "storage.example" in zvaai("certificate", "upload", str(tmp_path / "chain.pem"), str(tmp_path / "key.pem"))
    assert json.loads(settings.read_text())["certificate"] == before + leaf, "not all that the issuer signs"
    code, printed = zvaai.run("certificate", "upload", str(tmp_path / "key.pem"), str(tmp_path / "key.pem"))
    assert code == 7 and "it is not a certificate" in printed


def test_offloads_are_a_table(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's counters, as bytes are shown: this ended in a traceback."""
    store = zvaai.appliance.datastore("gold1")
    uuid = zvaai.appliance.get(f"/datastores/{store}")["uuid"]
    offload = {"cloned_bytes": 64 << 20, "copied_bytes": 0, "zeroed_bytes": 3 << 30, "unmapped_bytes": 5}
    statistics = {"luns": [{"number": 0, "uuid": uuid, "offload": offload}], "hosts": []}
    monkeypatch.setattr(zvaai.appliance.target, "statistics", lambda _target: statistics)
    printed = zvaai("offloads")
    assert "gold1" in printed and "64 MiB" in printed and "3 GiB" in printed and "0 B" in printed


def test_one_of_too_many_requests_is_sent_again(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    zvaai.limited = ["1", "0"]
    zvaai("group", "create", "cluster")
    assert len({request["HTTP_IDEMPOTENCY_KEY"] for request in zvaai.sent}) == 1 and len(zvaai.sent) == 3
    zvaai.limited = ["30"]
    code, printed = zvaai.run("group", "list")
    assert code == 6 and "too many requests" in printed and zvaai.limited == []
    zvaai.appliance.datastore("vmfs1")
    (job,) = zvaai.json("job", "list")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(zvaai.home))
    zvaai.limited = ["0"] * 4
    waiting = client.Client(zvaai.url, zvaai.appliance.tokens["viewer"], None)
    assert waiting.wait(job["id"], lambda _: None)["state"] == "succeeded" and zvaai.limited == []


def test_a_wait_continues_while_the_api_restarts(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's identifier is printed before, for when the wait ends all the same."""
    words = ("datastore", "create", "vmfs1", "--pool", "tank", "--size", "1G", "--wait")
    zvaai.away = 1
    printed = zvaai(*words)
    (job,) = zvaai.json("job", "list")
    assert f"job {job['id']} (datastore.create)" in printed and "Waiting" in printed and zvaai.away == 0
    monkeypatch.setattr(client, "_PATIENCE_S", -1)
    zvaai.away = 1
    code, printed = zvaai.run("datastore", "delete", "vmfs1", "--yes", "--wait")
    assert code == 6 and "the API does not run" in printed and "(datastore.delete)" in printed


def test_a_list_requests_no_more_than_it_shows(zvaai: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of the journal for 20 entries ends sooner than one for 500."""
    call, limits = client.Client.call, []

    def noted(self: client.Client, method: str, path: str, **query: Any) -> Any:
        limits.append(query["limit"])
        return call(self, method, path, **query)

    monkeypatch.setattr(client.Client, "call", noted)
    for limit in ("20", "501"):
        zvaai("audit", "list", "--limit", limit)
    assert limits == [20, 500]


@pytest.mark.parametrize(
    "url", ["zvaai.example.com:8443", "http://zvaai.example.com:8443", "https://", "https://zvaai.example.com:x"]
)
def test_a_login_needs_an_https_address(zvaai: Command, url: str) -> None:
    """Without a scheme it went to port 443 of this machine, and offered the fingerprint of that."""
    code, printed = zvaai.run("login", url, "--fingerprint", "00")
    assert code == 2 and "Use https://HOST:8443" in printed


def test_a_login_is_at_port_8443(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], timeout: float) -> str:
        called.append(address)
        raise ConnectionRefusedError(str(timeout))

    monkeypatch.setattr(ssl, "get_server_certificate", refuse)
    for url in ("https://zvaai.example.com", "https://[2001:db8::1]", "https://zvaai.example.com:443"):
        with pytest.raises(client.CommandError):
            overview._server(url, None)
    assert called == [("zvaai.example.com", 8443), ("2001:db8::1", 8443), ("zvaai.example.com", 443)]


def test_the_stored_token_is_for_the_stored_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    client.keep_settings({"url": "https://ours.example:8443", "certificate": Authority().certificate, "token": "zvaai_secret"})
    assert client.Client(None, None, None).token == "zvaai_secret"
    assert client.Client("https://ours.example:8443/", None, None).token == "zvaai_secret"
    assert client.Client("https://other.example:8443", None, None).token is None
    assert client.Client("https://other.example:8443", "zvaai_other", None).token == "zvaai_other"
