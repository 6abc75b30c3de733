# SPDX-License-Identifier: Apache-2.0
"""The fixed list of operations: the abstract methods of ZfsEngine, Keys, Exports, ConfigurationCopies and Log, with their types.

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
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.folders import Folders
from appliance.zfs.keys import Keys
from appliance.zfs.log import Log

_READING = frozenset(
    (
        "datasets", "dependants", "disk_health", "disks", "filesystem", "holders", "holds", "stored_keys", "list_folder",
        "importable", "log_lines", "pools", "properties", "read_copies", "read_text", "snapshots", "volume", "zpool_status",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    arguments: type[msgspec.Struct]
    """Types by name. Arguments with a default are optional; unknown arguments are refused."""
    result: Any
    changes: bool
    """Such a request is never repeated, and is in the audit."""


def _operation(
    owner: type[ZfsEngine] | type[Keys] | type[Exports] | type[ConfigurationCopies] | type[Folders] | type[Log], name: str
) -> Operation:
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
    changes = name not in _READING
    return Operation(name, arguments, types["return"], changes)


OF_KEYS = frozenset(Keys.__abstractmethods__)
OF_EXPORTS = frozenset(Exports.__abstractmethods__)
OF_COPIES = frozenset(ConfigurationCopies.__abstractmethods__)
OF_FOLDERS = frozenset(Folders.__abstractmethods__)
OF_LOG = frozenset(Log.__abstractmethods__)
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        name: _operation(owner, name)
        for owner, operations in (
            (ZfsEngine, ZfsEngine.__abstractmethods__),
            (Keys, OF_KEYS),
            (Exports, OF_EXPORTS),
            (ConfigurationCopies, OF_COPIES),
            (Folders, OF_FOLDERS),
            (Log, OF_LOG),
        )
        for name in sorted(operations)
    }
)
