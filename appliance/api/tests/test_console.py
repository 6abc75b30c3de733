# SPDX-License-Identifier: Apache-2.0
"""The console's files as they are served: kinds, encodings, caching, headers; nothing that is not a file of it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from appliance.api import console
from appliance.testing import Appliance

PAGE, SCRIPT = b"<!doctype html>the page", b"export {};" * 100


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    """Of a site with a page and a script, next to something that is not of it."""
    site = tmp_path / "site"
    (site / "assets").mkdir(parents=True)
    (site / "index.html").write_bytes(PAGE)
    (site / "assets/main-abc.js").write_bytes(SCRIPT)
    (site / "assets/main-abc.js.gz").write_bytes(gzip.compress(SCRIPT, mtime=0))
    (site / "assets/main-abc.js.br").write_bytes(b"as if by brotli")
    (site / "notes.unknown").write_bytes(b"of no known kind")
    (tmp_path / "secret.txt").write_bytes(b"not of the site")
    application = Flask(__name__)
    application.register_blueprint(console.blueprint(console.read_site(site)))
    return application.test_client()


@pytest.mark.parametrize("path", ["/", "/datastores", "/datastores/1234/overview", "/apiary"])
def test_screens_get_the_page(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.data) == (200, PAGE)
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    ["/assets/gone-123.js", "/secret.txt", "/../secret.txt", "/%2e%2e/secret.txt", "/assets/../../secret.txt", "/notes.unknown",
     "/assets/main-abc.js.gz", "/api", "/api/", "/api/v1/nothing", "//secret.txt"],
)  # fmt: skip
def test_what_is_no_file_is_not_there(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 308), path
    assert b"not of the site" not in answer.data


@pytest.mark.parametrize(
    ("accepted", "encoding", "content"),
    [
        ("gzip, br", "br", b"as if by brotli"),
        ("gzip", "gzip", gzip.compress(SCRIPT, mtime=0)),
        ("br;q=0, gzip", "gzip", gzip.compress(SCRIPT, mtime=0)),
        ("identity", None, SCRIPT),
        ("", None, SCRIPT),
    ],
)
def test_the_best_encoding_that_is_taken(client: FlaskClient, accepted: str, encoding: str | None, content: bytes) -> None:
    answer = client.get("/assets/main-abc.js", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == encoding
    assert len(answer.data) == len(content) if encoding == "gzip" else answer.data == content
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_what_is_known_is_not_sent_again(client: FlaskClient) -> None:
    tag = client.get("/").headers["ETag"]
    again = client.get("/", headers={"If-None-Match": tag})
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
    assert client.get("/assets/main-abc.js", headers={"Accept-Encoding": "br"}).headers["ETag"] != tag


def test_nothing_inline_and_nothing_from_elsewhere(client: FlaskClient) -> None:
    headers = client.get("/").headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"


def test_without_files_there_is_no_console(tmp_path: Path) -> None:
    application = Flask(__name__)
    application.register_blueprint(console.blueprint(console.read_site(tmp_path / "absent")))
    assert application.test_client().get("/").status_code == 404


def test_the_api_answers_as_before(shared: Appliance) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/snapshots", 405), ("POST", "/status", 405)):
        answer = shared.request(method, path)
        assert answer.status_code == status, path
        assert answer.content_type == "application/problem+json"
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
