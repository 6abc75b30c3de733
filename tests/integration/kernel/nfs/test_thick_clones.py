# SPDX-License-Identifier: Apache-2.0
"""VAAI-NAS next to thick storage: clones are copies and counted as copies, partial ones by name disappear after a crash.

A refused reservation changes nothing.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import admitted_for, cloned, control_block, counted, thick_dataset
from integration.kernel.zvol_clone.blocks import pool_property
from support.ganesha import Daemon, Export, Ganesha, mounted_dataset, running_ganesha
from support.onc_rpc import Nfs3, mount
from support.procedure22 import COMPLETE, DISK_FULL, RESERVE, Procedure22, Result
from support.programs import run, wait_for
from support.short_pool import MIB, ShortPool

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import ExportSpace, FileRefusedError, VaaiNas

SIZE, DISK = 144 * MIB, 64 * MIB
THICK, THIN = 1, 2
MAKING = ".zvaai-clones"
NFS3ERR_NOSPC = 28


@dataclass
class Stores:
    """A thick and a thin datastore of the short pool, each with a file "disk"."""

    ganesha: Ganesha
    places: dict[int, Path]
    control: VaaiNas
    socket: Path
    data: bytes

    def copied_for_thickness(self) -> int:
        """Bytes copied because of thickness, over all clones of the daemon."""
        exports = VaaiNas(self.socket).counters()["exports"]
        return sum(export["offload"]["fallback_bytes"]["thick"] for export in exports)

    def full_clone(self, source: int, name: str, destination: int) -> Result:
        """Clones "disk" into a new file of another export, as the plug-in does."""
        with Nfs3() as nfs:
            file = nfs.create(mount(f"/{destination}"), name)
            return Procedure22(nfs).full_clone(nfs.lookup(mount(f"/{source}"), "disk"), file)

    def reserve(self, export: int) -> Result:
        """Reserve Space of "disk"."""
        with Nfs3() as nfs:
            return Procedure22(nfs).command(RESERVE, nfs.lookup(mount(f"/{export}"), "disk"))

    def state(self, export: int) -> tuple[dict[str, tuple[int, int]], ExportSpace, str]:
        """State that a reservation could change: sizes and allocated bytes of files, admitted sum, dataset properties."""
        place = self.places[export]
        dataset = run("findmnt", "-no", "SOURCE", "--mountpoint", place).strip()
        run("zpool", "sync")
        files = {path.name: (path.stat().st_size, path.stat().st_blocks) for path in place.iterdir()}
        properties = run("zfs", "get", "-Hpo", "value", "refquota,refreservation,quota,reservation", dataset)
        return files, counted(self.control, export), properties


@pytest.fixture
def stores(short_pool: ShortPool, tmp_path: Path, seed: int) -> Iterator[Stores]:
    socket, data = tmp_path / "vaai-nas.socket", random.Random(seed).randbytes(DISK)
    with (
        thick_dataset(f"{short_pool.name}/thick", SIZE) as thick,
        mounted_dataset(f"{short_pool.name}/thin", compression="off") as thin,
    ):
        for place in (thick, thin):
            (place / "disk").write_bytes(data)
        exports = [Export(THICK, thick, "/1", thick_size=SIZE), Export(THIN, thin, "/2")]
        with running_ganesha(tmp_path / "ganesha", exports, Daemon.PATCHED, blocks=control_block(socket)) as ganesha:
            control = VaaiNas(socket)
            assert counted(control).admitted == admitted_for(DISK)
            yield Stores(ganesha, {THICK: thick, THIN: thin}, control, socket, data)


def test_with_a_thick_end_they_are_copies(stores: Stores, short_pool: ShortPool) -> None:
    before = pool_property(short_pool.name, "bcloneused")
    with pytest.raises((FileRefusedError, AssertionError), match="thick"):
        cloned(stores.control, "disk", "fast", fast=True)
    assert not (stores.places[THICK] / "fast").exists()
    assert cloned(stores.control, "disk", "copy", fast=False) == {"cloned": 0, "thick": DISK}
    assert counted(stores.control).admitted == admitted_for(DISK, DISK)
    assert (stores.places[THICK] / "copy").read_bytes() == stores.data
    result = stores.full_clone(THICK, "from thick", THIN)
    assert (result.status, result.clone_flag) == (0, COMPLETE)
    assert (stores.places[THIN] / "from thick").read_bytes() == stores.data
    assert stores.copied_for_thickness() == 2 * DISK
    result = stores.full_clone(THIN, "too much", THICK)
    assert (result.status, result.result) == (NFS3ERR_NOSPC, DISK_FULL)
    assert (stores.places[THICK] / "too much").stat().st_size == 0
    assert counted(stores.control).admitted == admitted_for(DISK, DISK, 0)
    with Nfs3() as nfs:
        nfs.remove(mount("/1"), "copy")
    result = stores.full_clone(THIN, "to thick", THICK)
    assert (result.status, result.clone_flag) == (0, COMPLETE)
    assert (stores.places[THICK] / "to thick").read_bytes() == stores.data
    assert stores.copied_for_thickness() == 3 * DISK
    assert counted(stores.control).admitted == admitted_for(DISK, DISK, 0)
    assert pool_property(short_pool.name, "bcloneused") == before, "nothing is shared"


def test_a_crash_during_a_clone_by_name_leaves_nothing(stores: Stores) -> None:
    place = stores.places[THICK]

    def clone(request: str) -> None:
        with contextlib.suppress(GaneshaUnreachableError):
            stores.control.clone(THICK, "disk", "clone", request=request, fast=False)

    def has_begun() -> bool:
        if (place / "clone").exists():
            return True
        with contextlib.suppress(FileNotFoundError):
            return any(path.stat().st_size > 0 for path in (place / MAKING).glob("*"))
        return False

    def ends_clone(turn: int) -> bool:
        """Whether the clone was incomplete when the daemon was killed."""
        thread = threading.Thread(target=clone, args=(f"{turn:032}",))
        thread.start()
        wait_for(has_begun, "the clone has begun")
        stores.ganesha.kill()
        thread.join()
        partial = not (place / "clone").exists()
        assert not partial or list((place / MAKING).iterdir())
        stores.ganesha.start()
        assert not (place / MAKING).exists()
        assert {path.name for path in place.iterdir()} == ({"disk"} if partial else {"disk", "clone"})
        assert counted(stores.control).admitted == (admitted_for(DISK) if partial else admitted_for(DISK, DISK))
        if not partial:
            with Nfs3() as nfs:
                nfs.remove(mount("/1"), "clone")
        return partial

    assert any(ends_clone(turn) for turn in range(1, 11))


def test_a_refused_reservation_changes_nothing(stores: Stores) -> None:
    """In a thin datastore, and in a thick one whose files exceed its size."""

    def check_refused(export: int) -> None:
        before = stores.state(export)
        refused = stores.reserve(export)
        assert (refused.status, refused.result, refused.reserved) == (NFS3ERR_NOSPC, DISK_FULL, 0)
        assert stores.state(export) == before

    check_refused(THIN)
    thick = stores.ganesha.exports[0]
    stores.ganesha.exports[0] = replace(thick, thick_size=DISK)
    stores.ganesha.restart_after_kill()
    assert counted(stores.control).admitted == admitted_for(DISK) > DISK
    check_refused(THICK)
    stores.ganesha.exports[0] = thick
    stores.ganesha.restart_after_kill()
    before = stores.state(THICK)
    granted = stores.reserve(THICK)
    assert (granted.status, granted.reserved) == (0, DISK)
    assert stores.state(THICK) == before
