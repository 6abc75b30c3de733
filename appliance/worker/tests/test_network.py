# SPDX-License-Identifier: Apache-2.0
"""Bonds and VLANs as `ip -json -details address` prints them: the kernel of these tests has neither."""

import json
import os
from pathlib import Path

import pytest

from appliance.worker import network
from appliance.worker.network import lost_links

FLAGS = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
PORT = {"flags": FLAGS, "mtu": 9000, "link_type": "ether", "address": "52:54:00:00:00:01", "addr_info": []}
PRINTED = [
    {"ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536, "link_type": "loopback", "addr_info": []},
    {
        "ifname": "eth0",
        **PORT,
        "master": "bond0",
        "linkinfo": {"info_slave_kind": "bond", "info_slave_data": {"state": "ACTIVE"}},
    },
    {"ifname": "eth1", **PORT, "flags": ["BROADCAST", "UP"], "master": "bond0", "linkinfo": {"info_slave_kind": "bond"}},
    {"ifname": "bond0", **PORT, "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad", "miimon": 100}}},
    {
        **PORT,
        "ifname": "bond0.20",
        "link": "bond0",
        "linkinfo": {"info_kind": "vlan", "info_data": {"protocol": "802.1Q", "id": 20, "flags": ["REORDER_HDR"]}},
        "addr_info": [{"family": "inet", "local": "192.0.2.1", "prefixlen": 24, "scope": "global"}],
    },
]


def prints(printed: list[dict[str, object]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "ip"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(printed)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_bonds_and_vlans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints(PRINTED, tmp_path, monkeypatch)
    interfaces = {interface.name: interface for interface in network.interfaces()}
    assert list(interfaces) == ["eth0", "eth1", "bond0", "bond0.20"]
    assert (interfaces["eth0"].kind, interfaces["eth0"].state, interfaces["eth1"].state) == ("ethernet", "up", "no link")
    assert (interfaces["bond0"].kind, interfaces["bond0"].detail, interfaces["bond0"].members) == (
        "bond",
        "802.3ad",
        ["eth0", "eth1"],
    )
    assert (interfaces["bond0.20"].detail, interfaces["bond0.20"].addresses) == ("20 of bond0", ["192.0.2.1/24"])


def test_lost_links_are_of_members_of_bonds_and_of_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bridges of containers and VMs have no link while none runs; ports without a use have none either."""

    def link(
        name: str, address: str | None = None, master: str | None = None, kind: str = "", up: bool = True
    ) -> dict[str, object]:
        addresses = [{"local": address, "prefixlen": 24, "scope": "global"}] if address else []
        more = {"master": master} if master else {}
        flags = ["UP"] if up else []
        return PORT | {"ifname": name, "flags": flags, "linkinfo": {"info_kind": kind}, "addr_info": addresses} | more

    others = [
        link("eth2", "192.0.2.2"),
        link("eth3"),
        link("eth4", "192.0.2.4", up=False),
        link("eth5", master="br0"),
        link("br0", "192.0.2.5", kind="bridge"),
        link("docker0", "172.17.0.1", kind="bridge"),
        link("vnet0", master="virbr0", kind="tun"),
        link("virbr0", "192.168.122.1", kind="bridge"),
        link("tun0", "198.51.100.1", kind="tun"),
        link("eth6", master="bond1"),
        link("bond1", kind="bond", up=False),
    ]
    prints(PRINTED + others, tmp_path, monkeypatch)
    assert lost_links() == {
        "eth1": "a member of bond0",
        "eth2": "with the address 192.0.2.2",
        "br0": "with the address 192.0.2.5",
    }
    prints([link("bond0", kind="bond"), link("bond0.20", "192.0.2.1", kind="vlan")], tmp_path, monkeypatch)
    assert lost_links() == {"bond0.20": "with the address 192.0.2.1"}
