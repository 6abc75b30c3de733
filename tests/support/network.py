# SPDX-License-Identifier: Apache-2.0
"""Links to a target in a separate network namespace, which can be cut; and a host behind a switch."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from support.programs import run

NAMESPACE = "array"


class Link:
    """A veth pair. `address` belongs to the far end, in 198.18.0.0/15 (RFC 2544)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.address = f"198.18.{number}.2"
        self._interface, self._peer = f"here{number}", f"there{number}"
        run("ip", "link", "add", self._interface, "type", "veth", "peer", "name", self._peer, "netns", NAMESPACE)
        run("ip", "address", "add", f"198.18.{number}.1/30", "dev", self._interface)
        run("ip", "-n", NAMESPACE, "address", "add", f"{self.address}/30", "dev", self._peer)
        run("ip", "link", "set", self._interface, "up")
        self.restore()

    def cut(self) -> None:
        """Drops all packets; the connections of both ends get no notice."""
        run("ip", "-n", NAMESPACE, "link", "set", self._peer, "down")

    def restore(self) -> None:
        run("ip", "-n", NAMESPACE, "link", "set", self._peer, "up")

    def remove(self) -> None:
        run("ip", "link", "delete", self._interface)


@contextlib.contextmanager
def links(count: int) -> Iterator[list[Link]]:
    """The namespace NAMESPACE with `count` links to it."""
    subprocess.run(["ip", "netns", "delete", NAMESPACE], check=False, stderr=subprocess.DEVNULL)  # of a run that was killed
    run("ip", "netns", "add", NAMESPACE)
    made: list[Link] = []
    try:
        run("ip", "-n", NAMESPACE, "link", "set", "lo", "up")
        made.extend(Link(number) for number in range(1, count + 1))
        yield made
    finally:
        for link in made:
            link.remove()
        # A process that still runs in the namespace must not break the next test.
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=False)


@contextlib.contextmanager
def switched_host(mtu: int, switch_mtu: int) -> Iterator[tuple[str, str]]:
    """A host behind a switch. Both ends have `mtu`; the switch drops longer frames than `switch_mtu` without a word.

    Yields the interface here and the host's address.
    """
    here, address = "storage0", "198.19.0.2"
    try:
        for name in ("switch", "esx"):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", here, "mtu", str(mtu), "type", "veth", "peer", "name", "first", "netns", "switch")
        run("ip", "-n", "switch", "link", "add", "second", "type", "veth", "peer", "name", "vmnic0", "netns", "esx")
        run("ip", "-n", "switch", "link", "add", "bridge", "type", "bridge")
        for port, size in (("first", mtu), ("second", switch_mtu)):
            run("ip", "-n", "switch", "link", "set", port, "mtu", str(size), "master", "bridge", "up")
        run("ip", "-n", "switch", "link", "set", "bridge", "up")
        run("ip", "-n", "esx", "link", "set", "vmnic0", "mtu", str(mtu), "up")
        run("ip", "-n", "esx", "address", "add", f"{address}/24", "dev", "vmnic0")
        run("ip", "address", "add", "198.19.0.1/24", "dev", here)
        run("ip", "link", "set", here, "up")
        yield here, address
    finally:
        # The end of a namespace removes the other ends of its interfaces only later.
        subprocess.run(["ip", "link", "delete", here], check=False)
        for name in ("switch", "esx"):
            subprocess.run(["ip", "netns", "delete", name], check=False)
