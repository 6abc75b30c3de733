# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/guide.md and docs/install.md, on a Debian 13 that systemd booted.

The tests follow the pages and depend on each other. Commands for ESXi hosts are not among them.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from machine import CommandError, Machine
from support import releases
from support.authority import Authority, pem_of
from support.guide import Guide
from support.programs import wait_for
from support.storage_server import (
    ADDRESS,
    HOST_ADDRESS,
    INITIATOR,
    PASSWORD,
    FirstStart,
    MachineMaker,
    Writers,
    duplicate,
    failed_units,
    properties,
    versions,
)

GUIDE = Guide("docs/guide.md", "docs/install.md")
CONTRIB = r"find /etc/apt -name sources.list -o -name debian.sources | xargs sed -i '/ contrib/!s/ main\b/ main contrib/'"
ELSEWHERE = {
    "wget -O /etc/apt/sources.list.d/zvaai.sources https://REPOSITORY/zvaai.sources": "conftest.py, installed",
    CONTRIB: "conftest.py, installed",
    "apt update && apt install zvaai-standalone": "conftest.py, installed",
    "apt install certbot": "test_acme.py",
    "certbot certonly --standalone -d storage.example.com --deploy-hook /usr/lib/zvaai/certbot-deploy": "test_acme.py",
    "certbot renew --dry-run": "test_acme.py",
    "zvaai power show": "test_install.py",
    "zvaai power reboot": "test_install.py",
    "systemctl restart rsyslog": "test_neighbours.py",
    "systemctl restart nut-monitor": "test_neighbours.py",
}
"""Commands that other tests of this folder run."""
UNTRIED = {
    "apt install dkms mokutil && dkms generate_mok && mokutil --import /var/lib/dkms/mok.pub": "for servers with Secure Boot",
    "systemctl disable --now nfs-server": "for servers that share files by Linux's NFS server",
    "systemctl enable --now nfs-server": "the same, after the removal",
    "zpool attach tank raidz1-0 /dev/disk/by-id/NEW_DISK": "for raidz; the pool of these tests has mirrors",
    "zpool remove tank mirror-1": "a task of OpenZFS; later tests need both mirrors",
    "zpool import -N -o readonly=on POOL": "for damaged pools",
    "zvaai datastore adopt tank/REPLICA vmfs1 --keep-identity --wait": "for replicas; test_replica.py adopts one in a guest",
    "systemctl mask nginx": "for servers without IPv6; the page says that it was not tried",
}
"""Commands that no test runs, and why."""
DATA_DISKS = 6
DISKS = [f"/dev/disk/by-id/rig-ubd{letter}" for letter in "bcdefg"]
RECEIVER_NAME = "receiver.example"
RECEIVER = """
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open(sys.argv[3], "wb").write(body)
        self.send_response(204)
        self.end_headers()
server = http.server.HTTPServer((sys.argv[1], 443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
"""
KNOWN: dict[str, str] = {}
"""Secrets that a command printed and a later one needs."""


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, scratch: Path, installed: FirstStart, site: Path) -> Iterator[Machine]:
    """Installed, and not set up."""
    duplicate(installed.folder, scratch / "guide")
    with machine_of("guide", site, DATA_DISKS) as machine:
        machine.wait_for_boot()
        yield machine


@pytest.fixture(scope="module")
def replacement(machine_of: MachineMaker, scratch: Path, installed: FirstStart, server: Machine) -> Iterator[Machine]:
    """A new server with the data disks of the other one, which is off from now on."""
    server.power_off()
    duplicate(installed.folder, scratch / "replacement")
    for number in range(DATA_DISKS):
        (server.folder / f"data{number}").rename(scratch / f"replacement/data{number}")
    with machine_of("replacement", data_disks=DATA_DISKS) as machine:
        machine.wait_for_boot()
        # Another installation, as a new server is one: the duplicated disk has the database of the first.
        units = "zvaai-worker zvaai-api.socket zvaai-api"
        machine.run(f"systemctl stop {units} && rm -r /var/lib/zvaai/* && systemctl start {units} && zvaai setup", 300)
        yield machine


def zvaai(server: Machine, *words: str) -> Any:
    return json.loads(server.run(f"zvaai --output json {shlex.join(words)}", 180))


def fingerprint(server: Machine) -> str:
    shown = GUIDE.run(server, "journalctl -u zvaai-frontend | grep -i fingerprint")
    return str(re.findall(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", shown)[-1])


def log_in(server: Machine, password: str = PASSWORD) -> None:
    GUIDE.run(
        server,
        "zvaai login https://SERVER:8443 --user admin",
        {"SERVER": "localhost"},
        f"--fingerprint {fingerprint(server)}",
        password,
    )


def hosts_write(server: Machine) -> Writers:
    """An iSCSI and an NFSv3 host have written, and all of it is there."""
    with Writers(server) as writers:
        writers.wait_for_more()
    writers.verify(server)
    return writers


def test_log_in(server: Machine) -> None:
    shown = GUIDE.run(server, "zvaai setup")
    code = re.search(r"One-time code: +(\S+)", shown)
    assert code, shown
    names = {"SERVER": "localhost", "FINGERPRINT": fingerprint(server)}
    first = "zvaai login https://SERVER:8443 --user admin --setup-code --fingerprint FINGERPRINT"
    assert "recovery key: " in GUIDE.run(server, first, names, typed=f"{code[1]}\n{PASSWORD}")
    log_in(server)
    assert "target    ok" in GUIDE.run(server, "zvaai status", check=False)
    GUIDE.run(server, "zvaai user create olga --role operator", typed=PASSWORD)
    assert {user["name"]: user["role"] for user in zvaai(server, "user", "list")}["olga"] == "operator"


def test_create_a_pool(server: Machine) -> None:
    listed = GUIDE.run(server, "zvaai pool disks")
    assert all(Path(disk).name in listed for disk in DISKS), listed
    names = {"/dev/disk/by-id/DISK1": DISKS[0], "/dev/disk/by-id/DISK2": DISKS[1]}
    create = "zvaai pool create tank mirror /dev/disk/by-id/DISK1 /dev/disk/by-id/DISK2"
    assert "mirror" in GUIDE.run(server, f"{create} --dry-run", names)
    assert "no pools" in server.run("zpool list 2>&1")
    GUIDE.run(server, f"{create} --wait", names)
    assert "mirror-0" in GUIDE.run(server, "zpool status")


def test_connect_a_host_and_create_datastores(server: Machine) -> None:
    """Then an iSCSI and an NFSv3 host write."""
    GUIDE.run(server, "zvaai group create cluster")
    create = "zvaai host create esx1 --iqn iqn.1998-01.com.vmware:esx1 --address 192.0.2.11 --group cluster"
    GUIDE.run(server, create, {"iqn.1998-01.com.vmware:esx1": INITIATOR, "192.0.2.11": HOST_ADDRESS})
    GUIDE.run(server, "zvaai network ping esx1")
    GUIDE.run(server, "zvaai datastore create vmfs1 --pool tank --size 2T --group cluster --wait")
    GUIDE.run(server, "zvaai datastore create nfs1 --kind nfs --pool tank --size 4T --group cluster --wait")
    assert "/nfs1" in GUIDE.run(server, "zvaai readiness", check=False)
    with Writers(server) as writers:
        assert "esx1" in GUIDE.run(server, "zvaai host sessions")
        writers.wait_for_more()
    writers.verify(server)
    assert HOST_ADDRESS in GUIDE.run(server, "zvaai host nfs-clients")
    GUIDE.run(server, "zvaai host change esx1 --add-address ADDRESS", {"ADDRESS": "192.0.2.12"})
    # For 90 s after a start of the NFS server each address counts as a user.
    remove = "zvaai host change esx1 --remove-address 192.0.2.12"
    wait_for(lambda: "would lose" not in server.run(remove, 60, check=False), "the address is removed")
    GUIDE.run(server, "zvaai host unknown")
    for option in ("--add-iqn", "--remove-iqn"):
        GUIDE.run(server, f"zvaai host change esx1 {option} IQN", {"IQN": "iqn.1998-01.com.vmware:former"})
    GUIDE.run(server, "zvaai host change esx1 --group GROUP", {"GROUP": "cluster"})
    server.run("zvaai host create retired --address 192.0.2.99", 60)
    GUIDE.run(server, "zvaai host delete NAME", {"NAME": "retired"})
    assert [host["name"] for host in zvaai(server, "host", "list")] == ["esx1"]


def test_grow(server: Machine) -> None:
    GUIDE.run(server, "zvaai datastore grow vmfs1 3T --wait")
    GUIDE.run(server, "zvaai datastore quota nfs1 6T --wait")
    datasets = {row["name"]: row["dataset"] for row in zvaai(server, "datastore", "list")}
    assert server.run(f"zfs get -Hpo value volsize {datasets['vmfs1']}").strip() == str(3 << 40)
    assert server.run(f"zfs get -Hpo value refquota {datasets['nfs1']}").strip() == str(6 << 40)


def folder_of_nfs1(server: Machine) -> str:
    [dataset] = [store["dataset"] for store in zvaai(server, "datastore", "list") if store["name"] == "nfs1"]
    return server.run(f"zfs get -Ho value mountpoint {dataset}").strip()


def test_snapshots_and_schedules(server: Machine) -> None:
    folder = folder_of_nfs1(server)
    server.run(f"mkdir {folder}/web && echo before >{folder}/web/web.vmx")
    server.run(f"head -c 1M /dev/urandom >{folder}/web/web-flat.vmdk")
    zone = "--time-zone Europe/Berlin"
    GUIDE.run(server, f"zvaai schedule create hourly vmfs1 nfs1 --every 1h --tiers {zone}")
    GUIDE.run(server, f"zvaai schedule create nightly vmfs1 --every 1d --at 22:00 {zone} --daily 30 --protect 7d")
    GUIDE.run(server, f"zvaai schedule scrub monthly tank --every 28d --at 02:00 {zone}")
    GUIDE.run(server, "zfs set org.debian:periodic-scrub=disable tank")
    assert "22:00" in GUIDE.run(server, "zvaai schedule show nightly")
    GUIDE.run(server, "zvaai schedule change hourly --disable")
    GUIDE.run(server, "zvaai schedule change hourly --enable")
    # Protected snapshots refuse a rollback to an older one.
    wait_for(lambda: "@nightly" in server.run("zfs list -Ht snapshot -o name"), "the first snapshot of the schedule")
    GUIDE.run(server, "zvaai snapshot create before-update vmfs1 nfs1 --wait")
    GUIDE.run(server, "zvaai snapshot hold vmfs1 before-update audit --wait")
    assert server.run("zfs list -Ht snapshot -o name,userrefs | grep '@before-update'").split()[1::2].count("1") == 1
    assert "audit" in GUIDE.run(server, "zvaai snapshot holds vmfs1 before-update")
    GUIDE.run(server, "zvaai snapshot release vmfs1 before-update audit --wait")
    assert "audit" not in server.run("zvaai snapshot holds vmfs1 before-update", 60)


def test_restore(server: Machine) -> None:
    """A VM, a clone, a whole datastore, a deleted one."""
    folder = folder_of_nfs1(server)
    server.run(f"echo after >{folder}/web/web.vmx")
    assert "web" in GUIDE.run(server, "zvaai file browse nfs1 before-update")
    GUIDE.run(server, "zvaai file restore-vm nfs1 before-update web web-restored --wait")
    assert server.run(f"head -1 {folder}/web-restored/*.vmx").strip() == "before"
    server.run(f"cmp {folder}/web-restored/*-flat.vmdk {folder}/web/web-flat.vmdk")
    clone = "zvaai datastore clone vmfs1 vmfs1-restored --snapshot before-update --group cluster --wait"
    GUIDE.run(server, clone)
    volumes = {row["name"]: f"/dev/zvol/{row['dataset']}" for row in zvaai(server, "datastore", "list")}
    server.run(f"cmp --bytes=8M {volumes['vmfs1']} {volumes['vmfs1-restored']}")
    before = server.run(f"head -c 8M {volumes['vmfs1']} | sha256sum")
    with Writers(server):  # at first they write the same blocks as in earlier tests
        wait_for(lambda: server.run(f"head -c 8M {volumes['vmfs1']} | sha256sum") != before, "new data", 600)
    wait_for(lambda: not zvaai(server, "host", "sessions"), "the host has logged out")
    GUIDE.run(server, "zvaai snapshot rollback vmfs1 before-update --wait")
    assert server.run(f"head -c 8M {volumes['vmfs1']} | sha256sum") == before
    GUIDE.run(server, "zvaai datastore promote vmfs1-restored --wait")
    server.run("zvaai datastore delete vmfs1 --yes --wait", 180)
    GUIDE.run(server, "zvaai datastore restore vmfs1 --wait")
    assert server.run(f"head -c 8M {volumes['vmfs1']} | sha256sum") == before
    hosts_write(server)


def vdevs(server: Machine) -> str:
    return server.run("zpool status -P tank")


def test_replace_a_disk(server: Machine) -> None:
    assert "ONLINE" in GUIDE.run(server, "zvaai pool show tank")
    GUIDE.run(server, "zvaai pool device tank OLD_DISK offline --wait", {"OLD_DISK": DISKS[0]})
    assert "OFFLINE" in vdevs(server)
    names = {"OLD_DISK": DISKS[0], "/dev/disk/by-id/NEW_DISK": DISKS[2]}
    GUIDE.run(server, "zvaai pool replace tank OLD_DISK /dev/disk/by-id/NEW_DISK --wait", names)
    wait_for(lambda: "ubdb" not in vdevs(server), "the old disk has left the pool")
    attach = "zvaai pool attach tank DISK /dev/disk/by-id/NEW_DISK --wait"
    GUIDE.run(server, attach, {" DISK ": f" {DISKS[1]} ", "/dev/disk/by-id/NEW_DISK": DISKS[3]})
    assert "resilver" in GUIDE.run(server, "zpool status tank")
    wait_for(lambda: "resilvered" in vdevs(server) and "in progress" not in vdevs(server), "the resilver has ended")
    assert all(Path(disk).name in vdevs(server) for disk in DISKS[1:4])
    GUIDE.run(server, "zvaai pool device tank OLD_DISK clear --wait", {"OLD_DISK": DISKS[1]})
    server.run(f"zvaai pool detach tank {DISKS[1]} --yes --wait", 180)  # for another mirror of two


def test_free_space(server: Machine) -> None:
    server.run("zvaai snapshot create spare vmfs1 --wait && zvaai datastore create retired --pool tank --size 1G --wait", 300)
    GUIDE.run(server, "zvaai datastore change vmfs1 --add-group cluster --wait", {"vmfs1": "retired"})
    [groups] = [row["host_groups"] for row in zvaai(server, "datastore", "list") if row["name"] == "retired"]
    assert len(groups) == 1
    GUIDE.run(server, "zvaai datastore delete NAME --wait", {"NAME": "retired"}, "--force")
    assert "spare" in GUIDE.run(server, "zvaai snapshot list vmfs1")
    assert "nfs1" in GUIDE.run(server, "zvaai datastore list")
    GUIDE.run(server, "zvaai snapshot delete vmfs1 NAME --wait", {"NAME": "spare"})
    GUIDE.run(server, "zvaai datastore purge NAME --wait", {"NAME": "retired"})
    left = server.run("zfs list -Ht all -o name,zvaai:name")
    assert "spare" not in left and "retired" not in left
    extend = "zvaai pool extend tank mirror /dev/disk/by-id/DISK3 /dev/disk/by-id/DISK4 --wait"
    GUIDE.run(server, extend, {"/dev/disk/by-id/DISK3": DISKS[4], "/dev/disk/by-id/DISK4": DISKS[5]})
    assert "mirror-1" in vdevs(server)
    log = "zvaai pool extend tank log mirror /dev/disk/by-id/SSD1 /dev/disk/by-id/SSD2 --wait"
    names = {"/dev/disk/by-id/SSD1": DISKS[0], "/dev/disk/by-id/SSD2": DISKS[1]}
    assert "logs" in GUIDE.run(server, log, names, "--force --dry-run")  # a spare needs the second disk
    spare = "zvaai pool extend tank spare /dev/disk/by-id/DISK --wait"
    GUIDE.run(server, spare, {"/dev/disk/by-id/DISK": DISKS[1]}, "--force")  # it has the partitions of its earlier use
    assert "AVAIL" in vdevs(server)
    GUIDE.run(server, "zpool set autotrim=on tank")
    assert server.run("zpool get -Ho value autotrim tank").strip() == "on"
    GUIDE.run(server, "zvaai pool change tank --warning 70 --critical 85 --wait")
    assert " 70" in server.run("zvaai pool show tank")


def test_encrypt(server: Machine) -> None:
    GUIDE.run(server, "zvaai datastore create secret --pool tank --size 2T --group cluster --encrypted --wait")
    KNOWN["pool key"] = GUIDE.run(server, "zvaai key export tank", typed=PASSWORD).strip()
    GUIDE.run(server, "zvaai key confirm tank", typed=KNOWN["pool key"])
    [key] = zvaai(server, "key", "list")
    assert key["confirmed_at"] and key["pool"] == "tank"


def test_an_alert_reaches_its_receiver(server: Machine) -> None:
    authority, key, received = Authority(), ec.generate_private_key(ec.SECP256R1()), server.folder / "alert.json"
    (server.folder / "receiver.pem").write_text(authority.sign(key, RECEIVER_NAME) + pem_of(key))
    server.run(f"echo {HOST_ADDRESS} {RECEIVER_NAME} >>/etc/hosts")
    server.run(f"cat >/root/authority.pem <<'END'\n{authority.certificate}END")
    create = f"zvaai receiver create pager https://{RECEIVER_NAME}/hook --severity warning"
    GUIDE.run(server, create, more="--certificate authority.pem")
    words = server.in_network(sys.executable, "-c", RECEIVER, HOST_ADDRESS, server.folder / "receiver.pem", received)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as receiver:
        try:
            assert receiver.stdout is not None and receiver.stdout.readline() == b"ready\n"
            GUIDE.run(server, "zvaai receiver test pager")
        finally:
            receiver.kill()
    assert json.loads(received.read_text())


def test_find_the_cause_of_a_problem(server: Machine) -> None:
    shown = {
        "zvaai host list": "esx1", "zvaai group show cluster": "vmfs1", "zvaai datastore show vmfs1": "vmfs1",
        "zvaai pool list": "tank",
        "systemctl status zvaai-target": "active (running)", "zvaai logs --priority warning": "", "zvaai offloads": "",
        "zvaai job list": "secret", "zvaai datastore load": "vmfs1", "zvaai datastore history vmfs1 --range hour": "P99",
        "zvaai host history esx1 --range hour": "P99", "zpool iostat -vly tank 10 1": "mirror-0", "ip -s link": "dropped",
        "nstat -az TcpRetransSegs": "TcpRetransSegs",
    }  # fmt: skip
    for command, text in shown.items():
        assert text in GUIDE.run(server, command), command
    GUIDE.run(server, "zvaai pool scrub tank pause", check=False)  # refused while none runs
    GUIDE.run(server, "zvaai group change cluster --disable extended_copy")
    assert "extended_copy" in server.run("zvaai group list")
    server.run("zvaai group change cluster --enable extended_copy", 60)
    job = zvaai(server, "job", "list")[0]["id"]
    assert job in GUIDE.run(server, "zvaai job show ID", {"ID": job})
    GUIDE.run(server, "zvaai support create bundle.tar.gz")
    assert "zvaai-support/target.json" in server.run("tar -tzf /root/bundle.tar.gz")
    for unit in ("zvaai-target", "zvaai-worker", "zvaai-api", "zvaai-helper", "nfs-ganesha"):
        log = server.run(f"tar -xOzf /root/bundle.tar.gz zvaai-support/logs/{unit}.jsonl")
        assert '"unit": "' + unit + '"' in log, unit
    GUIDE.run(server, "zvaai setup --reset-administrator admin", typed="battery staple 8")
    log_in(server, "battery staple 8")


def test_set_up_by_a_seed_file(server: Machine) -> None:
    """What is there does not change."""
    seed = '[administrator]\npassword = "battery staple 8"\n[[groups]]\nname = "second"\n'
    server.run(f"umask 077; cat >/root/seed.toml <<'END'\n{seed}END")
    GUIDE.run(server, "zvaai setup --seed FILE", {"FILE": "seed.toml"})
    server.run("test ! -e /root/seed.toml")
    assert {group["name"] for group in zvaai(server, "group", "list")} == {"cluster", "second"}


def issuer(server: Machine) -> str:
    """Who has signed the certificate that the console has."""
    return server.run("openssl s_client -connect localhost:8443 </dev/null 2>/dev/null | openssl x509 -noout -issuer")


def test_change_an_address(server: Machine) -> None:
    """The portal at every address becomes one at a single address. Hosts write by it."""
    names = {"OLD": "0.0.0.0", "NEW": ADDRESS}
    GUIDE.run(server, "zvaai portal change OLD:3260 --address NEW:3260 --force", names)
    assert [portal["address"] for portal in zvaai(server, "portal", "list")] == [f"{ADDRESS}:3260"]
    hosts_write(server)
    zvaai(server, "portal", "change", f"{ADDRESS}:3260", "--address", "0.0.0.0:3260", "--force")


def test_certificates(server: Machine) -> None:
    """An uploaded one is served, then the appliance's own again."""
    authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
    server.run(f"cat >/root/chain.pem <<'END'\n{authority.sign(key, 'storage.example.com')}{authority.certificate}END")
    server.run(f"umask 077; cat >/root/key.pem <<'END'\n{pem_of(key)}END")

    GUIDE.run(server, "zvaai certificate upload chain.pem key.pem")
    wait_for(lambda: "authority" in issuer(server), "the uploaded certificate is served")
    GUIDE.run(server, "rm /var/lib/zvaai-frontend/certificate.pem && systemctl reload zvaai-frontend")
    wait_for(lambda: "authority" not in issuer(server), "the appliance's own certificate is served")
    log_in(server, "battery staple 8")


def test_upgrade_and_return(server: Machine, site: Path) -> None:
    built = releases.version_of(site)
    releases.publish(site, f"{built}+1")
    GUIDE.run(server, "apt update")
    assert f"zvaai: {built} -> {built}+1" in GUIDE.run(server, "zvaai upgrade --check")
    updates = GUIDE.run(server, "zvaai updates --notes")
    assert f"zvaai: {built} -> {built}+1" in updates and "\n## " in updates, updates
    GUIDE.run(server, "apt upgrade", more="-y", seconds=900)
    assert versions(server)["zvaai"] == f"{built}+1 installed"
    GUIDE.run(server, "zvaai pool upgrade tank --wait")
    back = "apt install --allow-downgrades zvaai=VERSION zvaai-target=VERSION zvaai-nfs=VERSION"
    GUIDE.run(server, back, {"VERSION": built}, "-y", seconds=900)
    GUIDE.run(server, "apt-mark hold zvaai zvaai-target zvaai-nfs")
    assert "zvaai" in server.run("apt-get -s upgrade | sed -n '/kept back/,$p'")
    server.run("apt-mark unhold zvaai zvaai-target zvaai-nfs")
    assert versions(server)["zvaai"] == f"{built} installed" and failed_units(server) == []


def pool_has_configuration(server: Machine) -> bool:
    recovery = zvaai(server, "recover")
    return [copy["generation"] for copy in recovery["copies"] if copy["this_installation"]] == [recovery["generation"]]


def exported(server: Machine) -> bool:
    """Whether the pool could be exported. It is refused while a host uses the pool."""
    try:
        GUIDE.run(server, "zvaai pool export tank --wait")
    except CommandError as error:
        assert "are logged in" in str(error)
        return False
    return True


def test_move_the_pool_to_a_new_server(server: Machine) -> None:
    """The configuration is backed up, and the pool exported. The old server can forget its datastores."""
    KNOWN["recovery key"] = server.run("zvaai configuration recovery-key", 60).strip()
    GUIDE.run(server, "zvaai configuration backup site.json", typed="battery staple 8")
    KNOWN["backup"] = server.run("cat /root/site.json")
    hosts_write(server)
    wait_for(lambda: pool_has_configuration(server), "the pool has the configuration")
    wait_for(lambda: exported(server), "no host uses the pool")  # an NFSv3 host does for 90 s
    assert "no pools" in server.run("zpool list 2>&1")
    wait_for(lambda: "missing" in GUIDE.run(server, "zvaai datastore list --state missing"), "the datastores are missing")
    missing = [store["name"] for store in zvaai(server, "datastore", "list", "--state", "missing")]
    GUIDE.run(server, "zvaai datastore forget NAME --wait", {"NAME": missing[0]})
    left = [store["name"] for store in zvaai(server, "datastore", "list", "--state", "missing")]
    assert left == missing[1:]


def test_replace_a_lost_server(server: Machine, replacement: Machine) -> None:
    """Datastores return with identity, LUN number and hosts; what hosts wrote before is there."""
    more = f"--fingerprint {fingerprint(replacement)}"
    code = replacement.run("cat /var/lib/zvaai/setup-code").strip()
    GUIDE.run(replacement, "zvaai login https://localhost:8443 --setup-code", more=more, typed=f"{code}\n{PASSWORD}")
    assert "its key is not loaded" in GUIDE.run(replacement, "zvaai pool import tank --wait", check=False)
    replacement.run(f"umask 077; cat >/root/site.json <<'END'\n{KNOWN['backup']}\nEND")
    from_file = "zvaai recover --file site.json --recovery-key"
    assert "nothing was changed" in GUIDE.run(replacement, from_file, more="--dry-run", typed=KNOWN["recovery key"])
    GUIDE.run(replacement, "zvaai recover --from tank --recovery-key", typed=KNOWN["recovery key"])
    GUIDE.run(replacement, "zvaai key enter tank", typed=KNOWN["pool key"])
    assert {row["name"] for row in zvaai(replacement, "datastore", "list")} == {"vmfs1", "vmfs1-restored", "nfs1", "secret"}
    written = Writers(server)  # its reports are in the folder of the lost server
    wait_for(lambda: "vmfs1" in replacement.run("zvaai readiness", 60, check=False), "the datastores are served")
    written.verify(replacement)
    hosts_write(replacement)


def test_leave_recovery_mode(replacement: Machine) -> None:
    """After an older database was restored: once with the pool's configuration, once with the database."""
    database, older = "/var/lib/zvaai/appliance.sqlite", "/root/older.sqlite"
    stop = "systemctl stop zvaai-api.socket zvaai-api zvaai-worker"
    start = "systemctl start zvaai-worker zvaai-api.socket zvaai-api && zvaai setup"
    for name, command in (("taken", "zvaai recover --from tank"), ("dropped", "zvaai recover --keep")):
        replacement.run(f"{stop} && cp -a {database} {older} && {start}", 300)
        wait_for(lambda: pool_has_configuration(replacement), "the pool has the configuration")
        replacement.run(f"zvaai group create {name}", 60)
        wait_for(lambda: pool_has_configuration(replacement), "the pool has the group")
        replacement.run(f"{stop} && rm -f {database}-wal {database}-shm && cp -a {older} {database} && {start}", 300)
        wait_for(lambda: "recovery mode: " in replacement.run("zvaai recover", 60), "recovery mode")
        assert "suggested: zvaai recover --from tank" in GUIDE.run(replacement, "zvaai recover")
        GUIDE.run(replacement, command)
        assert "not in recovery mode" in GUIDE.run(replacement, "zvaai recover")
    assert {"taken", "dropped"} & {group["name"] for group in zvaai(replacement, "group", "list")} == {"taken"}


def test_replace_a_damaged_database(replacement: Machine) -> None:
    """The pool's copy is opened with the server's key, which stays."""

    def names() -> list[list[str]]:
        return [sorted(row["name"] for row in zvaai(replacement, noun, "list")) for noun in ("datastore", "group", "host")]

    wait_for(lambda: pool_has_configuration(replacement), "the pool has the configuration")
    before = names()
    GUIDE.run(replacement, "systemctl stop zvaai-api.socket zvaai-api zvaai-worker")
    GUIDE.run(replacement, "mkdir /root/damaged && mv /var/lib/zvaai/appliance.sqlite* /root/damaged")
    GUIDE.run(replacement, "systemctl start zvaai-worker zvaai-api.socket zvaai-api")
    code = re.search(r"One-time code: +(\S+)", GUIDE.run(replacement, "zvaai setup"))
    assert code
    more = f"--fingerprint {fingerprint(replacement)}"
    GUIDE.run(replacement, "zvaai login https://localhost:8443 --setup-code", more=more, typed=f"{code[1]}\n{PASSWORD}")
    GUIDE.run(replacement, "zvaai recover --from tank")
    assert names() == before


def test_remove(replacement: Machine) -> None:
    """Pools and keys of encrypted datastores stay. No unit fails."""
    replacement.run("mkdir -p /var/backups/zvaai/made-by-an-upgrade")
    names = {"'zvaai*'": "'zvaai*' zvaai-rig+"}  # zvaai-rig has the modules of this kernel
    GUIDE.run(replacement, "apt purge 'zvaai*'", names, "-y", seconds=600)
    assert "tank" in replacement.run("zpool list") and "vmfs1" in replacement.run("zfs list -o zvaai:name -t volume")
    assert replacement.run(
        "cd / && ls -d var/lib/zvaai* var/backups/zvaai etc/zvaai run/zvaai-target 2>/dev/null", check=False
    ).split() == ["var/lib/zvaai-helper"]
    assert replacement.run("ls /var/lib/zvaai-helper/*.key")
    assert properties(replacement, "nfs-ganesha", "ExecStart")["ExecStart"].find("/etc/zvaai") == -1
    assert [unit for unit in failed_units(replacement) if "zvaai" in unit] == []


def test_every_command_was_run(request: pytest.FixtureRequest) -> None:
    chosen = {item.name for item in request.session.items if item.path == request.node.path}
    if chosen != {name for name in globals() if name.startswith("test_")}:
        pytest.skip("only some tests ran")
    assert set(ELSEWHERE | UNTRIED) <= GUIDE.commands
    assert GUIDE.commands - GUIDE.ran - set(ELSEWHERE | UNTRIED) == set()
