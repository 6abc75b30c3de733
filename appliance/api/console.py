# SPDX-License-Identifier: Apache-2.0
"""The console's files, as the build of ui/ leaves them: read once, served from memory.

A request names a file or nothing: no path of it reaches the file system. Every other address that is not the API's is a screen's,
and gets the page.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flask import Blueprint, Response, abort, request
from werkzeug.routing import PathConverter

_log = logging.getLogger(__name__)

PLACES = (Path("/usr/share/zvaai/console"), Path(__file__).resolve().parents[2] / ".cache/console/site")
"""As installed, and as a checkout builds it."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        # PatternFly's style sheets have small SVG images as data: addresses; an image can do nothing.
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Nothing inline, nothing from elsewhere, no text that becomes code or markup."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""The best first."""
_PAGE = "index.html"
_HASHED = "assets/"
_FOR_EVER = "public, max-age=31536000, immutable"


class OutsideApi(PathConverter):
    """Any path but the API's, which has answers of its own: 404, 405, 308."""

    regex = "(?!api(?:/|$))[^/].*?"


@dataclass(frozen=True)
class File:
    """One, with its content by encoding; "" is the plain one."""

    media_type: str
    contents: dict[str, bytes]
    tag: str
    hashed: bool


def read_site(folder: Path) -> dict[str, File]:
    """All files below a folder by their path; none where it does not exist. A file of an unknown kind is left out."""
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, File]]:
    for path in sorted(folder.rglob("*")):
        media_type = _TYPES.get(path.suffix)
        if media_type is None or not path.is_file():
            continue
        name, plain = path.relative_to(folder).as_posix(), path.read_bytes()
        contents = {"": plain}
        for encoding, suffix in _ENCODINGS:
            compressed = path.with_name(path.name + suffix)
            if compressed.is_file():
                contents[encoding] = compressed.read_bytes()
        yield name, File(media_type, contents, hashlib.sha256(plain).hexdigest()[:32], name.startswith(_HASHED))


@cache
def site() -> dict[str, File]:
    """Of the first place that has one, as it was when it was first asked for."""
    for place in PLACES:
        if found := read_site(place):
            return found
    _log.warning("there is no console: none of %s is there", ", ".join(map(str, PLACES)))
    return {}


def blueprint(files: dict[str, File]) -> Blueprint:
    """Serves them. Without files all is 404."""
    pages = Blueprint("console", __name__)
    pages.record(lambda state: state.app.url_map.converters.update(outside_api=OutsideApi))

    @pages.get("/", defaults={"path": _PAGE})
    @pages.get("/<outside_api:path>")
    def read_file(path: str) -> Response:
        found = files.get(path)
        if found is None:
            # What looks like a file is none: an old page that asks for a script that is gone is not to get a page instead.
            if "." in path.rsplit("/", 1)[-1] or _PAGE not in files:
                abort(404)
            found = files[_PAGE]
        return _answer(found)

    return pages


def _answer(file: File) -> Response:
    best = next((name for name, _ in _ENCODINGS if name in file.contents and request.accept_encodings[name] > 0), "")
    headers = {**HEADERS, "Vary": "Accept-Encoding", "Cache-Control": _FOR_EVER if file.hashed else "no-cache"}
    # Each encoding is another representation, with a tag of its own.
    headers["ETag"] = tag = f'"{file.tag}{best and "-" + best}"'
    if tag in [one.strip() for one in request.headers.get("If-None-Match", "").split(",")]:
        return Response(status=304, headers=headers)
    if best:
        headers["Content-Encoding"] = best
    return Response(file.contents[best], content_type=file.media_type, headers=headers)
