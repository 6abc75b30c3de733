# SPDX-License-Identifier: Apache-2.0
"""nfs-ganesha as a service with FSAL_ZVAAI: Debian's unit with our drop-in is valid, and its commands serve as configured.

There is no systemd as process 1 here; folders of the unit are those of the test.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ganesha import FSAL_LIBRARY, PACKAGED_FSALS, PATCHED_LIBRARY, Rpcbind, mounted_xfs
from support.libnfs import mounted
from support.programs import REPOSITORY, run, wait_for
from support.vaai_nas import ask_control_socket, vaai_nas

from appliance.dataplane.ganesha import Export

DEBIAN_UNIT = Path("/usr/lib/systemd/system/nfs-ganesha.service")
DROP_IN = REPOSITORY / "packaging/systemd/nfs-ganesha.service.d/zvaai.conf"
CONFIGURATION = REPOSITORY / "packaging/ganesha/ganesha.conf"
VAAI_NAS = REPOSITORY / "packaging/ganesha/vaai-nas.conf"
NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight")
MOUNTED_EXPORTS = REPOSITORY / "packaging/ganesha/mounted_exports.py"
CHOOSE_LIBRARY = REPOSITORY / "packaging/ganesha/choose-library"
GUID = 4711


def settings() -> dict[str, list[str]]:
    """All values of each setting in [Service] of the drop-in."""
    values: dict[str, list[str]] = {}
    service = DROP_IN.read_text().partition("[Service]")[2]
    for name, value in re.findall(r"^(\w+)=(.*)$", service, re.MULTILINE):
        values.setdefault(name, []).append(value)
    return values


def test_systemd_takes_the_drop_in(tmp_path: Path) -> None:
    unit = Path(shutil.copy(DEBIAN_UNIT, tmp_path))
    place = tmp_path / f"{unit.name}.d" / DROP_IN.name
    place.parent.mkdir()
    drop_in = DROP_IN.read_text()
    for program in (MOUNTED_EXPORTS, CHOOSE_LIBRARY):  # as installed by a package: writable by nobody else
        drop_in = drop_in.replace(str(Path("/usr/lib/zvaai") / program.name), str(program))
    place.write_text(drop_in)
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr == ""


def test_the_folders_of_unit_and_configuration_are_the_same() -> None:
    text, values = CONFIGURATION.read_text() + VAAI_NAS.read_text(), settings()
    assert f'"/var/lib/{values["StateDirectory"][0]}"' in text
    assert f'"/run/{values["RuntimeDirectory"][0]}/' in text
    assert values["ExecStart"][0] == "" and "/etc/zvaai/ganesha.conf" in values["ExecStart"][1]
    debian = configparser.ConfigParser(strict=False, interpolation=None)
    debian.read_string(DEBIAN_UNIT.read_text())
    assert "ganesha.nfsd" in debian["Service"]["ExecStart"], "Debian's unit starts something else now"


def test_no_unit_before_it_waits_for_an_online_network() -> None:
    """Not the drop-in, and neither Debian's units that the daemon starts after."""
    texts = [DROP_IN.read_text(), *(file.read_text() for file in DEBIAN_UNIT.parent.glob("nfs-ganesha*.service"))]
    texts += [path.read_text() for path in DEBIAN_UNIT.parent.glob("nfs-ganesha*.service.d/*")]
    texts.append((DEBIAN_UNIT.parent / "rpcbind.service").read_text())
    assert len(texts) >= 5 and not any("network-online.target" in text for text in texts)


def test_systemd_refuses_to_reload() -> None:
    """A reload would restore the exports of the daemon's start, which the unit copied to /run."""
    assert settings()["ExecReload"] == [""]


ZFS = """#!/bin/sh
echo "$*" >>"{folder}/recorded"
case "$*" in *hangs/*) trap "" TERM; echo $$ >"{folder}/hangs"; exec sleep 600;; esac
while [ "$1" != -- ]; do shift; done
shift
for name; do printf '%s\\t{guid}\\n' "$name"; done
"""


def path_with_zfs(folder: Path) -> str:
    """PATH with a zfs of the test, for which each dataset has the same GUID."""
    (folder / "bin").mkdir()
    (folder / "bin/zfs").write_text(ZFS.format(folder=folder, guid=GUID))
    (folder / "bin/zfs").chmod(0o755)
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def write_exports(exports: Path, store: Path, elsewhere: Path) -> None:
    """Writes an export that must be served, 1.conf, and seven that must not."""
    source = run("findmnt", "-n", "-o", "SOURCE", "--mountpoint", store).split()[-1]

    def write(number: int, dataset: str, path: Path) -> Path:
        file = exports / f"{number}.conf"
        file.write_text(Export(number, path, f"/{NAMES[number - 1]}", clients=["*"], dataset=dataset, guid=GUID).block())
        return file

    write(1, source, store)
    # Pools that are not imported: with the empty mountpoint folder, and without it.
    (elsewhere / "folder").mkdir()
    write(2, "pool/two", elsewhere / "folder")
    write(3, "pool/three", elsewhere / "nothing")
    # A copy with the original's mountpoint; a file without a dataset; and one with another folder.
    write(4, "pool/four", store)
    write(5, "", store)
    write(6, source, Path("/"))
    # The owner of these files decides what is exported: only root.
    shutil.chown(write(7, source, store), "nobody")
    write(8, source, store).rename(elsewhere / "elsewhere.conf")
    (exports / "8.conf").symlink_to(elsewhere / "elsewhere.conf")


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[socket.socket]:
    """The only DNS server of the daemon, which does not answer."""
    configuration = tmp_path / "resolv.conf"
    configuration.write_text("nameserver 127.0.0.1\n")
    run("mount", "--bind", configuration, "/etc/resolv.conf")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 53))
            yield server
    finally:
        run("umount", "/etc/resolv.conf")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """The process that the unit starts, its folder in /run, and the folder exported as /one."""
    folders = {
        name: tmp_path / name.strip("/").replace("/", "-")
        for name in ("/var/lib/zvaai-nfs", "/run/zvaai-nfs", "/etc/zvaai/exports.d")
    }
    text, vaai_nas = CONFIGURATION.read_text(), VAAI_NAS.read_text()
    for name, folder in folders.items():
        folder.mkdir()
        text, vaai_nas = text.replace(name, str(folder)), vaai_nas.replace(name, str(folder))
    assert '%include "/etc/zvaai/vaai-nas.conf"' in text
    text = text.replace("/etc/zvaai/vaai-nas.conf", str(tmp_path / "vaai-nas.conf"))
    vaai_nas = vaai_nas.replace("/srv/zvaai", str(tmp_path / "store"))
    (tmp_path / "vaai-nas.conf").write_text(vaai_nas.replace("Control_User = zvaai", "Control_User = nobody"))
    modules = tmp_path / "modules"  # a package adds ours to Debian's
    modules.mkdir()
    for module in (*PACKAGED_FSALS.glob("libfsal*.so*"), FSAL_LIBRARY):
        (modules / module.name).symlink_to(module)
    text = text.replace("NFS_CORE_PARAM {", f'NFS_CORE_PARAM {{ Plugins_Dir = "{modules}"; allow_set_io_flusher_fail = true;')
    configuration = tmp_path / "ganesha.conf"
    configuration.write_text(text)
    library = tmp_path / "library"
    shutil.copytree(PATCHED_LIBRARY, library)
    (library / "debian.sha256").write_text(run("sha256sum", *Path("/usr/lib/ganesha").glob("libganesha_nfsd.so.*.*")))
    with mounted_xfs(tmp_path / "store") as store:
        exports = folders["/etc/zvaai/exports.d"]
        write_exports(exports, store, tmp_path)
        places = {
            "/usr/lib/zvaai/mounted_exports.py": MOUNTED_EXPORTS, "/usr/lib/zvaai/choose-library": CHOOSE_LIBRARY,
            "/usr/lib/zvaai/ganesha": library, "/etc/zvaai/exports.d": exports, "/etc/zvaai/ganesha.conf": configuration,
            "/run/zvaai-nfs/exports": folders["/run/zvaai-nfs"] / "exports", "/srv/zvaai": store.parent,
        }  # fmt: skip
        words = settings()["ExecStart"][1].split()
        assert set(places) <= set(words)
        command = ["setpriv", "--no-new-privs", *(str(places.get(word, word)) for word in words)]
        rpcbind = Rpcbind()
        environment = {**os.environ, "BLKID_FILE": str(tmp_path / "blkid.tab"), "PATH": path_with_zfs(tmp_path)}
        # systemd creates the folder of the pid file too.
        Path("/run/ganesha").mkdir(exist_ok=True)
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            yield process, folders["/run/zvaai-nfs"], store
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            rpcbind.stop()


def test_the_started_daemon_serves(resolver: socket.socket, service: tuple[subprocess.Popen[str], Path, Path]) -> None:
    """Without DNS, whose server can be a VM on the export."""
    process, run_folder, store = service
    control = run_folder / "vaai-nas.socket"
    wait_for(lambda: control.is_socket() or process.poll() is not None, "it serves")
    wait_for(lambda: vaai_nas("caps", "127.0.0.1:/one").returncode == 0, "VAAI-NAS answers")
    with mounted("/one") as client:
        client.write_file("/disk", b"d" * (1 << 20))
    with pytest.raises(BlockingIOError):
        resolver.recv(512, socket.MSG_DONTWAIT)
    assert [path.name for path in (run_folder / "exports").iterdir()] == ["1.conf"]
    given = ("--nfs-port", "2049", "--mount-port", "20048")
    assert vaai_nas(*given, "clone", "127.0.0.1:/one", "disk", "copy").returncode == 0
    assert (store / "copy").read_bytes() == b"d" * (1 << 20)
    for missing in ("/two", "/three", "/four", "/five", "/six"):
        with pytest.raises(OSError), mounted(missing):
            pass
    assert stat.S_IMODE(control.stat().st_mode) == 0o600 and control.owner() == "nobody"
    assert ask_control_socket(control, b'{"jsonrpc": "2.0", "id": 1, "method": "statistics.get"}')[0]["result"]["exports"]
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "regular exit" in log, log
    assert log.count("not exported") == 7, log


def test_our_library_is_chosen_for_the_debian_version_that_it_was_built_from(tmp_path: Path) -> None:
    """After an update by Debian, NFS uses Debian's updated library."""
    debian = tmp_path / "libganesha_nfsd.so"
    debian.write_text("6.5-5")
    (tmp_path / "debian.sha256").write_text(run("sha256sum", debian))
    for content, library, said in (("6.5-5", f"{tmp_path}\n", ""), ("6.5-5+deb13u1", "", "VAAI-NAS is off")):
        debian.write_text(content)
        words = [str(CHOOSE_LIBRARY), str(tmp_path), "printenv", "LD_LIBRARY_PATH"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert (done.stdout, said in done.stderr) == (library, True)


def test_a_pool_that_does_not_answer_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    """A query to the pool hangs in the kernel, where no signal ends it; a pool known to be suspended gets no query."""
    exports, to, states = (tmp_path / name for name in ("exports.d", "to", "states"))
    for folder in (exports, states / "suspended", states / "hangs"):
        folder.mkdir(parents=True)
    (states / "suspended/state").write_text("SUSPENDED\n")
    (states / "hangs/state").write_text("ONLINE\n")
    with contextlib.ExitStack() as stack:
        for number, dataset in enumerate(("hangs/a", "suspended/b", "well/c", "well/d", "well/e")):
            place = tmp_path / "mounted" / dataset.rpartition("/")[2]
            place.mkdir(parents=True)
            run("mount", "-t", "tmpfs", dataset, place)
            stack.callback(run, "umount", place)
            guid = GUID + 1 if dataset == "well/e" else GUID
            (exports / f"{number}.conf").write_text(Export(number + 1, place, f"/{number}", dataset=dataset, guid=guid).block())
        environment = {
            **os.environ,
            "PATH": path_with_zfs(tmp_path),
            "ZVAAI_POOL_STATES": str(states),
            "ZVAAI_POOL_SECONDS": "5",
        }
        words = [str(MOUNTED_EXPORTS), str(exports), str(to), str(tmp_path / "mounted")]
        try:
            done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, env=environment)
        finally:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int((tmp_path / "hangs").read_text()), signal.SIGKILL)
    assert sorted(path.name for path in to.iterdir()) == ["2.conf", "3.conf"], done.stderr
    assert done.stderr.count("not exported") == 3, done.stderr
    recorded = sorted((tmp_path / "recorded").read_text().splitlines())
    assert [line.partition(" -- ")[2] for line in recorded] == ["hangs/a", "well/c well/d well/e"], "each pool once"


@contextlib.contextmanager
def of_one(folder: Path) -> Iterator[tuple[Path, Export, Callable[[], tuple[list[str], str]]]]:
    """A folder of exports, a mounted dataset, its export, and a function: the daemon's exports, and messages."""
    exports, to, place = folder / "exports.d", folder / "to", folder / "mounted" / "one"
    exports.mkdir()
    place.mkdir(parents=True)
    clients = ("192.0.2.1", "2001:db8::/32", "@netgroup", "*.example.org")
    export = Export(1, place, "/one", clients=clients, dataset="tank/one", guid=GUID)
    environment = {**os.environ, "PATH": path_with_zfs(folder)}

    def taken() -> tuple[list[str], str]:
        words = [str(MOUNTED_EXPORTS), str(exports), str(to), str(place.parent)]
        messages = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, env=environment).stderr
        return sorted(path.name for path in to.iterdir()), messages

    run("mount", "-t", "tmpfs", export.dataset, place)
    try:
        yield exports, export, taken
    finally:
        run("umount", place)


def test_a_file_names_one_dataset_one_guid_and_one_path(tmp_path: Path) -> None:
    """Other settings may differ: after an upgrade the previous version's files are served while the appliance is down."""
    with of_one(tmp_path) as (exports, export, taken):
        right = export.block()
        dataset, guid, path = (f"  {line}\n" for line in ("# dataset tank/one", f"# guid {GUID}", f'Path = "{export.path}";'))
        assert dataset + guid in right and path in right
        wrong = [right.replace(line, times * line) for line in (dataset, guid, path) for times in (0, 2)]
        wrong += [right + 'EXPORT { Export_Id = 66; path="/"; }\n', right.replace(path, path[:-1] + " Path = /;\n"), ""]
        (exports / "0.conf").write_text(right)
        older = right.replace("  Transports = TCP;\n", "")
        (exports / "00.conf").write_text(older.replace("Protocols = 3, 4", "Protocols = 4, 3"))
        for number, text in enumerate(wrong, 1):
            (exports / f"{number}.conf").write_text(text)
        taken_files, messages = taken()
        assert taken_files == ["0.conf", "00.conf"] and messages.count("does not have one dataset") == len(wrong), messages


@pytest.mark.parametrize("wrong", ["somebody's", "writable", "a link", "a writable file"])
def test_files_writable_by_others_are_not_exported(wrong: str, tmp_path: Path) -> None:
    with of_one(tmp_path) as (exports, export, taken):
        (exports / "1.conf").write_text(export.block())
        assert taken() == (["1.conf"], "")
        if wrong == "somebody's":
            shutil.chown(exports, "nobody")
        elif wrong == "writable":
            exports.chmod(0o775)
        elif wrong == "a link":
            exports.rename(tmp_path / "old")
            exports.symlink_to(tmp_path / "old")
        else:
            (exports / "1.conf").chmod(0o646)
        taken_files, messages = taken()
        assert taken_files == [] and "is not a f" in messages, messages
