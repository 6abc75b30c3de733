// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const network: Texts["network"] = {
  title: "Netzwerk",
  lead: "Das Netzwerk dieses Servers, und ob volle Pakete jeden Host erreichen.",
  change: "Zum Ändern nehmen Sie die Netzwerkwerkzeuge von Debian (im Disk-Image: nmtui) oder Cockpit, falls es installiert ist:",
  cockpit: "Cockpit",
  server: {
    title: "Server",
    hostname: "Hostname",
    dns: "DNS-Server",
    search: "Suchdomänen",
    clock: "Uhr",
    zone: "Zeitzone",
    synchronized: "Synchron",
    notSynchronized: "Nicht synchron. Installieren Sie chrony, oder prüfen Sie dessen Server.",
    unknown: "Unbekannt",
  },
  interfaces: {
    title: "Schnittstellen",
    empty: "Dieser Server hat keine Netzwerkschnittstelle.",
    columns: {
      name: "Name",
      kind: "Typ",
      state: "Link",
      speed: "Geschwindigkeit",
      mtu: "MTU",
      addresses: "Adressen",
      mac: "MAC-Adresse",
    },
    kinds: { ethernet: "Ethernet", bond: "Bond", vlan: "VLAN", bridge: "Bridge" },
    states: { up: "Aktiv", "no link": "Kein Link", down: "Aus" },
    members: (names) => `aus ${names.join(", ")}`,
    speed: (megabits) => (megabits >= 1_000 ? `${megabits / 1_000} Gbit/s` : `${megabits} Mbit/s`),
  },
  hosts: {
    title: "Ping mit voller MTU",
    lead: "Sendet Pakete, so groß die Schnittstelle sie erlaubt. Kommen Jumbo Frames nicht an, stocken iSCSI und NFS.",
    list: "Hosts für den Ping",
    empty: "Noch keine Hosts.",
    columns: { host: "Host", addresses: "Eingetragene Adressen", result: "Ergebnis" },
    ping: "Ping senden",
    pingOne: (name) => `Ping an ${name} senden`,
    result: { ok: "OK", failed: "Fehlgeschlagen" },
  },
};
