// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const history: Texts["history"] = {
  title: "Verlauf",
  range: "Zeitraum",
  ranges: { hour: "Stunde", day: "Tag", week: "Woche", month: "Monat", year: "Jahr" },
  newest: "Neueste Werte. Zeigen Sie auf ein Diagramm für die Werte einer Zeit.",
  cursor: (chart) => `${chart}: Zeit der Werte`,
  nothing: "Noch keine Werte in diesem Zeitraum. Die ersten kommen in einer Minute.",
  operations: "Operationen je Sekunde",
  throughput: "Durchsatz",
  latency: "Latenz",
  offloads: "Offloads",
  capacity: "Kapazität",
  read: "Lesen",
  write: "Schreiben",
  median: "Median",
  p99: "99 %",
  cloned: "Geklont",
  copied: "Kopiert",
  zeroed: "Genullt",
  reclaimed: "Zurückgegeben",
  used: "Belegt",
  snapshots: "Snapshots",
  size: "Größe",
  fullAt: (day) => `Wächst die Belegung wie in den letzten 30 Tagen, ist der Pool am ${day} voll.`,
  notForeseen: "Voll: nicht absehbar. Eine Prognose braucht einen Tag Verlauf und Wachstum.",
};
