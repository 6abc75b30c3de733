# SPDX-License-Identifier: Apache-2.0
"""The identity of a datastore, in user properties of its dataset, and the rules when it counts.

User properties are inherited, and travel with received copies; two LUNs with one NAA identifier corrupt VMFS. So an identity
counts only if it is set on the dataset itself, the GUID stored with it is the dataset's, and no other dataset claims the same.
All others are copies: shown, and not served until they are adopted or get a new identity.
"""

import re
import uuid as uuids
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from appliance import decoding
from appliance.domain import designation
from appliance.domain.designation import Designation
from appliance.domain.fields import DATASTORE_NAME
from appliance.zfs.model import Dataset, Property, Source
from appliance.zfs.names import MAX_USER_PROPERTY_VALUE_BYTES

UUID = "zvaai:uuid"
GUID = "zvaai:guid"
NAME = "zvaai:name"
LUN = "zvaai:lun"
"""The number it had last; what another appliance gives it if that is free."""
EXPORT = "zvaai:export"
"""For an NFS datastore: the number of its export, which the handles of hosts contain."""
SHARE = "zvaai:share"
"""For an NFS datastore: the path that hosts mount. It does not change with the datastore's name."""
SOFT_THRESHOLD = "zvaai:soft_threshold"
"""Percent of its size."""
THICK = "zvaai:thick"
"""Whether it is thick: "on", "off", or BECOMING. The appliance sets `refreservation` where it is "on"."""
BECOMING = "becoming"
"""Thick for the data planes, which share nothing more. Blocks may still be shared, so nothing is reserved."""
DELETED = "zvaai:deleted"
"""Time of the deletion, in seconds since 1970."""
SHOWN_TO = "zvaai:shown_to"
"""For a deleted datastore: its presentation (ShownTo as JSON), so that a restore can restore it."""
CREATED_BY = "zvaai:job"
"""The job that made it, so that the job knows it again after a crash."""
SHARE_PATTERN = r"^/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
EXPORTS = 65535
"""ganesha's numbers are 16 bits; 0 is the root of its paths."""
_THICK = {"on": True, BECOMING: True, "off": False}


class ShownTo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How hosts saw a datastore before it was deleted. All but `host_groups` is of NFS."""

    host_groups: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def to_property(self) -> str:
        """Empty if it is longer than OpenZFS stores."""
        text = msgspec.json.encode(self).decode()
        return text if len(text) <= MAX_USER_PROPERTY_VALUE_BYTES else ""


@dataclass(frozen=True)
class Identity:
    uuid: str
    name: str
    lun: int | None
    soft_threshold: int | None
    deleted_at: int | None
    thick: bool | None = None
    becoming_thick: bool = False
    designation: Designation | None = None
    export: int | None = None
    share: str | None = None
    shown_to: ShownTo | None = None


@dataclass(frozen=True)
class Copy:
    """Not a datastore, and why; `of` is the UUID it claims."""

    of: str
    name: str
    reason: str


def _local(properties: Mapping[str, Property], name: str) -> str | None:
    prop = properties.get(name)
    return prop.value if prop is not None and prop.source == Source.LOCAL else None


MOST_SECONDS = 10**11
"""Largest time since 1970 that is read from a property. A date can't be later than the year 9999."""


def _number(text: str | None, largest: int) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) and int(text) <= largest else None


def judge(dataset: Dataset) -> Identity | Copy | None:
    """The identity of a dataset; why it is a copy; None when it claims nothing."""
    claimed = dataset.properties.get(UUID)
    if claimed is None or claimed.value in ("", "-"):
        return None
    shown = dataset.properties.get(NAME)
    name = shown.value if shown else dataset.name.rsplit("/", 1)[-1]
    if claimed.source != Source.LOCAL:
        came = f"inherited from {claimed.inherited_from}" if claimed.source == Source.INHERITED else claimed.source.value
        return Copy(claimed.value, name, f"its identity is {came}, not its own")
    try:
        uuid = str(uuids.UUID(claimed.value))
    except ValueError:
        return Copy(claimed.value, name, f"{UUID} is no UUID")
    stored = _local(dataset.properties, GUID)
    if stored != str(dataset.guid):
        what = (
            "no GUID is stored with its identity"
            if stored is None
            else f"its identity belongs to the dataset with the GUID {stored}"
        )
        return Copy(uuid, name, what)
    local_name = _local(dataset.properties, NAME)
    value = _local(dataset.properties, designation.PROPERTY)
    names = designation.of_property(value) if value is not None else None
    if local_name is None or not re.fullmatch(DATASTORE_NAME, local_name):
        damage: str | None = f"{NAME} is missing or no name of a datastore"
    elif value is not None and names is None:
        damage = f"{designation.PROPERTY} is not what an appliance wrote: hosts would not know it again"
    else:
        damage = None
    if damage is not None or local_name is None:
        return Copy(uuid, name, damage or "")
    return Identity(
        uuid=uuid,
        name=local_name,
        lun=_number(_local(dataset.properties, LUN), 16383),
        soft_threshold=_number(_local(dataset.properties, SOFT_THRESHOLD), 100),
        deleted_at=_number(_local(dataset.properties, DELETED), MOST_SECONDS),
        thick=_THICK.get(_local(dataset.properties, THICK) or ""),
        becoming_thick=_local(dataset.properties, THICK) == BECOMING,
        designation=names,
        export=_number(_local(dataset.properties, EXPORT), EXPORTS) or None,
        share=share if (share := _local(dataset.properties, SHARE)) and re.fullmatch(SHARE_PATTERN, share) else None,
        shown_to=_shown_to(_local(dataset.properties, SHOWN_TO)),
    )


def _shown_to(text: str | None) -> ShownTo | None:
    try:
        return decoding.decode(text, ShownTo) if text else None
    except msgspec.MsgspecError:
        return None


def claimed_thick(dataset: Dataset) -> bool | None:
    """Value that is set on the dataset itself, or was received with a replica."""
    prop = dataset.properties.get(THICK)
    return _THICK.get(prop.value) if prop is not None and prop.source in (Source.LOCAL, Source.RECEIVED) else None


def switched(thick: bool | None) -> dict[str, str]:
    """Properties for this value; none if it is None."""
    return {} if thick is None else {THICK: "on" if thick else "off"}


def differs(dataset: Dataset, desired: Mapping[str, str]) -> bool:
    """Whether one of these user properties differs on the dataset itself."""
    return any(_local(dataset.properties, name) != value for name, value in desired.items())


def claimed_designation(dataset: Dataset) -> Designation | None:
    """Names in the properties of a copy, from any source."""
    prop = dataset.properties.get(designation.PROPERTY)
    return designation.of_property(prop.value) if prop is not None else None


def has_its_guid(dataset: Dataset) -> bool:
    """Whether the GUID stored with its identity is its own: then it is not a replica of another dataset."""
    return _local(dataset.properties, GUID) == str(dataset.guid)


def is_surely_another(dataset: Dataset) -> bool:
    """Whether the identity was certainly created for another dataset. If a property of the dataset itself was
    damaged or lost (`zfs set`, `zfs inherit`), that is not certain.
    """
    claimed, stored = dataset.properties.get(UUID), _local(dataset.properties, GUID)
    if claimed is None or stored == str(dataset.guid):
        return False
    return stored is not None or claimed.source != Source.LOCAL


def claimed_numbers(dataset: Dataset, uuid: str, name: str) -> Identity:
    """Presentation of the copied datastore, as the properties of a copy claim it."""
    properties = {key: prop.value for key in (LUN, EXPORT, SHARE) if (prop := dataset.properties.get(key)) is not None}
    share = properties.get(SHARE, "")
    return Identity(
        uuid, name, _number(properties.get(LUN), 16383), None, None, export=_number(properties.get(EXPORT), EXPORTS) or None,
        share=share if re.fullmatch(SHARE_PATTERN, share) else None,
    )  # fmt: skip


def judge_all(datasets: Iterable[Dataset]) -> dict[str, Identity | Copy]:
    """Identities and copies by dataset. If two datasets have one identity, as after splitting a pool, neither counts."""
    judged = {dataset.name: claim for dataset in datasets if (claim := judge(dataset)) is not None}
    holders: dict[str, list[str]] = {}
    for dataset_name, claim in judged.items():
        if isinstance(claim, Identity):
            holders.setdefault(claim.uuid, []).append(dataset_name)
    for names in holders.values():
        if len(names) > 1:
            for dataset_name in names:
                claim = judged[dataset_name]
                others = ", ".join(name for name in names if name != dataset_name)
                if isinstance(claim, Identity):
                    judged[dataset_name] = Copy(claim.uuid, claim.name, f"{others} has the same identity")
    return judged
