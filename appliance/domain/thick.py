# SPDX-License-Identifier: Apache-2.0
"""How much a thick NFS datastore needs beyond its size: docs/decisions/thin-and-thick.md. Sizes are bytes, multiples of 1 MiB."""

_PART = 16
_LEAST, _MOST = 128 << 20, 32 << 30
_METADATA = 64
"""1 in 64: what indirect blocks can take, which the quota counts. With records of 16K, 1024 need 128 KiB of them, twice."""


def with_slack(size: int) -> int:
    return size + min(max(size // _PART, _LEAST), max(_MOST, size // _METADATA))


def without_slack(quota: int) -> int:
    """The size of a datastore with this quota; 0 if the quota is too small."""
    if quota <= (_PART + 1) * _LEAST:
        return max(0, quota - _LEAST)
    return max(quota * _PART // (_PART + 1), min(quota - _MOST, quota * _METADATA // (_METADATA + 1)))
