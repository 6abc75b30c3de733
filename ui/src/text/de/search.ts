// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const search: Texts["search"] = {
  open: "Alles durchsuchen",
  title: "Alles durchsuchen",
  field: "Name, iSCSI-Name oder Adresse",
  help: "Datastores, Snapshots, Hosts, Pools und Jobs. Die Eingabetaste öffnet das erste Ergebnis. Die Taste / öffnet diese Suche auf jeder Seite.",
  results: "Ergebnisse",
  kinds: { datastore: "Datastore", host: "Host", pool: "Pool", job: "Job", snapshot: "Snapshot" },
  matches: (shown, all) =>
    all === 0
      ? "Nichts gefunden"
      : shown < all
        ? `Die ersten ${shown} von ${all} Ergebnissen`
        : all === 1
          ? "1 Ergebnis"
          : `${all} Ergebnisse`,
};
