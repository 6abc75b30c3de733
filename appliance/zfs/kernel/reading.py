# SPDX-License-Identifier: Apache-2.0
"""From the JSON of `zfs get`, `zfs list`, `zpool status` and `zpool list` to values.

Numbers are read as text: with --json-int OpenZFS 2.3 cuts every number to 63 bits: half of all GUIDs come out
as 9223372036854775807.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast

from appliance.zfs.kernel.commands import Json
from appliance.zfs.model import (
    Encryption,
    FeatureState,
    Filesystem,
    Health,
    ImportablePool,
    KeyFormat,
    KeyStatus,
    Pool,
    Property,
    Role,
    Scan,
    ScanState,
    Snapshot,
    Source,
    Space,
    Vdev,
    Volume,
)
from appliance.zfs.names import is_user_property
from appliance.zfs.properties import SHOWN

SNAPSHOT_COLUMNS = ("name", "guid", "createtxg", "creation", "used", "referenced", "userrefs", "clones", "defer_destroy")
_SOURCES = {source.name: source for source in Source}
_FEATURE = "feature@"


def number(value: object) -> int:
    """An integer of JSON or its text; 0 for "-", "none" and what is not there."""
    if isinstance(value, int):
        return value
    text = str(value or "")
    return int(text) if text.isdecimal() else 0


def _texts(properties: Json) -> dict[str, str]:
    return {name: str(told["value"]) for name, told in properties.items()}


def properties(told: Json) -> dict[str, Property]:
    """All that a dataset has."""
    found = {}
    for name, one in told.items():
        source = _SOURCES.get(one["source"]["type"], Source.NONE)
        data = one["source"]["data"]
        found[name] = Property(str(one["value"]), source, data if source == Source.INHERITED else None)
    return found


def _shown(told: Json) -> dict[str, Property]:
    return properties({name: one for name, one in told.items() if name in SHOWN or is_user_property(name)})


def _space(text: dict[str, str]) -> Space:
    return Space(
        used=number(text.get("used")),
        available=number(text.get("available")),
        referenced=number(text.get("referenced")),
        used_by_dataset=number(text.get("usedbydataset")),
        used_by_snapshots=number(text.get("usedbysnapshots")),
        used_by_children=number(text.get("usedbychildren")),
        used_by_refreservation=number(text.get("usedbyrefreservation")),
        logical_used=number(text.get("logicalused")),
        logical_referenced=number(text.get("logicalreferenced")),
        written=number(text.get("written")),
        compress_ratio=ratio(text.get("compressratio", "1.00")),
    )


def ratio(text: str) -> float:
    """ "1.50" or "1.50x"."""
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        return 1.0


def _encryption(name: str, text: dict[str, str]) -> Encryption | None:
    algorithm = text.get("encryption", "off")
    if algorithm in {"off", "-"}:
        return None
    status = KeyStatus.AVAILABLE if text.get("keystatus") == "available" else KeyStatus.UNAVAILABLE
    key_format = text.get("keyformat", "")
    known = KeyFormat(key_format) if key_format in set(KeyFormat) else KeyFormat.RAW
    return Encryption(algorithm=algorithm, root=text.get("encryptionroot", name), key_format=known, key_status=status)


def _or_none(text: str | None) -> str | None:
    return None if text in {None, "-", "", "none"} else text


def volume(name: str, told: Json) -> Volume:
    """One entry of `zfs get -j all`."""
    text = _texts(told)
    return Volume(
        name=name,
        guid=number(text["guid"]),
        createtxg=number(text["createtxg"]),
        creation=number(text["creation"]),
        space=_space(text),
        origin=_or_none(text.get("origin")),
        encryption=_encryption(name, text),
        properties=_shown(told),
        volsize=number(text["volsize"]),
        volblocksize=number(text["volblocksize"]),
        refreservation=number(text.get("refreservation")),
    )


def filesystem(name: str, told: Json) -> Filesystem:
    """One entry of `zfs get -j all`."""
    text = _texts(told)
    mountpoint = text.get("mountpoint", "none")
    return Filesystem(
        name=name,
        guid=number(text["guid"]),
        createtxg=number(text["createtxg"]),
        creation=number(text["creation"]),
        space=_space(text),
        origin=_or_none(text.get("origin")),
        encryption=_encryption(name, text),
        properties=_shown(told),
        mountpoint=mountpoint if mountpoint.startswith("/") else None,
        mounted=text.get("mounted") == "yes",
        recordsize=number(text["recordsize"]),
        quota=number(text.get("quota")),
        refquota=number(text.get("refquota")),
        reservation=number(text.get("reservation")),
        refreservation=number(text.get("refreservation")),
    )


def snapshot(name: str, told: Json, user_properties: Sequence[str]) -> Snapshot:
    """One entry of `zfs list -j -o` with SNAPSHOT_COLUMNS and user properties."""
    text = _texts(told)
    clones = _or_none(text.get("clones"))
    user = properties({key: told[key] for key in user_properties if key in told})
    return Snapshot(
        name=name,
        guid=number(text["guid"]),
        createtxg=number(text["createtxg"]),
        creation=number(text["creation"]),
        used=number(text["used"]),
        referenced=number(text["referenced"]),
        holds=number(text["userrefs"]),
        clones=tuple(sorted(clones.split(","))) if clones else (),
        defer_destroy=text["defer_destroy"] == "on",
        # `zfs list -j` tells "-" for what is not set, with the source of the column before it.
        properties={key: value for key, value in user.items() if value.value != "-"},
    )


# --- pools

_ROLES = {"logs": Role.LOG, "l2cache": Role.CACHE, "spares": Role.SPARE, "special": Role.SPECIAL, "dedup": Role.DEDUP}
_HEALTHS = {health.value: health for health in Health}


def health(text: object) -> Health:
    """Of a pool or vdev; FAULTED for words of a newer OpenZFS."""
    return _HEALTHS.get(str(text), Health.FAULTED)


def _trim(told: Json) -> str:
    """Of `zpool status -t`; VDEV_TRIM_NONE is "UNTRIMMED" there."""
    state = str(told.get("trim_state", "")).lower()
    return state if state in {"active", "suspended", "canceled", "complete"} else ""


def _vdev(name: str, told: Json, role: Role) -> Vdev:
    below = tuple(_vdev(key, one, role) for key, one in told.get("vdevs", {}).items())
    return Vdev(
        name=name,
        kind=str(told.get("vdev_type", "")),
        guid=number(told.get("guid")),
        health=health(told.get("state")),
        role=role,
        path=cast("str | None", told.get("path")),
        size=number(told.get("total_space") or told.get("phys_space")),
        allocated=number(told.get("alloc_space")),
        read_errors=number(told.get("read_errors")),
        write_errors=number(told.get("write_errors")),
        checksum_errors=number(told.get("checksum_errors")),
        slow_ios=number(told.get("slow_ios")),
        trim=_trim(told),
        trim_progress=min(1.0, number(told.get("trimmed")) / max(1, number(told.get("to_trim")))),
        was=cast("str | None", told.get("was")),
        vdevs=below,
    )


def _vdevs(status: Json) -> Iterator[Vdev]:
    for root in status.get("vdevs", {}).values():
        for name, told in root.get("vdevs", {}).items():
            yield _vdev(name, told, Role.DATA)
    for key, role in _ROLES.items():
        for name, told in status.get(key, {}).items():
            yield _vdev(name, told, role)


def _scan(told: Json | None) -> Scan | None:
    if not told or told.get("state") not in {"SCANNING", "FINISHED", "CANCELED"}:
        return None
    state = ScanState(str(told["state"]).lower())
    if state == ScanState.SCANNING and number(told.get("scrub_pause")):
        state = ScanState.PAUSED
    return Scan(
        function=str(told.get("function", "")).lower(),
        state=state,
        started=number(told.get("start_time")),
        ended=number(told.get("end_time")) or None,
        to_examine=number(told.get("to_examine")),
        examined=number(told.get("examined")),
        issued=number(told.get("issued")) + number(told.get("skipped")),
        processed=number(told.get("processed")),
        errors=number(told.get("errors")),
    )


def pool(name: str, status: Json, listed: Json) -> Pool:
    """From the pool's entries of `zpool status -j` and `zpool list -j -o all`."""
    text = _texts(listed)
    features = {key.removeprefix(_FEATURE): value for key, value in text.items() if key.startswith(_FEATURE)}
    return Pool(
        name=name,
        guid=number(status["pool_guid"]),
        health=health(status["state"]),
        size=number(text.get("size")),
        allocated=number(text.get("allocated")),
        free=number(text.get("free")),
        fragmentation=number(text.get("fragmentation")),
        readonly=text.get("readonly") == "on",
        ashift=number(text.get("ashift")),
        autotrim=text.get("autotrim") == "on",
        altroot=_or_none(text.get("altroot")),
        error_count=number(status.get("error_count")),
        status=" ".join(str(status.get("status", "")).split()),
        action=" ".join(str(status.get("action", "")).split()),
        scan=_scan(status.get("scan_stats")),
        vdevs=tuple(_vdevs(status)),
        bclone_used=number(text.get("bcloneused")),
        bclone_saved=number(text.get("bclonesaved")),
        bclone_ratio=ratio(text.get("bcloneratio", "1.00")),
        features={key: FeatureState(value) for key, value in features.items() if value in set(FeatureState)},
    )


_FIELD = re.compile(r"^ *(pool|id|state|status|action|see|config|comment): ?(.*)$")
_GROUP = re.compile(r"(mirror|raidz\d?|draid\S*|replacing|spare|logs|cache|spares|special|dedup|indirect|hole|missing)(-\S+)?$")


def importable(text: str) -> list[ImportablePool]:
    """From what `zpool import` lists; it has no JSON."""
    found: list[ImportablePool] = []
    fields: dict[str, str] = {}
    devices: list[str] = []
    key = ""

    def finish() -> None:
        if "pool" in fields and "id" in fields:
            status = fields.get("status", "")
            foreign = "last accessed by another system" in status or "in use" in status
            found.append(
                ImportablePool(
                    name=fields["pool"],
                    guid=number(fields["id"]),
                    health=health(fields.get("state", "").split(" ")[0]),
                    status=status,
                    action=fields.get("action", ""),
                    last_host="another system" if foreign else None,
                    devices=tuple(devices),
                )
            )
        fields.clear()
        devices.clear()

    for line in text.splitlines():
        if match := _FIELD.match(line):
            key = match[1]
            if key == "pool":
                finish()
            fields[key] = match[2].strip()
        elif key == "config":
            word = line.strip().split(" ")[0]
            if word and word != fields.get("pool") and not _GROUP.match(word):
                devices.append(word)
        elif key and line.strip():
            fields[key] = f"{fields[key]} {line.strip()}".strip()
    finish()
    return found
