# SPDX-License-Identifier: Apache-2.0
"""The fixed list of operations: the abstract methods of the interfaces in OWNERS, with their types.

The interface is the only table: the helper has no other operations. Arguments are decoded strictly into the method's declared
types, as are results and errors.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_type_hints

import msgspec

from appliance.helper.exports import Exports
from appliance.helper.power import Power
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.folders import Folders
from appliance.zfs.keys import Keys

_READING = frozenset(
    (
        "datasets", "dependants", "disk_health", "disks", "filesystem", "holders", "holds", "stored_keys", "list_folder",
        "importable", "pools", "properties", "read_copies", "read_text", "snapshots", "volume", "zpool_status",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    owner: type
    """The interface that has it."""
    arguments: type[msgspec.Struct]
    """Types by name. Arguments with a default are optional; unknown arguments are refused."""
    result: Any
    changes: bool
    """Such a request is never repeated, and is in the audit."""


def _operation(owner: type, name: str) -> Operation:
    method = getattr(owner, name)
    types = get_type_hints(method)
    fields = [
        (parameter.name, types[parameter.name])
        if parameter.default is inspect.Parameter.empty
        else (parameter.name, types[parameter.name], parameter.default)
        for parameter in inspect.signature(method).parameters.values()
        if parameter.name != "self"
    ]
    arguments = msgspec.defstruct(name, fields, forbid_unknown_fields=True, frozen=True, kw_only=True)
    return Operation(name, owner, arguments, types["return"], changes=name not in _READING)


OWNERS = (ZfsEngine, Keys, Exports, ConfigurationCopies, Folders, Power)
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {name: _operation(owner, name) for owner in OWNERS for name in sorted(owner.__abstractmethods__)}
)
