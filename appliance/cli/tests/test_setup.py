# SPDX-License-Identifier: Apache-2.0
"""The seed file of `zvaai setup`, and the reset of an administrator. tests/machine runs it for real."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from support.authority import Authority, pem_of

from appliance.api import certificate
from appliance.cli import setup
from appliance.cli.client import CommandError
from appliance.cli.setup import read_seed

SEED = """
[administrator]
password = "correct horse 7"
[[pools]]
name = "tank"
vdevs = ["mirror", "/dev/disk/by-id/a", "/dev/disk/by-id/b"]
[[datastores]]
name = "vmfs1"
pool = "tank"
size = "2T"
"""


def seed_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "setup.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_seed_file_is_read(tmp_path: Path) -> None:
    seed = read_seed(seed_file(tmp_path, SEED))
    assert seed.administrator.name == "admin" and seed.pools[0].vdevs[0] == "mirror" and seed.datastores[0].kind == "vmfs"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (SEED, 0o640, "chmod 600"),
        (SEED + "colour = 1\n", 0o600, r"unknown field `colour` - at `\$.datastores\[0\]`"),
        ("[administrator]\n", 0o600, r"required field `password` - at `\$.administrator`"),
        ("[administrator", 0o600, "setup.toml"),
    ],
)
def test_a_seed_file_is_refused(tmp_path: Path, text: str, mode: int, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        read_seed(seed_file(tmp_path, text, mode))


def test_root_follows_no_link_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, other = tmp_path / "reset-code", tmp_path / "other"
    other.write_text("content")
    code.symlink_to(other)
    codes = []

    class Client:
        def call(self, _method: str, _path: str, body: Mapping[str, str]) -> None:
            codes.append((body["code"], code.read_text()))

    monkeypatch.setattr(setup, "trusting_client", Client)
    setup.reset("admin", "correct horse 7", code)
    ((sent, written),) = codes
    assert sent == written and other.read_text() == "content" and not code.exists()
    code.symlink_to(other)
    monkeypatch.setattr(Client, "call", lambda *_: {"needed": True})
    with pytest.raises(OSError, match="symbolic links"):
        setup.wait_for_code(code)


@contextlib.contextmanager
def listener(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A program with the certificate of this folder: its address, and the paths of its requests."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"needed": false}')

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / certificate.CERTIFICATE, folder / certificate.KEY)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("uploaded", [False, True])
def test_another_program_at_the_port_gets_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uploaded: bool) -> None:
    nginx, other = tmp_path / "nginx", tmp_path / "other"
    for folder in (nginx, other):
        folder.mkdir()
        certificate.ensure(folder)
    if uploaded:
        authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
        chain = authority.sign(key, "storage.example") + authority.certificate
        certificate.hand_over(tmp_path, certificate.check(chain, pem_of(key)))
        certificate.take(nginx, tmp_path)
    monkeypatch.setattr(setup, "CERTIFICATE", nginx / certificate.CERTIFICATE)
    monkeypatch.setattr(setup, "API_SECONDS", 0.0)
    with listener(other) as (url, requests):
        monkeypatch.setattr(setup, "URL", url)
        with pytest.raises(CommandError, match="the certificate at"):
            setup.trusting_client()
    assert requests == []
    monkeypatch.setattr(setup, "API_SECONDS", 60.0)
    with listener(nginx) as (url, requests):
        monkeypatch.setattr(setup, "URL", url)
        setup.trusting_client()
    assert requests == ["/api/v1/setup"]


def test_setup_waits_for_the_first_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate.ensure(tmp_path)
    file = tmp_path / "later.pem"
    monkeypatch.setattr(setup, "CERTIFICATE", file)
    monkeypatch.setattr("time.sleep", lambda _: file.write_text((tmp_path / certificate.CERTIFICATE).read_text()))
    with listener(tmp_path) as (url, requests):
        monkeypatch.setattr(setup, "URL", url)
        setup.trusting_client()
    assert requests == ["/api/v1/setup"] and file.exists()
