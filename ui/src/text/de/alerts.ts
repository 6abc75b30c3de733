// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const alerts: Texts["alerts"] = {
  title: "Alarme",
  empty: { title: "Keine offenen Alarme", body: "Die Appliance hat kein Problem gefunden." },
  severity: { info: "Information", warning: "Warnung", critical: "Kritisch" },
  remedy: "Was zu tun ist",
  raised: "Seit",
  acknowledge: "Bestätigen",
  acknowledged: (name) => `Bestätigt von ${name}`,
  list: "Alarme, neueste zuerst",
  show: "Gezeigte Alarme",
  open: "Offene Alarme",
  all: "Alle Alarme",
  cleared: "Beendet",
  severityColumn: "Schwere",
  subject: "Objekt",
  by: "Bestätigt von",
  newer: "Neuere",
  older: "Ältere",
  pages: "Seiten der Alarme",
};
