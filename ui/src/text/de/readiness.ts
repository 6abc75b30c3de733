// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const readiness: Texts["readiness"] = {
  title: "Betriebsbereitschaft",
  lead: "Prüfungen von allem, was VAAI-Offloads brauchen.",
  result: { ok: "OK", warning: "Warnung", failed: "Fehlgeschlagen", unknown: "Unbekannt" },
  all: (count) => (count === 1 ? "Die Prüfung ist bestanden" : `Alle ${count} Prüfungen bestanden`),
  some: (failed, count) =>
    failed === 1 ? `1 von ${count} Prüfungen braucht Aufmerksamkeit` : `${failed} von ${count} Prüfungen brauchen Aufmerksamkeit`,
  columns: { check: "Prüfung", about: "Objekt", result: "Ergebnis", evidence: "Befund", remedy: "Was zu tun ist" },
  list: "Prüfungen",
  esxcli: {
    title: "Auf jedem ESXi-Host, einmal",
    lead: "Führen Sie diese Befehle auf jedem Host aus, über SSH oder in der ESXi-Shell. $HBA wird zum Software-iSCSI-Adapter.",
    copyAll: "Alle Zeilen kopieren",
  },
  again: "Erneut prüfen",
};
