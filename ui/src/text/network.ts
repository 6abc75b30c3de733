// SPDX-License-Identifier: Apache-2.0
import type { Interface } from "../api/types";

export const network = {
  title: "Network",
  lead: "The network of this server, and whether full packets reach each host.",
  change: "To change it, use Debian's tools on the server (in the disk image: nmtui), or Cockpit if it is installed:",
  cockpit: "Cockpit",
  server: {
    title: "Server",
    hostname: "Host name",
    dns: "DNS servers",
    search: "Search domains",
    clock: "Clock",
    zone: "Time zone",
    synchronized: "Synchronised",
    notSynchronized: "Not synchronised. Install chrony, or check its servers.",
    unknown: "Unknown",
  },
  interfaces: {
    title: "Interfaces",
    empty: "This server has no network interface.",
    columns: {
      name: "Name",
      kind: "Type",
      state: "Link",
      speed: "Speed",
      mtu: "MTU",
      addresses: "Addresses",
      mac: "MAC address",
    },
    kinds: { ethernet: "Ethernet", bond: "Bond", vlan: "VLAN", bridge: "Bridge" } as Readonly<Record<string, string>>,
    states: { up: "Up", "no link": "No link", down: "Off" } satisfies Record<Interface["state"], string>,
    members: (names: readonly string[]) => `of ${names.join(", ")}`,
    speed: (megabits: number) => (megabits >= 1_000 ? `${megabits / 1_000} Gbit/s` : `${megabits} Mbit/s`),
  },
  hosts: {
    title: "Ping at full MTU",
    lead: "Sends packets as large as the interface allows. If jumbo frames do not pass, iSCSI and NFS stall or are slow.",
    list: "Hosts to ping",
    empty: "No hosts yet.",
    columns: { host: "Host", addresses: "Set addresses", result: "Result" },
    ping: "Ping",
    pingOne: (name: string) => `Ping ${name}`,
    result: { ok: "OK", failed: "Failed" },
  },
};
