# SPDX-License-Identifier: Apache-2.0
"""Where requests begin and end, in whatever pieces they come."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.api.framing import LONGEST_HEAD, SMALL_BODY, Framing

LONGEST = 1 << 17
SIZES = st.integers(200, 70_000)
BODIES = st.binary(max_size=200) | st.integers(SMALL_BODY - 1, SMALL_BODY + 1).map(bytes)


def request_of(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: %d \r\n\r\n" % len(body) + body


@given(bodies=st.lists(BODIES, min_size=1, max_size=4), pieces=st.lists(st.integers(1, 9), min_size=1, max_size=4), more=SIZES)
def test_each_is_whole_when_its_last_byte_is_there(bodies: list[bytes], pieces: list[int], more: int) -> None:
    sent = [request_of(body) for body in bodies]
    stream, framing, taken, at = b"".join(sent), Framing(LONGEST), list[bytes](), 0
    for piece in itertools.cycle([*pieces, more]):
        framing.feed(stream[at : at + piece])
        at += piece
        while framing.whole:
            assert framing.large == (len(bodies[len(taken)]) > SMALL_BODY)
            taken.append(framing.take())
        assert framing.refusal is None
        if at >= len(stream):
            break
    assert taken == sent and not framing.begun


@given(st.binary(max_size=4000), st.integers(1, 500))
def test_anything_at_all_ends_in_a_request_a_refusal_or_waiting(sent: bytes, piece: int) -> None:
    framing = Framing(LONGEST)
    for at in range(0, len(sent), piece):
        framing.feed(sent[at : at + piece])
        while framing.whole and framing.refusal is None:
            assert framing.take()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (LONGEST + 1), 413),
        (b"GET / HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"1" * 30), 413),
        (b"GET / HTTP/1.1\r\n" + b"a" * LONGEST_HEAD, 431),
    ],
)
def test_what_is_refused_by_its_head(head: bytes, status: int) -> None:
    framing = Framing(LONGEST)
    framing.feed(head)
    assert framing.refusal is not None and framing.refusal.status == status


@pytest.mark.parametrize("value", [b"x", b"-1", b"+1", b"1 2", b"", b"0x10"])
def test_a_length_that_is_none_is_left_to_the_parser(value: bytes) -> None:
    framing = Framing(LONGEST)
    framing.feed(b"GET / HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % value)
    assert framing.whole and framing.refusal is None
