// SPDX-License-Identifier: Apache-2.0
import type { Texts } from "..";

export const problems: Texts["problems"] = {
  connection: {
    title: "Die Appliance antwortet nicht",
    body: "Sie startet neu, oder das Netzwerk zwischen ihr und diesem Browser ist unterbrochen.",
    remedy: "Versuchen Sie es in einem Moment erneut. Hosts werden weiter bedient: Die Datenwege brauchen die Konsole nicht.",
  },
  session: {
    title: "Ihre Sitzung ist beendet",
    body: "Sie endet 12 Stunden nach der Anmeldung, oder 30 Minuten nachdem die letzte Seite geschlossen wurde. Auch eine Abmeldung anderswo oder ein neues Passwort beendet sie.",
    remedy: "Melden Sie sich wieder an. Ihre Eingaben sind noch da.",
  },
  forbidden: { title: "Ihre Rolle erlaubt das nicht", remedy: "Fragen Sie einen Administrator." },
  notFound: {
    title: "Nicht gefunden",
    remedy: "Vielleicht hat jemand das Objekt gelöscht oder umbenannt. Gehen Sie zurück zur Liste.",
  },
  conflict: { title: "Im jetzigen Zustand abgelehnt", remedy: "Lösen Sie den Konflikt, dann versuchen Sie es erneut." },
  changed: {
    title: "Jemand anderes hat dies inzwischen geändert",
    body: "Ihre Änderung wurde nicht gespeichert.",
    remedy: "Senden Sie Ihre Änderung erneut, oder brechen Sie ab.",
    remedyOverNews: "Prüfen Sie die neuen Werte. Senden Sie dann Ihre Änderung erneut, oder brechen Sie ab.",
  },
  invalid: { title: "Einige Werte sind ungültig", remedy: "Berichtigen Sie die markierten Felder." },
  tooMany: {
    title: "Zu viele Versuche",
    remedy: (seconds) =>
      seconds === null ? "Warten Sie einen Moment, dann versuchen Sie es erneut." : `Versuchen Sie es in ${seconds} s erneut.`,
  },
  unavailable: {
    title: "Ein Teil der Appliance antwortet nicht",
    remedy: "Versuchen Sie es in einem Moment erneut. Das Dashboard zeigt, welcher Teil.",
  },
  internal: {
    title: "Interner Fehler der Appliance",
    body: "Einzelheiten stehen im Protokoll des Servers: journalctl -u zvaai-api -u zvaai-worker.",
    remedy:
      "Prüfen Sie unter Jobs, ob die Anfrage ausgeführt wurde, dann versuchen Sie es erneut. Kommt der Fehler wieder, melden Sie ihn mit dem Protokoll.",
  },
  console: {
    title: "Interner Fehler der Konsole",
    body: "Diese Seite ist fehlgeschlagen. Die Appliance ist nicht betroffen.",
    remedy: "Laden Sie die Seite neu. Kommt der Fehler wieder, melden Sie ihn.",
  },
  nothingChanged: "Nichts wurde geändert.",
  unknown: "Die Anfrage ist vielleicht ausgeführt. Erneut senden ist sicher: Die Appliance führt sie höchstens einmal aus.",
  nowIs: "Neue Werte:",
  news: (name, now, before) => `${name}: ${now} (vorher: ${before})`,
  inTheWay: "Konflikte:",
  moreInTheWay: (count) => (count === 1 ? "und 1 weiterer" : `und ${count} weitere`),
  tryAgain: "Erneut versuchen",
  lostBanner: "Keine Verbindung zur Appliance. Die Seite kann veraltet sein. Neuer Versuch läuft …",
};
