# SPDX-License-Identifier: Apache-2.0
"""A datastore whose files cannot share blocks: full clones are copied. After a "no" a plug-in makes no clone at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, mounted_xfs, running_ganesha
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.procedure22 import CLONE_SUPPORTED, Procedure22
from support.programs import IN_GUEST, wait_for

NOENT, NOTSUPP = 2, 10004
DATA = b"content" * 100_000


@pytest.mark.skipif(IN_GUEST, reason="XFS; the datasets of a pool share blocks")
def test_full_clones_are_copied_and_fast_clones_refused(tmp_path: Path) -> None:
    with mounted_xfs(tmp_path / "store", reflink=False) as store:
        (store / "source").write_bytes(DATA)
        with running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")], Daemon.PATCHED), Nfs3() as nfs:
            procedure, root = Procedure22(nfs), mount("/one")
            source = nfs.lookup(root, "source")
            supported = procedure.command(CLONE_SUPPORTED, root)
            assert (supported.status, supported.result) == (0, 0)
            assert procedure.full_clone(source, nfs.create(root, "copy")).status == 0
            wait_for(lambda: (store / "copy").read_bytes() == DATA, "the clone is complete")
            assert procedure.clone(source, root, "fast").status == NOTSUPP
            with pytest.raises(Nfs3Error) as absent:
                nfs.lookup(root, "fast")
            assert absent.value.status == NOENT
