# SPDX-License-Identifier: Apache-2.0
"""Permissions to export by ganesha, with the real daemon on a message bus with Debian's policy and ours."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulators.zfs import Simulator
from support.ganesha import Export, mounted_xfs, running_ganesha
from support.message_bus import message_bus
from support.programs import REPOSITORY

from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.helper.checks import Policy
from appliance.helper.exports import CheckedExports
from appliance.helper.tests.served import served
from appliance.zfs.model import VdevSpec

CONFIGURATION = REPOSITORY / "packaging/ganesha/ganesha.conf"
VAAI_NAS = REPOSITORY / "packaging/ganesha/vaai-nas.conf"
POLICY = REPOSITORY / "packaging/dbus/zvaai-nfs.conf"

REQUEST = """
import os, sys
from pathlib import Path
from appliance.dataplane.ganesha import Export, ExportRefusedError, GaneshaDeniedError
from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.dataplane.ganesha_dbus import _EXPORTS as MANAGER
from appliance.helper.client import connect
from appliance.worker.exports import ExportsByHelper

folder, bus, socket, path, guid, outside = sys.argv[1:]
queries = Ganesha(Path(folder), bus)
control = ExportsByHelper(Path(folder), bus, connect(Path(socket)))

def refused(error, call, *arguments):
    before = control.served()
    try:
        call(*arguments)
    except error:
        assert control.served() == before, control.served()
        return
    raise AssertionError(f"{arguments} was done")

# An attacker who controls the worker calls ganesha directly, with a new file.
own = Path("/tmp") / f"of-{os.getpid()}.conf"
own.write_text('EXPORT { Export_Id = 7; Path = "/"; Pseudo = "/all"; Access_Type = RW; FSAL { Name = VFS; } }')
try:
    for method, signature, *arguments in (
        ("AddExport", "ss", str(own), "EXPORT(Export_Id=7)"),
        ("UpdateExport", "ss", str(own), "EXPORT(Export_Id=9)"),
        ("RemoveExport", "q", 9),
    ):
        refused(GaneshaDeniedError, queries._call, MANAGER, method, signature, *arguments)
finally:
    own.unlink()
refused(ExportRefusedError, queries.add, Export(7, Path("/"), "/all"))

# By the helper he gets datastores, and nothing else.
CLIENTS = ("127.0.0.1", "192.0.2.0/24")

def datastore(number=1, dataset="tank/one", of=int(guid), share="/one", clients=CLIENTS):
    return Export(number, Path(path), share, clients=clients, dataset=dataset, guid=of)

for wrong in (
    datastore(of=4711),
    datastore(dataset="tank"),
    datastore(dataset="tank/none"),
    datastore(dataset="tank/outside", of=int(outside)),
    datastore(share='/one"; FSAL { Name = VFS; } Tag = "x'),
    datastore(share="/../one"),
    datastore(clients=["127.0.0.1; } FSAL { Name = VFS; } CLIENT { Clients = 127.0.0.2"]),
    datastore(number=70000),
    datastore(number=9),
):
    refused(ExportRefusedError, control.add, wrong)
refused(ExportRefusedError, control.change, datastore(number=9))
refused(ExportRefusedError, control.remove, 9)

control.add(datastore())
assert [(one.export_id, one.path, one.pseudo) for one in control.served()] == [(1, path, "/one"), (9, "/usr", "/others")]
assert control.files() == {1: datastore().block()} and control.clients().known == ()
others = datastore(clients=["127.0.0.1", "198.51.100.0/24"])
control.change(others)
(served, _) = control.served()
assert served.text == others.block()
assert served.clients == set(others.clients), served.clients
control.remove(1)
assert [one.pseudo for one in control.served()] == ["/others"] and control.files() == {}
print(os.getuid())
"""


@contextlib.contextmanager
def helper_of(exports: Path, bus: str, block: Path, store: Path, user: int) -> Iterator[tuple[Path, int, int]]:
    """The root helper for this user: its socket, and the GUIDs of tank/one (the store) and of tank/outside at /usr."""
    simulator = Simulator()
    simulator.create_pool("tank", [VdevSpec(devices=(simulator.disks()[0].path,))], force=True)
    dataset = simulator.create_filesystem("tank/one", properties={"mountpoint": str(store)})
    outside = simulator.create_filesystem("tank/outside", properties={"mountpoint": "/usr"})
    policy = Policy(mount_directories=(f"{store.parent}/",))
    seen = {str(store): "tank/one", "/usr": "tank/outside"}
    checked = CheckedExports(simulator, Ganesha(exports, bus, block), policy.mount_directories, seen.get)
    path = exports.parent / "helper.sock"
    with served(simulator, path, users={user}, policy=policy, exports=checked):
        path.chmod(0o666)
        yield path, dataset.guid, outside.guid


def test_the_worker_may_query_the_system_bus_and_exports_by_the_helper(tmp_path: Path) -> None:
    """With Debian's policy and ours, and nobody as the worker's user."""
    debian = next(Path("/usr/share/dbus-1/system.d").glob("*ganesha*"), None) or next(
        Path("/etc/dbus-1/system.d").glob("*ganesha*")
    )
    ours = tmp_path / "zvaai-nfs.conf"
    ours.write_text(POLICY.read_text().replace('user="zvaai"', 'user="nobody"'))
    room = Path(tempfile.mkdtemp(dir="/var/tmp"))
    room.chmod(0o755)
    exports, nobody, other = room / "exports.d", 65534, 2
    exports.mkdir()
    shutil.copytree(REPOSITORY / "appliance", room / "lib/appliance", ignore=shutil.ignore_patterns("tests", "*.pyc.*"))

    def call(user: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        settings = {**os.environ, "PYTHONPATH": str(room / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
        words = [*as_user, "python3", "-c", REQUEST, str(exports), *arguments]
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, env=settings, cwd="/")

    try:
        with mounted_xfs(tmp_path / "store") as store, message_bus(room / "bus", debian, ours) as bus:
            (room / "bus" / "socket").chmod(0o666)
            # As configured, the daemon starts without exports: the first one brings the configuration of FSAL_ZVAAI.
            block = tmp_path / "vaai-nas.conf"
            socket = tmp_path / "vaai-nas.socket"
            text = VAAI_NAS.read_text().replace("/run/zvaai-nfs/vaai-nas.socket", str(socket)).replace("= zvaai;", "= nobody;")
            block.write_text(text.replace("/srv/zvaai", str(store.parent)))
            listed = re.findall(r"^FSAL_LIST \{.*?^\}", CONFIGURATION.read_text(), re.MULTILINE | re.DOTALL)[0]
            blocks = f'{listed}\n%include "{block}"\n'
            others = [Export(9, Path("/usr"), "/others", fsal="VFS", access="RO")]
            environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
            with (
                running_ganesha(tmp_path / "ganesha", others, environment=environment, blocks=blocks),
                helper_of(exports, bus, block, store, nobody) as (helper, dataset, outside),
            ):
                words = (bus, str(helper), str(store), str(dataset), str(outside))
                done = call(nobody, *words)
                assert (done.returncode, done.stdout) == (0, "65534\n"), done.stderr
                done = call(other, *words)
                assert done.returncode != 0 and "GaneshaDeniedError" in done.stderr, done.stderr
    finally:
        shutil.rmtree(room)
