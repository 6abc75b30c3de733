# SPDX-License-Identifier: Apache-2.0
"""NFS datastores as the appliance makes them, thick and thin, in a pool that others fill, and the daemon's reports on them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from support.ganesha import mounted_dataset
from support.programs import wait_for
from support.short_pool import MIB

from appliance.dataplane.vaai_nas import ExportSpace, VaaiNas

LEAST_SLACK = 128 * MIB
PER_FILE = 16 << 10
RECORD = 128 << 10


def admitted_for(*sizes: int) -> int:
    """Admitted bytes of files of these sizes."""
    return sum(-(-size // RECORD) * RECORD + PER_FILE for size in sizes)


@contextlib.contextmanager
def thick_dataset(name: str, size: int) -> Iterator[Path]:
    """A mounted dataset with the appliance's reservation for `size`."""
    room = str(size + max(LEAST_SLACK, size // 16))
    with mounted_dataset(name, compression="off", refquota=room, refreservation=room) as place:
        yield place


def control_block(socket: Path) -> str:
    return f'VAAI_NAS {{ Control_Socket = "{socket}"; }}\n'


def counted(control: VaaiNas, export: int = 1) -> ExportSpace:
    """Admitted space of an export, after all files are counted."""
    wait_for(lambda: not control.space(export).counting, "files are counted")
    return control.space(export)


def cloned(control: VaaiNas, source: str, name: str, *, fast: bool, export: int = 1) -> dict[str, int]:
    """Clones by path; returns bytes cloned, and copied by reason. Raises FileRefusedError, AssertionError."""
    job = control.clone(export, source, name, request=f"{abs(hash((source, name, fast))):032x}", fast=fast)
    wait_for(lambda: not control.job(export, job.job).active, "the clone ends")
    ended = control.job(export, job.job)
    assert ended.state == "complete", ended
    return {"cloned": ended.cloned_bytes, **{reason: size for reason, size in ended.fallback_bytes.items() if size}}
