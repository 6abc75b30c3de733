# SPDX-License-Identifier: Apache-2.0
"""Where a request begins and ends (RFC 9112), so that a thread is given to whole ones only. gunicorn parses it afterwards."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_HEAD = 32 << 10
SMALL_BODY = 64 << 10
"""Longer ones are few at a time: they are kept until they are whole."""
_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Refusal:
    """What is answered at once; the connection ends with it."""

    status: int
    code: str
    detail: str
    retry_after: int | None = None


TOO_LONG_HEAD = Refusal(431, "too_long", f"the head of a request has at most {LONGEST_HEAD} bytes")
NO_LENGTH = Refusal(411, "length_required", "a body needs a Content-Length; chunks are not taken")


class Framing:
    """The bytes of one request after the other."""

    def __init__(self, longest_body: int) -> None:
        self._longest_body = longest_body
        self._bytes = bytearray()
        self._looked = 0
        self._length: int | None = None
        self.refusal: Refusal | None = None
        self.large = False
        """It has a long body."""
        self.expects = False
        """The other side waits to be told to send its body."""

    @property
    def begun(self) -> bool:
        """Something of the request is there."""
        return bool(self._bytes)

    @property
    def whole(self) -> bool:
        """All of it is there."""
        return self._length is not None and len(self._bytes) >= self._length

    def feed(self, data: bytes) -> None:
        """More of it."""
        self._bytes += data
        self._look()

    def take(self) -> bytes:
        """The request, once it is whole. What follows is of the next."""
        assert self._length is not None and self.whole
        taken = bytes(self._bytes[: self._length])
        del self._bytes[: self._length]
        self._looked, self._length, self.large, self.expects = 0, None, False, False
        self._look()
        return taken

    def _look(self) -> None:
        if self._length is not None or self.refusal is not None:
            return
        end = self._bytes.find(_END, max(0, self._looked - len(_END)))
        self._looked = len(self._bytes)
        if (len(self._bytes) if end < 0 else end) > LONGEST_HEAD:
            self.refusal = TOO_LONG_HEAD
        elif end >= 0:
            self._read_head(bytes(self._bytes[:end]), end + len(_END))

    def _read_head(self, head: bytes, end: int) -> None:
        lengths, self.expects = set(), False
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            match name.strip().lower():
                case b"content-length":
                    lengths.add(value.strip())
                case b"transfer-encoding":
                    self.refusal = NO_LENGTH
                case b"expect":
                    self.expects = value.strip().lower() == b"100-continue"
        length = lengths.pop() if len(lengths) == 1 else b"0"
        # What is no number, or several, gunicorn refuses by the head alone.
        body = int(length) if length.isdigit() and len(length) < 20 else self._longest_body + 1 if length.isdigit() else 0
        if body > self._longest_body:
            self.refusal = Refusal(413, "too_long", f"a body has at most {self._longest_body} bytes")
        self.large = body > SMALL_BODY
        self._length = end + body
