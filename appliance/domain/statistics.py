# SPDX-License-Identifier: Apache-2.0
"""Counters of the target (zvol_target/docs/control.md) and the NFS server (docs/vaai_nas.md), as `statistics.get` has them."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from appliance import decoding

Json = dict[str, object]
"""An object of a data plane, passed on unchanged."""


class Latency(msgspec.Struct, frozen=True):
    """`counts` by bucket; buckets at the end that are zero may be left out."""

    total_microseconds: int = 0
    counts: list[int] = []


class Counted(msgspec.Struct, frozen=True):
    """Ended operations of one kind. The target counts `bytes`, the NFS server `refused`."""

    operations: int = 0
    errors: int = 0
    bytes: int = 0
    refused: int = 0
    latency: Latency = Latency()


@dataclass(frozen=True)
class Row:
    """Counters of a LUN (by UUID), an export (by path) or a host (by iSCSI name or address)."""

    subject: str
    operations: dict[str, Counted]
    offload: dict[str, int]
    """Bytes by kind, as "cloned_bytes", and miscompares."""
    fallback_bytes: dict[str, int]
    """Copied bytes by the reason why they were not cloned."""
    aborted: int = 0


@dataclass(frozen=True)
class Statistics:
    bounds: list[int]
    stores: list[Row]
    hosts: list[Row]


class _Raw(msgspec.Struct):
    hosts: list[Json]
    latency_bounds_microseconds: list[int] = []
    luns: list[Json] = []
    exports: list[Json] = []


def of_target(raw: Mapping[str, object]) -> Statistics:
    response = decoding.convert(raw, _Raw)
    luns, hosts = [row(lun, "uuid") for lun in response.luns], [row(host, "initiator") for host in response.hosts]
    return Statistics(response.latency_bounds_microseconds, luns, hosts)


def of_nfs(raw: Mapping[str, object]) -> Statistics:
    response = decoding.convert(raw, _Raw)
    exports, hosts = [row(export, "export") for export in response.exports], [row(host, "host") for host in response.hosts]
    return Statistics(response.latency_bounds_microseconds, exports, hosts)


def row(raw: Json, name: str) -> Row:
    """An element of `luns`, `exports` or `hosts`; `name` is its identifying field."""
    counted = decoding.convert(raw["offload"], dict[str, int | dict[str, int]])
    fallback = counted.get("fallback_bytes")
    return Row(
        str(raw[name]),
        {kind: decoding.convert(value, Counted) for kind, value in raw.items() if isinstance(value, dict) and kind != "offload"},
        {kind: value for kind, value in counted.items() if isinstance(value, int)},
        fallback if isinstance(fallback, dict) else {},
        decoding.convert(raw.get("aborted", 0), int),
    )
