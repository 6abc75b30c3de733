// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const files: Texts["files"] = {
  lead: "Datendateien von VMDKs, ohne Descriptor-Dateien. Exklusive Bytes sind mit nichts anderem im Pool geteilt. „Höchstens“ ist eine Obergrenze.",
  list: "VMDK-Dateien",
  columns: {
    path: "Datei",
    total: "Größe",
    allocated: "Belegt",
    unique: "Exklusiv",
    snapshot: "Auch in einem Snapshot",
    deduplicated: "Dedupliziert",
    asOf: "Stand",
  },
  atMost: (bytes) => `höchstens ${bytes}`,
  unmeasured: "nicht gemessen",
  unmeasuredHelp: "Die Messung dauerte zu lange. Aktualisieren Sie in einem Moment.",
  incomplete: {
    title: "Einige Dateien fehlen in der Liste",
    body: "Diese Dateien liegen sehr tief, sind zu viele, oder ihr Name ist kein Text. Hosts sehen sie.",
  },
  empty: {
    title: "Keine VMDK-Dateien",
    body: "Hosts legen sie mit ihren VMs an. Dateien der letzten Sekunden können fehlen.",
  },
  refresh: "Aktualisieren",
  pages: "Seiten der Dateien",
  previous: "Zurück",
  next: "Weiter",
  clone: {
    action: "Klonen",
    actionOf: (path) => `${path} klonen`,
    title: (path) => `${path} klonen`,
    lead: "Eine Kopie dieses Augenblicks. Sie wird abgelehnt, wenn die Quelle währenddessen geschrieben wird. Die Datei erscheint erst, wenn sie vollständig ist. Der Descriptor wird nicht geklont. Legen Sie die VM auf dem Host an, oder kopieren Sie den Descriptor und ändern seinen Namen.",
    destination: "Pfad des Klons",
    destinationHelp: "Ein neuer Name in einem vorhandenen Ordner dieses Datastores, zum Beispiel vm2/disk-flat.vmdk",
    how: "Verfahren",
    full: "Full Clone: Blöcke teilen, wo möglich, andere kopieren",
    fullHelp: "Auch wenn Blöcke nicht geteilt werden können. Das Ergebnis zeigt die geteilten und die kopierten Bytes.",
    fast: "Fast Clone: alle Blöcke teilen",
    fastHelp: "Dauert Sekunden bis Minuten: Keine Daten werden kopiert. Abgelehnt, wenn Blöcke nicht geteilt werden können.",
    submit: "Klonen",
  },
  clones: {
    title: "Klone",
    columns: { destination: "Klon", state: "Zustand", result: "Ergebnis" },
    shared: (bytes) => `${bytes} geteilt`,
    copied: (bytes) => `${bytes} kopiert`,
    because: (reasons) => `(${reasons})`,
    holes: (bytes) => `${bytes} Lücken`,
    nothing: "Die Datei ist leer",
  },
};
