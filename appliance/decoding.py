# SPDX-License-Identifier: Apache-2.0
"""msgspec's conversions, safe for threads.

msgspec 0.19 stores its description of a class before the description is complete. If another thread uses the class then, the
process crashes. So each class is described here once, under a lock. ruff refuses other uses (pyproject.toml).
"""

import threading
from typing import Any

import msgspec

_Decoder = msgspec.json.Decoder  # noqa: TID251
_decoders: dict[Any, _Decoder[Any]] = {}
_describing = threading.Lock()


def _decoder(kind: Any) -> _Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        with _describing:
            decoder = _decoders[kind] = _Decoder(kind)
    return decoder


def decode[T](text: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """JSON as an instance of `kind`. Raises msgspec.MsgspecError."""
    decoded: T = _decoder(kind).decode(text)
    return decoded


def convert[T](value: Any, kind: type[T]) -> T:
    """Dictionaries, lists and plain values as an instance of `kind`. Raises msgspec.MsgspecError."""
    _decoder(kind)
    return msgspec.convert(value, kind)  # noqa: TID251
