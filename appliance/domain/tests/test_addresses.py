# SPDX-License-Identifier: Apache-2.0
"""By which addresses hosts reach this server, and over how many interfaces."""

import ipaddress
import json
import subprocess
import time
from pathlib import Path

import pytest

from appliance.domain import addresses
from appliance.domain.addresses import Address, local_addresses, nearest, obstacle, paths, reachable, split_portal

ADDRESSES = [
    Address("eth0", "192.0.2.2"),
    Address("eth1", "198.51.100.2"),
    Address("eth1", "198.51.100.3"),
    Address("eth0", "2001:db8::2"),
    Address("docker0", "172.17.0.1", "172.17.0.0/16", internal=True),
]


def test_the_kernel_says_the_same_as_ip() -> None:
    """Tests run in a separate network namespace: addresses are added to its loopback interface, its only interface."""
    added = ("192.0.2.77/32", "192.0.2.78/32", "2001:db8::77/128")
    try:
        for address in added:
            subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=True)
        links = json.loads(subprocess.run(["ip", "-j", "address"], check=True, capture_output=True).stdout)
        expected = {
            (link["ifname"], address["local"], str(ipaddress.ip_interface(f"{address['local']}/{address['prefixlen']}").network))
            for link in links for address in link["addr_info"] if address["scope"] == "global"
        }  # fmt: skip
        assert {(address.interface, address.address, address.network) for address in local_addresses()} == expected
        assert expected >= {("lo", address.partition("/")[0], address) for address in added}
    finally:
        for address in added:
            subprocess.run(["ip", "address", "delete", address, "dev", "lo"], check=False)


def test_a_bridge_of_containers_is_internal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders as /sys/class/net has them: network cards have a device, VLANs and bonds lower interfaces, containers neither."""
    members = {"docker0": "veth1", "vmbr0": "eno1", "vmbr1": "bond0", "virbr0": None}
    for bridge, member in members.items():
        (tmp_path / bridge / "bridge").mkdir(parents=True)
        (tmp_path / bridge / "brif").mkdir()
        if member:
            (tmp_path / bridge / "brif" / member).mkdir()
    for folder in ("veth1", "eno1/device", "bond0/lower_eno2", "eno2/device"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(addresses, "_INTERFACES", tmp_path)
    for number, name in enumerate([*members, "eno2"]):
        monkeypatch.setattr(addresses, "_ipv4", lambda name=name, number=number: [Address(name, f"192.0.2.{number + 1}")])
        (shown,) = (address for address in local_addresses() if address.interface == name)
        assert shown.internal == (name in ("docker0", "virbr0")), name


@pytest.mark.parametrize(
    ("portals", "hosts_use", "count"),
    [
        (["0.0.0.0:3260"], ["192.0.2.2:3260", "198.51.100.2:3260", "198.51.100.3:3260"], 2),
        (["192.0.2.2:3260"], ["192.0.2.2:3260"], 1),
        (["172.17.0.1:3260"], ["172.17.0.1:3260"], 1),
        (["198.51.100.2:3260", "198.51.100.3:3261"], ["198.51.100.2:3260", "198.51.100.3:3261"], 1),
        (["127.0.0.1:3260", "[::1]:3260"], [], 0),
        (["[::]:3260", "192.0.2.2:3260"], ["[2001:db8::2]:3260", "192.0.2.2:3260"], 1),
        (["203.0.113.9:3260", "192.0.2.2:3260"], ["203.0.113.9:3260", "192.0.2.2:3260"], 1),
    ],
)
def test_portals_as_hosts_use_them(portals: list[str], hosts_use: list[str], count: int) -> None:
    assert (reachable(portals, ADDRESSES), paths(portals, ADDRESSES)) == (hosts_use, count)


@pytest.mark.parametrize(
    ("local", "count"),
    [
        ([Address("eth0", "192.0.2.2", "192.0.2.0/24"), Address("eth1", "192.0.2.3", "192.0.2.0/24")], 1),
        ([Address("eth0", "192.0.2.2", "192.0.2.0/24"), Address("eth0", "198.51.100.2", "198.51.100.0/24")], 1),
        ([Address("eth0", "192.0.2.2", "192.0.2.0/24"), Address("eth1", "198.51.100.2", "198.51.100.0/24")], 2),
    ],
)
def test_paths_need_interfaces_in_separate_networks(local: list[Address], count: int) -> None:
    assert paths([f"{address.address}:3260" for address in local], local) == count


def test_a_portal_needs_its_address_and_a_link() -> None:
    local = [Address("eth0", "192.0.2.2"), Address("eth1", "198.51.100.2", linked=False)]
    assert paths(["192.0.2.2:3260", "198.51.100.2:3260"], local) == paths(["0.0.0.0:3260"], local) == 1
    free = ("192.0.2.2:3260", "0.0.0.0:3260", "[::]:3260", "127.0.0.1:3260", "169.254.3.1:3260", "[fe80::1%2]:3260")
    assert [obstacle(portal, local) for portal in free] == [""] * 6
    assert obstacle("198.51.100.2:3260", local) == "its network interface eth1 has no link"
    assert "address" in obstacle("203.0.113.9:3260", local) and "address" in obstacle("[2001:db8::2]:3260", local)


def test_an_unplugged_cable_is_no_link() -> None:
    """The other end of a veth pair is down. The kernel notices within a second."""

    def read() -> list[tuple[str, bool]]:
        return [(address.address, address.linked) for address in local_addresses() if address.interface == "cable0"]

    try:
        subprocess.run(["ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1"], check=True)
        subprocess.run(["ip", "address", "add", "192.0.2.79/24", "dev", "cable0"], check=True)
        for command, linked in (("cable0 up", False), ("cable1 up", True), ("cable0 down", False)):
            subprocess.run(["ip", "link", "set", *command.split()], check=True)
            until = time.monotonic() + 10
            while read() != [("192.0.2.79", linked)]:
                assert time.monotonic() < until, (command, read())
                time.sleep(0.01)
    finally:
        subprocess.run(["ip", "link", "delete", "cable0"], check=False)


@pytest.mark.parametrize("portal", ["192.0.2.1", "192.0.2.1:0", "192.0.2.1:70000", "::1:3260", "esx:3260", "192.0.2.1:x", ""])
def test_invalid_portals(portal: str) -> None:
    with pytest.raises(ValueError, match="."):
        split_portal(portal)


def test_the_address_for_nfs_is_in_the_network_of_the_clients() -> None:
    assert nearest(ADDRESSES, ["198.51.100.0/24"]) == "198.51.100.2"
    assert nearest(ADDRESSES, ["2001:db8::9"]) == "2001:db8::2"
    assert nearest(ADDRESSES, []) == "192.0.2.2" and nearest([], ["192.0.2.9"]) is None


def test_the_address_for_nfs_stays_when_another_host_comes() -> None:
    """Bits behind the netmask do not count, nor those behind a client network's prefix."""
    local = [Address("eth0", "192.0.2.2", "192.0.2.0/24"), Address("eth0", "192.0.2.66", "192.0.2.0/24")]
    assert nearest(local, ["192.0.2.10"]) == nearest(local, ["192.0.2.10", "192.0.2.67"]) == "192.0.2.2"
    apart = [Address("eth0", "10.9.0.2", "10.9.0.0/24"), Address("eth1", "10.0.0.2", "10.0.0.0/24")]
    assert nearest(apart, ["10.0.0.0/8"]) == "10.9.0.2"
    assert nearest(apart, ["10.0.0.0/8", "10.0.0.9"]) == "10.0.0.2"
    both = [Address("eth0", "192.0.2.2", "192.0.2.0/24"), Address("eth1", "198.51.100.2", "198.51.100.0/24")]
    assert nearest(both, ["198.51.100.11"]) == "198.51.100.2"
    assert nearest(both, ["192.0.2.12", "198.51.100.11", "198.51.100.12"]) == "198.51.100.2"


def test_the_address_for_nfs_is_not_that_of_a_bridge_of_containers() -> None:
    """Unless the client is in its network."""
    docker = Address("docker0", "172.17.0.1", "172.17.0.0/16", internal=True)
    local = [docker, Address("eth0", "192.0.2.2", "192.0.2.0/24")]
    assert nearest(local, []) == nearest(local, ["0.0.0.0/0"]) == nearest(local, ["172.16.3.4"]) == "192.0.2.2"
    assert nearest(local, ["172.17.0.9"]) == "172.17.0.1" and nearest([docker], ["192.0.2.9"]) is None
