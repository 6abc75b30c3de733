# SPDX-License-Identifier: Apache-2.0
"""Parses the text of `Export.block`, to find how a datastore was exported when no other source has that information."""

import re
from pathlib import Path

from appliance.dataplane.ganesha import Export

_VALUE = re.compile(r'^  (\w+) = "?([^"\n]*?)"?;$', re.MULTILINE)
_DATASET = re.compile(r"^  # dataset (.*)$", re.MULTILINE)
_GUID = re.compile(r"^  # guid ([0-9]+)$", re.MULTILINE)
_THICK = re.compile(r"^  FSAL \{ Name = ZVAAI; Thick_Size = ([0-9]+); \}$", re.MULTILINE)
_CLIENTS = re.compile(r"^  CLIENT \{ Clients = ([^;\n]*); ", re.MULTILINE)


def read(text: str) -> Export | None:
    """The export; None for any other text, such as an edited file."""
    values, dataset, guid = dict(_VALUE.findall(text)), _DATASET.search(text), _GUID.search(text)
    thick, clients = _THICK.search(text), _CLIENTS.search(text)
    try:
        export = Export(
            export_id=int(values["Export_Id"]),
            path=Path(values["Path"]),
            pseudo=values["Pseudo"],
            clients=tuple(clients[1].split(", ")) if clients else (),
            dataset=dataset[1] if dataset else "",
            guid=int(guid[1]) if guid else None,
            thick_size=int(thick[1]) if thick else None,
        )
        return export if export.block() == text else None
    except (KeyError, ValueError):
        return None
