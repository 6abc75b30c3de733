// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const jobs: Texts["jobs"] = {
  title: "Jobs",
  lead: "Jobs laufen weiter, wenn Sie die Seite verlassen, und nach einem Neustart der Appliance.",
  columns: { kind: "Job", subject: "Betrifft", state: "Zustand", actor: "Von", started: "Beginn", took: "Dauer" },
  empty: { title: "Noch keine Jobs", body: "Änderungen am Speicher laufen als Jobs und stehen hier." },
  cancel: "Abbrechen",
  cancelRequested: "Abbruch angefordert",
  cancelHelp:
    "Ein Dateiklon oder eine VM-Wiederherstellung stoppt, und der unfertige Teil wird entfernt. Andere Jobs, die schon etwas ändern, laufen bis zu ihrem Ende.",
  abandon: {
    action: "Aufgeben",
    title: (name) => `„${name}“ aufgeben?`,
    lead: "Nur wenn der Job nicht endet, weil sein Pool hängt. Sein Schritt kann noch ausgeführt werden, wenn der Pool antwortet. Ändert er einen Datastore, so können Hosts diesen erst nach einem späteren, erfolgreichen Job nutzen.",
    done: "Der Job wurde aufgegeben",
  },
  step: "Schritt",
  created: "Angefordert",
  ended: "Ende",
  problem: "Grund des Fehlers",
  shortcomings: "Warnungen",
  traces: "Nach dem Fehler",
  list: "Jobs, neueste zuerst",
  anyState: "Alle Zustände",
  noMatch: "Kein Job in diesem Zustand",
  newer: "Neuere",
  older: "Ältere",
  pages: "Seiten der Jobs",
};
