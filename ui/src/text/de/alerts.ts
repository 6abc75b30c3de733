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
  list: "Offene Alarme, neueste zuerst",
};
