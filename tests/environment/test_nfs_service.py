"""nfs-ganesha as a service with FSAL_ZVAAI: systemd takes Debian's unit with our drop-in; what it starts serves as configured.

There is no systemd as process 1 here; the folders that the unit names are the test's own.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import FSAL_LIBRARY, PACKAGED_FSALS, PATCHED_LIBRARY, Export, Rpcbind, mounted_xfs
from support.libnfs import mounted
from support.programs import REPOSITORY, wait_for
from support.vaai_nas import ask_control_socket, vaai_nas

DEBIAN_UNIT = Path("/usr/lib/systemd/system/nfs-ganesha.service")
DROP_IN = REPOSITORY / "packaging/systemd/nfs-ganesha.service.d/zvaai.conf"
CONFIGURATION = REPOSITORY / "packaging/ganesha/ganesha.conf"


def settings() -> dict[str, list[str]]:
    """All values of each setting of the drop-in's [Service]."""
    found: dict[str, list[str]] = {}
    service = DROP_IN.read_text().partition("[Service]")[2]
    for name, value in re.findall(r"^(\w+)=(.*)$", service, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def verify(folder: Path, drop_in: str) -> str:
    """What systemd says of Debian's unit with a drop-in."""
    unit = Path(shutil.copy(DEBIAN_UNIT, folder))
    place = folder / f"{unit.name}.d" / DROP_IN.name
    place.parent.mkdir()
    place.write_text(drop_in)
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


def test_systemd_takes_the_drop_in(tmp_path: Path) -> None:
    assert verify(tmp_path, DROP_IN.read_text()) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [("NoNewPrivileges", "NoNewPrivilege", "Unknown key"), ("/usr/bin/ganesha.nfsd", "/usr/bin/ganesha", "not executable")],
)
def test_a_mistake_would_be_found(tmp_path: Path, right: str, wrong: str, says: str) -> None:
    assert says in verify(tmp_path, DROP_IN.read_text().replace(right, wrong))


def test_the_folders_of_unit_and_configuration_are_the_same() -> None:
    text, found = CONFIGURATION.read_text(), settings()
    assert f'"/var/lib/{found["StateDirectory"][0]}"' in text
    assert f'"/run/{found["RuntimeDirectory"][0]}/' in text
    assert found["ExecStart"][0] == "" and "/etc/zvaai/ganesha.conf" in found["ExecStart"][1]
    debian = configparser.ConfigParser(strict=False, interpolation=None)
    debian.read_string(DEBIAN_UNIT.read_text())
    assert "ganesha.nfsd" in debian["Service"]["ExecStart"], "Debian's unit starts something else now"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """What the unit starts, the folder it would have in /run, and what it exports as /one."""
    folders = {
        name: tmp_path / name.strip("/").replace("/", "-")
        for name in ("/var/lib/zvaai-nfs", "/run/zvaai-nfs", "/etc/zvaai/exports.d")
    }
    text = CONFIGURATION.read_text()
    for name, folder in folders.items():
        folder.mkdir()
        text = text.replace(name, str(folder))
    modules = tmp_path / "modules"  # a package puts ours beside Debian's
    modules.mkdir()
    for module in (*PACKAGED_FSALS.glob("libfsal*.so*"), FSAL_LIBRARY):
        (modules / module.name).symlink_to(module)
    text = text.replace("NFS_CORE_PARAM {", f'NFS_CORE_PARAM {{ Plugins_Dir = "{modules}"; allow_set_io_flusher_fail = true;')
    configuration = tmp_path / "ganesha.conf"
    configuration.write_text(text)
    command = settings()["ExecStart"][1].replace("/etc/zvaai/ganesha.conf", str(configuration)).split()
    with mounted_xfs(tmp_path / "store") as store:
        (folders["/etc/zvaai/exports.d"] / "1.conf").write_text(Export(1, store, "/one").block())
        rpcbind = Rpcbind()
        environment = {**os.environ, "LD_LIBRARY_PATH": str(PATCHED_LIBRARY), "BLKID_FILE": str(tmp_path / "blkid.tab")}
        # systemd makes the folder of its pid file, too.
        Path("/run/ganesha").mkdir(exist_ok=True)
        command = ["setpriv", "--no-new-privs", *command]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            yield process, folders["/run/zvaai-nfs"], store
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            rpcbind.stop()


def test_what_it_starts_serves(service: tuple[subprocess.Popen[str], Path, Path]) -> None:
    process, run_folder, store = service
    control = run_folder / "vaai-nas.socket"
    wait_for(lambda: control.is_socket() or process.poll() is not None, "it serves")
    wait_for(lambda: vaai_nas("--door", "program", "caps", "127.0.0.1:/one").returncode == 0, "the program answers")
    assert vaai_nas("--door", "procedure22", "caps", "127.0.0.1:/one").returncode == 0
    with mounted("/one") as client:
        client.write_file("/disk", b"d" * (1 << 20))
    given = ("--nfs-port", "2049", "--mount-port", "20048", "--program-port", "20049")
    assert vaai_nas(*given, "clone", "127.0.0.1:/one", "disk", "copy").returncode == 0
    assert (store / "copy").read_bytes() == b"d" * (1 << 20)
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    assert ask_control_socket(control, b'{"jsonrpc": "2.0", "id": 1, "method": "statistics.get"}')[0]["result"]["exports"]
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "regular exit" in log, log
