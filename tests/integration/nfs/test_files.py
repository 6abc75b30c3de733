# SPDX-License-Identifier: Apache-2.0
"""Files of an export by path, over the real daemon's control socket: list, measure, clone; no access outside the export."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.ganesha import Export, Ganesha, running_ganesha
from support.libnfs import mounted
from support.programs import IN_GUEST, run, wait_for

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import FileJob, FileRefusedError, VaaiNas

SIZE = 4 << 20
UNSHARED = 64 << 10
"""More than a clone's unshared bytes: OpenZFS counts its indirect blocks."""
COUNTS = Path("/dev/zvol_clone").exists()
"""Whether shared blocks of a file are known."""
REQUEST = "0123456789abcdef" * 2
DISK = "vm/disk-flat.vmdk"


@dataclass
class Rig:
    """A daemon with a file system exported read-only to everybody; it has a disk of a virtual machine."""

    ganesha: Ganesha
    store: Path
    files: VaaiNas
    socket: Path
    data: bytes

    def ended(self, job: FileJob) -> FileJob:
        """The clone after its end."""
        wait_for(lambda: not self.files.job(1, job.job).active, "the clone ends")
        return self.files.job(1, job.job)


@pytest.fixture(scope="module")
def rig(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    """A rig for all tests of this file."""
    store, directory = make_lasting_store("store"), tmp_path_factory.mktemp("rig")
    data = random.Random(seed).randbytes(SIZE)
    (store / "vm").mkdir()
    (store / DISK).write_bytes(data)
    (store / "vm" / "disk.vmdk").write_text('# Disk DescriptorFile\nRW 8192 VMFS "disk-flat.vmdk"\n')
    (store / DISK).chmod(0o640)
    os.chown(store / DISK, 1234, 4321)
    for name, target in (("link", "vm"), ("outside", "/"), ("link.vmdk", DISK)):
        (store / name).symlink_to(target)
    (store / "vm" / "passing").write_bytes(data)
    (store / "passing").mkdir()
    nested = store / "nested"
    nested.mkdir()
    run("mount", "-t", "tmpfs", "nested", nested)
    (nested / "other.vmdk").write_bytes(b"x")
    os.sync()
    control = directory / "vaai-nas.socket"
    exports = [Export(1, store, "/store", access="RO")]
    if not IN_GUEST:  # there /usr cannot be exported
        exports.append(Export(9, Path("/usr"), "/other", fsal="VFS", access="RO"))
    blocks = f'VAAI_NAS {{ Control_Socket = "{control}"; }}\n'
    try:
        with running_ganesha(directory / "ganesha", exports, blocks=blocks) as ganesha:
            yield Rig(ganesha, store, VaaiNas(control), control, data)
    finally:
        run("umount", nested)


def refused(rig: Rig, source: str, destination: str, export: int = 1) -> tuple[str, str | None]:
    """Reason for the refusal of a clone, and the field that it names."""
    with pytest.raises(FileRefusedError) as error:
        rig.files.clone(export, source, destination, request=uuid.uuid4().hex, fast=False)
    return error.value.status, error.value.field


def test_disks_are_listed_and_measured(rig: Rig) -> None:
    page = rig.files.files(1, "", 100)
    assert [(file.path, file.total) for file in page.files] == [(DISK, SIZE)] and page.complete and not page.more
    statistics = rig.files.statistics(1, DISK)
    assert (statistics.total, statistics.unique_exact) == (SIZE, COUNTS)
    assert SIZE <= statistics.unique == statistics.allocated <= SIZE + (1 << 20)


def test_a_clone_shares_its_blocks_and_belongs_to_whom_its_source_does(rig: Rig) -> None:
    with mounted("/store") as host:
        before = host.names("/vm")
        job = rig.files.clone(1, DISK, "vm/clone-flat.vmdk", request=REQUEST, fast=True)
        again = rig.files.clone(1, DISK, "vm/clone-flat.vmdk", request=REQUEST, fast=True)
        ended = rig.ended(job)
        assert again.job == job.job
        assert (ended.state, ended.done_bytes, ended.cloned_bytes, ended.copied_bytes) == ("complete", SIZE, SIZE, 0)
        assert host.names("/vm") - before == {"clone-flat.vmdk"}, "clients see it at once"
        assert host.read_file("/vm/clone-flat.vmdk") == rig.data
    made = (rig.store / "vm" / "clone-flat.vmdk").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o7777) == (1234, 4321, 0o640), "whose the source is, and not root's"
    assert [file.path for file in rig.files.files(1, "", 1).files] == ["vm/clone-flat.vmdk"]
    assert [file.path for file in rig.files.files(1, "vm/clone-flat.vmdk", 1).files] == [DISK]
    statistics = rig.files.statistics(1, "vm/clone-flat.vmdk")
    assert statistics.total == SIZE and statistics.unique_exact == COUNTS
    assert statistics.unique <= UNSHARED if COUNTS else statistics.unique == statistics.allocated, (
        "without the kernel module an upper bound"
    )
    assert refused(rig, DISK, "vm/clone-flat.vmdk") == ("exists", "destination")


def test_nothing_outside_the_export_is_reached(rig: Rig) -> None:
    before = sorted(str(path) for path in rig.store.rglob("*"))
    for path in ("../store/vm/disk-flat.vmdk", "/etc/passwd", "vm//disk-flat.vmdk", "vm/./disk-flat.vmdk", "vm/..", ""):
        assert refused(rig, path, "new.vmdk") == ("invalid", "source")
        assert refused(rig, DISK, path) == ("invalid", "destination")
    assert refused(rig, "link/disk-flat.vmdk", "new.vmdk") == ("not_directory", "source")
    assert refused(rig, "link.vmdk", "new.vmdk") == ("invalid", "source")
    assert refused(rig, "outside/etc/passwd", "new.vmdk") == ("not_directory", "source")
    assert refused(rig, DISK, "link/new.vmdk") == ("not_directory", "destination")
    assert refused(rig, DISK, "outside/tmp/new.vmdk") == ("not_directory", "destination")
    assert refused(rig, DISK, "missing/new.vmdk") == ("not_found", "destination")
    assert refused(rig, "vm/missing.vmdk", "new.vmdk") == ("not_found", "source")
    assert refused(rig, "vm", "new.vmdk") == ("is_directory", "source")
    if not IN_GUEST:
        assert refused(rig, "share/common-licenses/GPL-3", "share/new", export=9)[0] == "not_supported"
    assert refused(rig, DISK, "new.vmdk", export=5)[0] == "stale"
    assert sorted(str(path) for path in rig.store.rglob("*")) == before


def test_no_other_file_system_in_the_export_is_reached(rig: Rig) -> None:
    assert refused(rig, "nested/other.vmdk", "new.vmdk") == ("not_supported", "source")
    assert refused(rig, DISK, "nested/new.vmdk") == ("not_supported", "destination")
    assert not (rig.store / "nested" / "new.vmdk").exists()
    assert all("nested" not in file.path for file in rig.files.files(1, "", 100).files)


def test_a_request_said_again_is_the_same_job_whatever_became_of_the_files(rig: Rig) -> None:
    request, made = uuid.uuid4().hex, rig.store / "passing" / "new.vmdk"
    job = rig.ended(rig.files.clone(1, "vm/passing", "passing/new.vmdk", request=request, fast=False))
    assert job.state == "complete" and made.read_bytes() == rig.data
    (rig.store / "vm" / "passing").unlink()
    made.unlink()
    made.parent.rmdir()
    again = rig.files.clone(1, "vm/passing", "passing/new.vmdk", request=request, fast=False)
    assert (again.job, again.state) == (job.job, "complete")
    assert rig.files.cancel(1, job.job).state == "complete"
    with pytest.raises(FileRefusedError) as error:
        rig.files.clone(1, DISK, "passing.vmdk", request=request, fast=False)
    assert (error.value.status, error.value.field) == ("exists", "request_id")


def test_unauthorised_users_get_no_answer(rig: Rig) -> None:
    """A user who can reach the socket, because root allows it by folder and mode."""
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'x\\n'); print(s.recv(9))"
    )
    rig.socket.chmod(0o666)
    for folder in rig.socket.parents:
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o001)
    try:
        words = ["python3", "-c", program, str(rig.socket)]
        answer = subprocess.run(words, user=1234, group=1234, extra_groups=[], capture_output=True, text=True, check=False)
    finally:
        rig.socket.chmod(0o600)
    assert answer.stdout.strip() == "b''" or "ConnectionResetError" in answer.stderr or "BrokenPipeError" in answer.stderr, answer
    assert rig.files.files(1, "", 1).files


def test_a_silent_client_blocks_no_other(rig: Rig) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            silent = stack.enter_context(socket.socket(socket.AF_UNIX))
            silent.connect(str(rig.socket))
        assert rig.files.statistics(1, DISK, timeout_s=9).total == SIZE, "the silent ones are let go after 10 s"


def test_a_daemon_that_was_restarted_says_so(rig: Rig) -> None:
    job = rig.ended(rig.files.clone(1, DISK, "kept.vmdk", request="f" * 32, fast=True))
    assert job.state == "complete"
    rig.ganesha.kill()
    with pytest.raises(GaneshaUnreachableError):
        rig.files.job(1, job.job)
    rig.ganesha.start()
    with pytest.raises(FileRefusedError) as error:
        rig.files.job(1, job.job)
    assert error.value.status == "interrupted"
    assert (rig.store / "kept.vmdk").read_bytes() == rig.data
