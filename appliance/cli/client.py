# SPDX-License-Identifier: Apache-2.0
"""The API, as the command sees it: where it is, with what token, and its refusals as exit codes.

Each change has an Idempotency-Key. If its answer is lost, the same request is sent again, and carried out once.
"""

import json
import os
import ssl
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from appliance.tls import context_for

FAILED, USAGE, NOT_FOUND, IN_THE_WAY, NOT_ALLOWED, UNAVAILABLE, INVALID = 1, 2, 3, 4, 5, 6, 7
_EXIT_CODES = {400: INVALID, 401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 409: IN_THE_WAY, 412: IN_THE_WAY, 422: INVALID}
_EXIT_CODES |= {429: UNAVAILABLE, 502: UNAVAILABLE, 503: UNAVAILABLE, 504: UNAVAILABLE}
_TRIES = 3
"""Attempts of a request whose answer was lost, that was one of too many, or that was based on an outdated version."""
_SOON_S = ("0", "1", "2")
"""Values of Retry-After, in seconds, after which a request is sent again. Delays after wrong passwords are longer."""
_PATIENCE_S = 300.0
"""A change and a wait for a job continue for so long without an answer: the API restarts during an upgrade."""
_LOG_IN = "Log in first: zvaai login https://HOST:8443"


class CommandError(Exception):
    """The command failed. The text has the reason and the remedy."""

    def __init__(
        self, text: str, exit_code: int, outdated: bool = False, fields: Sequence[str] = (), document: Any = None,
        unknown: bool = False,
    ) -> None:  # fmt: skip
        """`outdated`: another user has changed the object. `fields` were refused. `document`: the API's problem document, or the
        failed job. `unknown`: the request may have been carried out, and its answer can still come.
        """
        super().__init__(text)
        self.exit_code, self.outdated, self.fields, self.document = exit_code, outdated, fields, document
        self.unknown = unknown


def settings_file() -> Path:
    """File in which `zvaai login` stores the address and the token."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "zvaai" / "cli.json"


def stored_settings() -> dict[str, str]:
    """Settings stored by `zvaai login`."""
    try:
        return dict(json.loads(settings_file().read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CommandError(f"{settings_file()}: {error}. Remove the file, then log in again", USAGE) from error


def keep_settings(settings: dict[str, str]) -> None:
    """Stores settings for later commands. The file contains the token, so only its owner can read it."""
    file = settings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        json.dump(settings, written)
    new.rename(file)


class Client:
    """Client of an API."""

    def __init__(self, url: str | None, token: str | None, certificate: str | None, trusted: str | None = None) -> None:
        """`certificate` is a file; `trusted` is the certificate that the user confirmed, instead of the stored one."""
        stored = stored_settings()
        self.url = (url or stored.get("url") or "https://localhost:8443").rstrip("/")
        if self.url != stored.get("url"):
            stored = {}  # another server must not get the token
        self.token = token or stored.get("token")
        self.known = bool(url or stored)
        self._certificate = certificate
        pem = Path(certificate).read_text() if certificate else trusted or stored.get("certificate")
        context = context_for(pem)
        if pem and not certificate:
            context.check_hostname = False  # the user confirmed this certificate, so the server's name does not matter
        self._http = httpx.Client(base_url=f"{self.url}/api/v1", verify=context, timeout=90, trust_env=False)

    def call(self, method: str, path: str, body: Any = None, _headers: dict[str, str] | None = None, **query: Any) -> Any:
        """Sends a request and returns its answer. Raises CommandError."""
        return self._call(method, path, body, _headers or {}, query)

    def _call(self, method: str, path: str, body: Any, more: dict[str, str], query: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token and "X-CSRF-Token" not in more else {}
        headers |= more
        parameters = {name: value for name, value in query.items() if value is not None}
        if method == "GET":
            return self._answer(method, path, params=parameters, headers=headers)
        headers["Idempotency-Key"] = str(uuid.uuid4())

        def send() -> Any:
            return self._answer(method, path, json=body, params=parameters, headers=headers)

        return _repeated(send, False) if "Authorization" in headers else send()  # keys belong to users

    def _answer(self, method: str, path: str, **request: Any) -> Any:
        answer = self._send(method, path, **request)
        try:
            content = answer.json()
        except ValueError as error:
            raise CommandError(f"{self.url} is not a zvaai appliance. Check host and port (8443)", UNAVAILABLE) from error
        if answer.is_error:
            raise self._refusal(answer, content)
        return content

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Again if the connection broke, or the limit of requests was reached. Raises CommandError."""
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = self._http.request(method, path, **request)
                after = answer.headers.get("Retry-After")
                if answer.status_code != 429 or after not in _SOON_S or not tries_left:
                    return answer
                time.sleep(int(after))
            except (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError) as error:
                if not tries_left:
                    raise self._unreachable(error) from error
                time.sleep(0.2)
            except (httpx.HTTPError, ssl.SSLError) as error:
                raise self._unreachable(error) from error
        raise AssertionError

    def _unreachable(self, error: Exception) -> CommandError:
        untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
        if untrusted and self._certificate:
            return CommandError(f"Cannot trust {self.url} by {self._certificate} (ZVAAI_CA, --certificate): {error}", UNAVAILABLE)
        if untrusted and not self.token:
            return CommandError(f"No user is logged in at {self.url}. Log in first: zvaai login {self.url}", NOT_ALLOWED)
        if not self.known:
            return CommandError(f"No appliance answers at {self.url}, and no user is logged in. {_LOG_IN}", UNAVAILABLE)
        if untrusted:
            text = (
                f"The certificate of {self.url} is not the one that this login trusts. Compare its fingerprint, then log in again"
            )
            return CommandError(f"{text}: zvaai login {self.url}", UNAVAILABLE)
        sent = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError | httpx.ReadTimeout | httpx.WriteTimeout)
        sent = sent and not isinstance(error, httpx.ConnectError)
        return CommandError(f"{self.url} does not answer: {error}", UNAVAILABLE, unknown=sent)

    def _refusal(self, answer: httpx.Response, problem: Any) -> CommandError:
        text, status = _in_words(problem), answer.status_code
        if status == 401 and not self.token:
            text = f"No user is logged in at {self.url}. {_LOG_IN}"
        elif status == 401:
            text += f"\n  The token has expired or was revoked. Log in again: zvaai login {self.url}"
        fields = [str(field.get("field")) for field in problem.get("errors", ())] if isinstance(problem, dict) else []
        unknown = status != 429 and answer.headers.get("Retry-After") in _SOON_S  # nginx or the HTTP process, or it still runs
        exit_code = _EXIT_CODES.get(status, FAILED)
        return CommandError(text, exit_code, outdated=status == 412, fields=fields, document=problem, unknown=unknown)

    def change(
        self, path: str, changes: dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]], method: str = "PATCH", **query: Any
    ) -> Any:
        """Changes the version that was read: `changes` may depend on it, and is computed again if another user has changed it in
        the meantime. Raises CommandError.
        """
        for tries_left in reversed(range(_TRIES)):
            current = self.call("GET", path)
            body = changes(current) if callable(changes) else changes
            try:
                return self._call(method, path, body, {"If-Match": current["etag"]} if "etag" in current else {}, query)
            except CommandError as error:
                if not tries_left or not error.outdated:
                    raise
        raise AssertionError

    def delete(self, path: str, **query: Any) -> Any:
        """The version that was read. Raises CommandError."""
        current = self.call("GET", path)
        return self._call("DELETE", path, None, {"If-Match": current["etag"]} if "etag" in current else {}, query)

    def download(self, path: str, file: Path) -> None:
        """Downloads into a new file. Raises CommandError."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            with self._http.stream("GET", path, headers=headers) as answer:
                if answer.is_error:
                    problem = json.loads(answer.read())
                    raise CommandError(_in_words(problem), _EXIT_CODES.get(answer.status_code, FAILED), document=problem)
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                    for part in answer.iter_bytes():
                        written.write(part)
        except (httpx.HTTPError, ssl.SSLError, ValueError) as error:
            raise self._unreachable(error) from error

    def all(self, path: str, most: int | None = None, **query: Any) -> list[Any]:
        """All pages of a list, or its first `most`."""
        items: list[Any] = []
        for page in self._pages(path, {"limit": min(most or 500, 500), **query}):
            items += page
            if most is not None and len(items) >= most:
                return items[:most]
        return items

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[list[Any]]:
        cursor = None
        while True:
            page = self.call("GET", path, cursor=cursor, **query)
            yield page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def wait(self, job_id: str, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """The job, once it has ended. Raises CommandError when it failed."""
        pause = 0.05
        while True:
            job = dict(_repeated(lambda: self.call("GET", f"/jobs/{job_id}"), True))
            report(job)
            if job["state"] not in ("queued", "running"):
                break
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)
        if job["state"] != "succeeded":
            why = job["problem"]["text"] if job["problem"] else job["state"]
            if job["problem"] and job["problem"].get("left"):
                why += f"; its partial results could not be removed: {job['problem']['left']}"
            raise CommandError(f"job {job_id} ({job['kind']}): {why}", FAILED, document=job)
        return job

    def named(self, path: str, name: str, state: str = "active") -> str:
        """Identifier of the object with this name or identifier; datastores in `state` come first. Raises CommandError."""
        items = self.all(path)
        for key in ("id", "name"):
            matching = [item for item in items if item[key] == name]
            matching = [item for item in matching if item.get("state") == state] or matching
            if len(matching) == 1:
                return str(matching[0]["id"])
            if matching:
                which = ", ".join(f"{item['id']} ({item['state']})" if "state" in item else item["id"] for item in matching)
                raise CommandError(f"several are called {name!r}: {which}. Use the ID", IN_THE_WAY)
        kind = path.rsplit("/", 1)[-1].removesuffix("s").replace("-", " ")
        raise CommandError(f"there is no {kind} {name!r}", NOT_FOUND)


def _repeated(request: Callable[[], Any], harmless: bool) -> Any:
    """Repeats a request until it is answered. Raises CommandError: at once if certainly no attempt was carried out,
    unless a repeat is `harmless`.
    """
    until, waits = time.monotonic() + _PATIENCE_S, False
    while True:
        try:
            return request()
        except CommandError as error:
            awaited = error.unknown or (error.exit_code == UNAVAILABLE and (harmless or waits))
            if not awaited or time.monotonic() > until:
                raise
            if not waits:
                print(f"{error}. Waiting", file=sys.stderr)
            waits = True
        time.sleep(2)


def _in_words(problem: Any) -> str:
    if not isinstance(problem, dict) or "detail" not in problem:
        return str(problem)[:1000]
    lines = [str(problem["detail"])]
    # The detail names the first five.
    lines += [f"  and {blocking}" for blocking in problem.get("blocking", ())[5:]]
    if problem.get("can_force"):
        lines.append("  To do it anyway, add --force")
    return "\n".join(lines)
