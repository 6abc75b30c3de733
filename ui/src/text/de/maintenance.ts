// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

const others = (count: number) => `${count} ${count === 1 ? "anderes Paket" : "andere Pakete"}`;

export const maintenance: Texts["maintenance"] = {
  updates: {
    title: "Aktualisierungen",
    list: "Ausstehende Aktualisierungen",
    none: "Keine Aktualisierungen stehen aus.",
    pending: (known, more) =>
      known === 0 ? `Ausstehend: ${others(more)}.` : `Ausstehend: ${known} von zvaai oder Speicher, ${others(more)}.`,
    refreshed: "Paketlisten vom",
    neverRefreshed: "Dieser Server hat noch keine Paketlisten: Starten Sie apt update.",
    reboot: "Der Server braucht einen Neustart",
    obstacles: "Tun Sie dies vor einer Aktualisierung",
    columns: { name: "Paket", installed: "Installiert", version: "Neu", effect: "Wirkung" },
    notes: "Versionshinweise",
    install: "Eine Aktualisierung hält die Konsole an. Installieren Sie sie in einer Shell des Servers, als root:",
    copy: "Befehle kopieren",
    again: "Erneut prüfen",
  },
  power: {
    title: "Neu starten und herunterfahren",
    lead: "Hosts haben keine Datastores, während der Server neu startet. Laufende Jobs gehen danach weiter.",
    iscsi: "iSCSI-Hosts",
    nfs: "NFS-Clients",
    users: "Benutzer der Konsole",
    jobs: "Jobs",
    unknown: "Unbekannt: Der Dienst antwortet nicht",
    password: "Ihr Passwort",
    reboot: {
      action: "Neu starten",
      title: "Server neu starten?",
      lead: "Fahren Sie zuerst die VMs dieser Hosts herunter. ESXi wartet 140 s auf eine Disk, und ein physischer Server startet oft länger.",
      begun: "Der Server startet neu",
      begunLead: "Diese Seite öffnet die Konsole wieder, sobald der Server antwortet.",
    },
    off: {
      action: "Herunterfahren",
      title: "Server herunterfahren?",
      lead: "Hosts verlieren ihre Datastores, bis jemand den Server einschaltet. Fahren Sie zuerst deren VMs herunter.",
      begun: "Der Server fährt herunter",
      begunLead: "Schalten Sie den Server ein, um ihn wieder zu benutzen. Dann öffnet diese Seite die Konsole.",
    },
    late: "Der Server antwortet seit 15 Minuten nicht. Sehen Sie auf seinen Bildschirm, oder auf seine Fernkonsole.",
  },
};
