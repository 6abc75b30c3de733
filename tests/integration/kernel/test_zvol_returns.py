"""A LUN whose zvol goes, returns and grows, without anybody telling the target."""

from __future__ import annotations

from typing import Any

import pytest
from support.programs import ProgramFailed, run, wait_for
from support.target import IQN, Target
from support.volumes import VolumeMaker
from support.zfs import Pool

NAME = "returning"


def lun(target: Target) -> dict[str, Any]:
    """The only LUN, as the target shows it."""
    (found,) = target.call("luns.list", {"target": IQN})["luns"]
    return dict(found)


def test_a_zvol_goes_returns_and_grows(target: Target, pool: Pool, make_volume: VolumeMaker) -> None:
    device = make_volume(NAME, 64)
    target.add_lun(0, device)
    before = lun(target)
    target.kill()
    pool.destroy_volume(NAME)
    target.start()
    gone = lun(target)
    assert (gone["state"], gone["naa"]) == ("failed", before["naa"])
    assert str(device) in gone["reason"]
    # Hosts find the disk, and that it is not ready: not that there is none.
    with pytest.raises(ProgramFailed, match="NOT READY"):
        run("iscsi-ls", "-s", target.url())
    pool.create_volume(NAME, 64)
    wait_for(lambda: lun(target)["state"] == "serving", "the new zvol is served")
    assert lun(target) == before
    run("qemu-io", "-f", "raw", "-c", "write -P 5 0 1M", "-c", "read -P 5 0 1M", target.url(0))
    run("zfs", "set", "volsize=128M", f"{pool.name}/{NAME}")
    wait_for(lambda: lun(target)["size_bytes"] == 128 << 20, "the new size is seen")
    assert str(128 << 20) in run("iscsi-readcapacity16", "-s", target.url(0))
    target.call("luns.delete", {"target": IQN, "number": 0})
