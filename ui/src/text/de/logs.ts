// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const logs: Texts["logs"] = {
  title: "Protokolle",
  lead: "Das Journal des Servers: Units von zvaai, der NFS-Server, und was der Kernel zu OpenZFS sagt.",
  list: "Einträge des Journals, neueste zuerst",
  columns: { at: "Wann", unit: "Unit", priority: "Priorität", text: "Eintrag" },
  filter: {
    text: "Text",
    unit: "Unit",
    anyUnit: "Alle Units",
    priority: "Priorität",
    anyPriority: "Alle Prioritäten",
    since: "Von",
    until: "Bis",
  },
  kernel: "Kernel: OpenZFS",
  priority: { critical: "Kritisch", error: "Fehler", warning: "Warnung", info: "Information", debug: "Debug" },
  atLeast: {
    critical: "Kritisch",
    error: "Ab Fehler",
    warning: "Ab Warnung",
    info: "Ab Information",
    debug: "Ab Debug",
  },
  newer: "Neuere",
  older: "Ältere",
  pages: "Seiten des Journals",
  noMatch: { title: "Kein Eintrag passt", body: "Ändern Sie die Filter." },
};
