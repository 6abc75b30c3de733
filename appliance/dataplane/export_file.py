# SPDX-License-Identifier: Apache-2.0
"""Parses the text of `Export.block`, to find how a datastore was exported when no other source has that information."""

import re
from pathlib import Path

from appliance.dataplane.ganesha import ClientRights, Export

_VALUE = re.compile(r'^  (\w+) = "?([^"\n]*?)"?;$', re.MULTILINE)
_DATASET = re.compile(r"^  # dataset (.*)$", re.MULTILINE)
_GUID = re.compile(r"^  # guid ([0-9]+)$", re.MULTILINE)
_THICK = re.compile(r"^  FSAL \{ Name = ZVAAI; Thick_Size = ([0-9]+); \}$", re.MULTILINE)
_CLIENT = re.compile(r"^  CLIENT \{ Clients = ([^;\n]*); Access_Type = (\w+); ", re.MULTILINE)


def read(text: str) -> Export | None:
    """The export; None for any other text, such as an edited file."""
    values, dataset, guid = dict(_VALUE.findall(text)), _DATASET.search(text), _GUID.search(text)
    thick = _THICK.search(text)
    try:
        export = Export(
            export_id=int(values["Export_Id"]),
            path=Path(values["Path"]),
            pseudo=values["Pseudo"],
            access=values["Access_Type"],
            clients=tuple(ClientRights(*rights) for rights in _CLIENT.findall(text)),
            dataset=dataset[1] if dataset else "",
            guid=int(guid[1]) if guid else None,
            thick_size=int(thick[1]) if thick else None,
        )
        return export if export.block() == text else None
    except (KeyError, ValueError):
        return None
