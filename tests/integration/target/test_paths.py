# SPDX-License-Identifier: Apache-2.0
"""Paths to a LUN, with libiscsi and QEMU: digests, CHAP, IPv6, several portals, a cut link."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.images import digest, file_system_image
from support.network import NAMESPACE, links
from support.programs import ProgramFailed, run, wait_for
from support.target import IQN, Account, Target, running_target
from support.volumes import VolumeMaker

IMAGE_MIB = 64
HOST = Account("host", "a-secret-of-20-bytes")
TARGET = Account("target", "another-secret-20-by")


def session_parameters(target: Target) -> list[dict[str, object]]:
    """Negotiated parameters of each session."""
    return [session["parameters"] for session in target.call("sessions.list")["sessions"]]


@pytest.mark.parametrize("header_digest", ["none", "crc32c"])
def test_qemu_and_libiscsi_with_and_without_header_digest(
    target: Target, make_volume: VolumeMaker, tmp_path: Path, seed: int, header_digest: str
) -> None:
    """libiscsi's tools request none, and it has no data digest; the guest's tests have open-iscsi's."""
    image = file_system_image(tmp_path, seed, 16)
    volume = make_volume("volume", 16)
    target.add_lun(0, volume)
    disk = {"transport": "tcp", "portal": target.portal, "target": IQN, "lun": "0", "header-digest": header_digest}
    options = ",".join(["driver=raw", "file.driver=iscsi", *(f"file.{name}={value}" for name, value in disk.items())])
    agreed: list[object] = []

    def copied_and_seen() -> bool:
        """Whether the session was listed while it was logged in, which lasts half a second."""
        copy = subprocess.Popen(["qemu-img", "convert", "-n", "-r", "16M", "-f", "raw", "--target-image-opts", image, options])

        def has_logged_in() -> bool:
            agreed[:] = [parameters["header_digest"] for parameters in session_parameters(target)]
            return bool(agreed) or copy.poll() is not None

        try:
            wait_for(has_logged_in, "QEMU has logged in")
        finally:
            assert copy.wait(60) == 0
        return bool(agreed)

    wait_for(copied_and_seen, "QEMU is seen")
    assert agreed == [header_digest == "crc32c"]
    assert digest(volume, 16 << 20) == digest(image)


def test_mutual_chap_with_libiscsi(target: Target, make_volume: VolumeMaker) -> None:
    """Each side authenticates; libiscsi disconnects from a target that does not know the secret."""
    target.add_lun(0, make_volume("volume", 16))
    target.call("accounts.set", {"target": IQN, "name": HOST.name, "secret": HOST.secret, "initiators": "any"})
    target.call("accounts.set", {"target": IQN, "name": TARGET.name, "secret": TARGET.secret, "mutual": True})
    url = target.url(0, account=HOST)
    assert "ZVAAI" in run("iscsi-inq", f"{url}?target_user={TARGET.name}&target_password={TARGET.secret}")
    with pytest.raises(ProgramFailed):
        run("iscsi-inq", f"{url}?target_user={TARGET.name}&target_password=not-the-secret-of-it")
    with pytest.raises(ProgramFailed):
        run("iscsi-inq", f"{url}?target_user=somebody&target_password={TARGET.secret}")


def test_portals_of_both_families_and_two_groups(tmp_path: Path, make_volume: VolumeMaker, seed: int) -> None:
    portals = [("127.0.0.1:3260", 1), ("[::1]:3260", 1), ("127.0.0.2:3261", 2)]
    image = file_system_image(tmp_path, seed, 16)
    volume = make_volume("volume", 16)
    with running_target(tmp_path / "target", portals) as target:
        target.add_lun(0, volume)
        for address, _ in portals:
            listing = run("iscsi-ls", f"iscsi://{address}")
            assert set(re.findall(rf"Target:{re.escape(IQN)} Portal:(\S+)", listing)) == {f"{at},{tag}" for at, tag in portals}
            assert "ZVAAI" in run("iscsi-inq", target.url(0, portal=address))
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, target.url(0, portal="[::1]:3260"))
        assert "identical" in run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, target.url(0, portal="127.0.0.2:3261"))


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_cable_is_pulled_and_put_back(tmp_path: Path, make_volume: VolumeMaker, seed: int, cuts: int) -> None:
    """QEMU copies an image to a LUN over a link that is cut in between; it continues itself, and every byte arrives."""
    image = file_system_image(tmp_path, seed, IMAGE_MIB)
    volume = make_volume("volume", IMAGE_MIB)
    with links(1) as (link,), running_target(tmp_path / "target", [(f"{link.address}:3260", 1)], namespace=NAMESPACE) as target:
        target.add_lun(0, volume)

        def written() -> int:
            return int(target.counters()["write"]["bytes"])

        def started() -> subprocess.Popen[str]:
            command: list[str | Path] = ["qemu-img", "convert", "-n", "-r", "10M", "-f", "raw", "-O", "raw", image, target.url(0)]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        copy = started()

        def stalled() -> bool:
            """Cuts the link for 2 s. Starts the copy again and returns False if the copy ended before the cut."""
            nonlocal copy
            before = written()
            wait_for(lambda: written() > before + (2 << 20) or copy.poll() is not None, "2 MiB are copied")
            link.cut()
            stalled_at = written()
            try:
                output, _ = copy.communicate(timeout=2)
            except subprocess.TimeoutExpired:
                # Data that had arrived is still written; over the link it would be 20 MiB by now.
                assert written() - stalled_at <= 8 << 20, "the link was not cut"
                return True
            finally:
                link.restore()
            assert copy.returncode == 0, output
            copy = started()
            return False

        for _ in range(cuts):
            wait_for(stalled, "the link is cut during a copy")
        output, _ = copy.communicate(timeout=120)
        assert copy.returncode == 0, output
        assert digest(volume, IMAGE_MIB << 20) == digest(image)
