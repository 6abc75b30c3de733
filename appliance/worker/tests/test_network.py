# SPDX-License-Identifier: Apache-2.0
"""Bonds and VLANs as `ip -json -details address` prints them: the kernel of these tests has neither."""

import json
import os
from pathlib import Path

import pytest

from appliance.worker import network

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


def test_bonds_and_vlans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ip"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(PRINTED)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    interfaces = {interface.name: interface for interface in network.interfaces()}
    assert list(interfaces) == ["eth0", "eth1", "bond0", "bond0.20"]
    assert (interfaces["eth0"].kind, interfaces["eth0"].state, interfaces["eth1"].state) == ("ethernet", "up", "no link")
    assert (interfaces["bond0"].kind, interfaces["bond0"].detail, interfaces["bond0"].members) == (
        "bond",
        "802.3ad",
        ["eth0", "eth1"],
    )
    assert (interfaces["bond0.20"].detail, interfaces["bond0.20"].addresses) == ("20 of bond0", ["192.0.2.1/24"])
