# SPDX-License-Identifier: Apache-2.0
"""From the JSON of `zfs get`, `zfs list`, `zpool status` and `zpool list` to values.

Numbers are read as text, because OpenZFS 2.3 limits numbers to 63 bits with --json-int: half of all GUIDs would be
9223372036854775807.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from appliance.zfs.kernel.commands import Json
from appliance.zfs.model import (
    Encryption,
    FeatureState,
    Filesystem,
    Health,
    ImportablePool,
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

SNAPSHOT_COLUMNS = ("name", "guid", "createtxg", "creation", "used", "referenced", "userrefs", "clones")
_SOURCES = {source.name: source for source in Source}
_FEATURE = "feature@"


def number(value: object) -> int:
    """An integer from JSON or text; 0 for "-", "none" and missing values."""
    if isinstance(value, int):
        return value
    text = str(value or "")
    return int(text) if text.isdecimal() else 0


def _texts(properties: Json) -> dict[str, str]:
    return {name: str(entry["value"]) for name, entry in properties.items()}


def properties(entry: Json) -> dict[str, Property]:
    properties = {}
    for name, value in entry.items():
        source = _SOURCES.get(value["source"]["type"], Source.NONE)
        data = value["source"]["data"]
        properties[name] = Property(str(value["value"]), source, data if source == Source.INHERITED else None)
    return properties


def _shown(entry: Json) -> dict[str, Property]:
    return properties({name: value for name, value in entry.items() if name in SHOWN or is_user_property(name)})


def _numbers(text: Mapping[str, object], *names: str) -> dict[str, Any]:
    """Fields by name; OpenZFS's names of properties have no underscores."""
    return {name: number(text.get(name.replace("_", ""))) for name in names}


def _dataset(name: str, entry: Json, text: dict[str, str]) -> dict[str, Any]:
    space = Space(**_numbers(text, *Space.__dataclass_fields__))
    return {
        "name": name,
        "space": space,
        "origin": _or_none(text.get("origin")),
        "encryption": _encryption(name, text),
        "properties": _shown(entry),
        **_numbers(text, "guid", "createtxg", "creation", "refreservation"),
    }


def _encryption(name: str, text: dict[str, str]) -> Encryption | None:
    algorithm = text.get("encryption", "off")
    if algorithm in {"off", "-"}:
        return None
    status = KeyStatus.AVAILABLE if text.get("keystatus") == "available" else KeyStatus.UNAVAILABLE
    return Encryption(algorithm=algorithm, root=text.get("encryptionroot", name), key_status=status)


def _or_none(text: str | None) -> str | None:
    return None if text in {None, "-", "", "none"} else text


def volume(name: str, entry: Json) -> Volume:
    text = _texts(entry)
    return Volume(**_dataset(name, entry, text), **_numbers(text, "volsize", "volblocksize"))


def filesystem(name: str, entry: Json) -> Filesystem:
    text = _texts(entry)
    mountpoint = text.get("mountpoint", "none")
    return Filesystem(
        mountpoint=mountpoint if mountpoint.startswith("/") else None,
        mounted=text.get("mounted") == "yes",
        **_dataset(name, entry, text),
        **_numbers(text, "recordsize", "quota", "refquota", "reservation"),
    )


def snapshot(name: str, entry: Json, user_properties: Sequence[str]) -> Snapshot:
    """One entry of `zfs list -j -o` with SNAPSHOT_COLUMNS and user properties."""
    text = _texts(entry)
    clones = _or_none(text.get("clones"))
    user = properties({key: entry[key] for key in user_properties if key in entry})
    return Snapshot(
        name=name,
        holds=number(text["userrefs"]),
        clones=tuple(sorted(clones.split(","))) if clones else (),
        # `zfs list -j` prints "-" for an unset property, with the source of the column before it.
        properties={key: value for key, value in user.items() if value.value != "-"},
        **_numbers(text, "guid", "createtxg", "creation", "used", "referenced"),
    )


# --- pools

_ROLES = {"special": Role.SPECIAL, "dedup": Role.DEDUP, "logs": Role.LOG, "l2cache": Role.CACHE, "spares": Role.SPARE}
"""Spares come last: one in use is also listed where it serves (Pool.devices)."""
_HEALTHS = {health.value: health for health in Health} | {"CANT_OPEN": Health.UNAVAILABLE, "CLOSED": Health.UNAVAILABLE}
"""`zpool status -j` has other words for devices than `zpool status`."""


def health(text: object) -> Health:
    """Health of a pool or vdev; FAULTED for unknown words of a newer OpenZFS."""
    return _HEALTHS.get(str(text), Health.FAULTED)


def _trim(entry: Json) -> str:
    """State in `zpool status -t`, which prints VDEV_TRIM_NONE as "UNTRIMMED"."""
    state = str(entry.get("trim_state", "")).lower()
    return state if state in {"active", "suspended", "canceled", "complete"} else ""


def _vdev(name: str, entry: Json, role: Role) -> Vdev:
    below = tuple(_vdev(key, child, role) for key, child in entry.get("vdevs", {}).items())
    return Vdev(
        name=name,
        kind=str(entry.get("vdev_type", "")),
        guid=number(entry.get("guid")),
        health=health(entry.get("state")),
        role=role,
        path=cast("str | None", entry.get("path")),
        size=number(entry.get("total_space") or entry.get("phys_space")),
        allocated=number(entry.get("alloc_space")),
        **{name: number(entry.get(name)) for name in ("read_errors", "write_errors", "checksum_errors")},
        trim=_trim(entry),
        was=cast("str | None", entry.get("was")),
        vdevs=below,
    )


def _vdevs(status: Json) -> Iterator[Vdev]:
    for root in status.get("vdevs", {}).values():
        for name, entry in root.get("vdevs", {}).items():
            yield _vdev(name, entry, Role.DATA)
    for key, role in _ROLES.items():
        for name, entry in status.get(key, {}).items():
            yield _vdev(name, entry, role)


def _scan(entry: Json | None) -> Scan | None:
    if not entry or entry.get("state") not in {"SCANNING", "FINISHED", "CANCELED"}:
        return None
    state = ScanState(str(entry["state"]).lower())
    if state == ScanState.SCANNING and number(entry.get("scrub_pause")):
        state = ScanState.PAUSED
    return Scan(
        function=str(entry.get("function", "")).lower(),
        state=state,
        started=number(entry.get("start_time")),
        ended=number(entry.get("end_time")) or None,
        to_examine=number(entry.get("to_examine")),
        issued=number(entry.get("issued")) + number(entry.get("skipped")),
        repaired=number(entry.get("processed")),
        errors=number(entry.get("errors")),
    )


def pool(name: str, status: Json, listed: Json) -> Pool:
    """From the pool's entries of `zpool status -j` and `zpool list -j -o all`."""
    text = _texts(listed)
    features = {key.removeprefix(_FEATURE): value for key, value in text.items() if key.startswith(_FEATURE)}
    return Pool(
        name=name,
        guid=number(status["pool_guid"]),
        health=health(status["state"]),
        readonly=text.get("readonly") == "on",
        autotrim=text.get("autotrim") == "on",
        failmode=text.get("failmode", "wait"),
        error_count=number(status.get("error_count")),
        status=" ".join(str(status.get("status", "")).split()),
        action=" ".join(str(status.get("action", "")).split()),
        scan=_scan(status.get("scan_stats")),
        vdevs=tuple(_vdevs(status)),
        features={key: FeatureState(value) for key, value in features.items() if value in set(FeatureState)},
        **_numbers(text, "size", "allocated", "free", "fragmentation", "ashift", "bclone_used", "bclone_saved"),
    )


_FIELD = re.compile(r"^ *(pool|id|state|status|action|see|config|comment): ?(.*)$")
_GROUP = re.compile(r"(mirror|raidz\d?|draid\S*|replacing|spare|logs|cache|spares|special|dedup|indirect|hole|missing)(-\S+)?$")


def importable(text: str) -> list[ImportablePool]:
    """From the text output of `zpool import`, which has no JSON."""
    pools: list[ImportablePool] = []
    fields: dict[str, str] = {}
    devices: list[str] = []
    key = ""

    def finish() -> None:
        if "pool" in fields and "id" in fields:
            status = fields.get("status", "")
            foreign = "last accessed by another system" in status or "in use" in status
            # OpenZFS says so in place of another system (check_status of libzfs_status.c).
            unknown = "being resilvered" in status
            pools.append(
                ImportablePool(
                    name=fields["pool"],
                    guid=number(fields["id"]),
                    health=health(fields.get("state", "").split(" ")[0]),
                    status=status,
                    action=fields.get("action", ""),
                    last_host="another system" if foreign else "unknown" if unknown else None,
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
    return pools
