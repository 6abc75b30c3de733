# SPDX-License-Identifier: Apache-2.0
"""The network of the server, and pings at full MTU, with real interfaces: a host behind a switch that drops long frames."""

from __future__ import annotations

import contextlib
import select
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jeepney import DBusAddress, MessageType, new_method_call, new_method_return
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from simulators.appliance import Appliance, running
from support.message_bus import message_bus
from support.network import switched_host
from support.programs import wait_for

from appliance.worker import network
from appliance.worker import ping as ping_module
from appliance.worker.ping import _Echo

RANGE = Path("/proc/sys/net/ipv4/ping_group_range")
"""Range of this network namespace; Debian's linux-sysctl-defaults permits all groups."""


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    before = RANGE.read_text()
    RANGE.write_text("0 2147483647")
    try:
        with running(tmp_path / "appliance") as appliance:
            yield appliance
    finally:
        RANGE.write_text(before)


def ping(appliance: Appliance, *addresses: str) -> list[dict[str, Any]]:
    body = {"name": f"esx {addresses[0]}", "addresses": addresses}
    host = appliance.request("POST", "/hosts", body).json
    assert host is not None
    answer = appliance.request("POST", f"/hosts/{host['id']}/ping", role="operator")
    assert answer.status_code == 200 and answer.json is not None, answer.text
    assert appliance.request("DELETE", f"/hosts/{host['id']}").status_code == 200
    return list(answer.json["items"])


def test_jumbo_frames_that_a_switch_drops_are_found_to_the_byte(appliance: Appliance) -> None:
    with switched_host(mtu=9000, switch_mtu=1500) as (interface, address):
        wait_for(lambda: ping(appliance, address)[0]["largest"] is not None, "the switch forwards")
        absent = "198.19.0.77"
        reached, silent = ping(appliance, address, absent)
        assert (reached["interface"], reached["mtu"], reached["result"]) == (interface, 9000, "failed")
        # Linux bridges leave room for a VLAN tag of 4 bytes.
        assert (
            reached["largest"] in (1500, 1504)
            and f"Jumbo frames do not pass between this server and {address}" in reached["text"]
        )
        assert f"the largest packet that passes is {reached['largest']} bytes" in reached["text"]
        assert (silent["result"], silent["largest"]) == ("failed", None)


def test_packets_of_the_full_mtu_pass(appliance: Appliance) -> None:
    with switched_host(mtu=9000, switch_mtu=9000) as (interface, address):
        wait_for(lambda: ping(appliance, address)[0]["largest"] is not None, "the switch forwards")
        (reached,) = ping(appliance, address)
        assert (reached["interface"], reached["mtu"], reached["largest"], reached["result"]) == (interface, 9000, 9000, "ok")


@pytest.mark.usefixtures("appliance")
def test_an_answer_counts_after_a_pause_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer arrives in time, and the worker continues after that time."""
    with _Echo("127.0.0.1") as echo:
        times = iter((0.0, 60.0))

        def monotonic() -> float:
            if now := next(times):
                select.select([echo._socket], [], [], 60)
            return now

        monkeypatch.setattr(ping_module, "time", SimpleNamespace(monotonic=monotonic))
        assert echo.passes(84, 1)


def test_without_the_right_to_ping_it_says_which_setting_gives_it(appliance: Appliance) -> None:
    RANGE.write_text("1 0")
    host = appliance.request("POST", "/hosts", {"name": "esx1", "addresses": ["127.0.0.1"]}).json
    assert host is not None
    answer = appliance.request("POST", f"/hosts/{host['id']}/ping")
    assert answer.status_code == 503 and "net.ipv4.ping_group_range" in answer.text


def test_a_host_without_a_known_address_cannot_be_pinged(appliance: Appliance) -> None:
    host = appliance.request("POST", "/hosts", {"name": "esx1", "iqns": ["iqn.1998-01.com.vmware:esx1"]}).json
    assert host is not None
    answer = appliance.request("POST", f"/hosts/{host['id']}/ping")
    assert answer.status_code == 409 and "no address of the host is known" in answer.text


def test_interfaces_are_as_the_kernel_has_them(appliance: Appliance) -> None:
    with switched_host(mtu=9000, switch_mtu=1500) as (name, _):
        subprocess.run(["ip", "link", "add", "bridge0", "type", "bridge"], check=True)
        try:
            subprocess.run(["ip", "link", "set", name, "master", "bridge0"], check=True)
            network = appliance.get("/network")
            shown = {interface["name"]: interface for interface in network["interfaces"]}
            assert "lo" not in shown
            facts = {"kind": "veth", "state": "up", "mtu": 9000, "addresses": ["198.19.0.1/24"]}
            assert shown[name] | facts == shown[name]
            facts = {"kind": "bridge", "state": "down", "members": [name]}
            assert shown["bridge0"] | facts == shown["bridge0"]
        finally:
            subprocess.run(["ip", "link", "delete", "bridge0"], check=True)


def timedated(connection: DBusConnection) -> None:
    """Answers as systemd-timedated does, until the connection is closed."""
    bus = DBusAddress("/org/freedesktop/DBus", bus_name="org.freedesktop.DBus", interface="org.freedesktop.DBus")
    connection.send_and_get_reply(new_method_call(bus, "RequestName", "su", ("org.freedesktop.timedate1", 4)))
    properties = {"NTPSynchronized": ("b", False), "Timezone": ("s", "Europe/Berlin"), "NTP": ("b", True)}
    with contextlib.suppress(OSError, ValueError):
        while True:
            if (message := connection.receive()).header.message_type == MessageType.method_call:
                connection.send(new_method_return(message, "a{sv}", (properties,)))


def test_the_clock_is_as_timedated_knows_it(tmp_path: Path) -> None:
    with message_bus(tmp_path / "bus") as address:
        assert network.read(address).time == network.ClockResponse(None, None), "nobody answers"
        with open_dbus_connection(address) as connection:
            thread = threading.Thread(target=timedated, args=(connection,), daemon=True)
            thread.start()
            wait_for(lambda: network.read(address).time == network.ClockResponse(False, "Europe/Berlin"), "it answers")
