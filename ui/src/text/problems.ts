// SPDX-License-Identifier: Apache-2.0
/** Texts of problems: what happened, what did not change, what to do. */

export const problems = {
  connection: {
    title: "The appliance does not answer",
    body: "It is restarting, or the network between it and this browser is interrupted.",
    remedy: "Try again in a moment. Hosts are still served: the data planes do not need the console.",
  },
  session: {
    title: "Your session has ended",
    body: "It ends 12 hours after the login, or 30 minutes after the last page was closed. A logout elsewhere or a new password ends it too.",
    remedy: "Log in again. Your input is still here.",
  },
  forbidden: { title: "Your role does not allow this", remedy: "Ask an administrator." },
  notFound: { title: "Not found", remedy: "Someone may have deleted or renamed the object. Go back to the list." },
  conflict: { title: "Refused in the present state", remedy: "Resolve the conflict, then try again." },
  changed: {
    title: "Someone else changed this in the meantime",
    body: "Your change was not saved.",
    remedy: "Send your change again, or cancel.",
    remedyOverNews: "Check the new values, then send your change again, or cancel.",
  },
  invalid: { title: "Some values are invalid", remedy: "Correct the marked fields." },
  tooMany: {
    title: "Too many attempts",
    remedy: (seconds: number | null) => (seconds === null ? "Wait a moment, then try again." : `Try again in ${seconds} s.`),
  },
  unavailable: {
    title: "A part of the appliance does not answer",
    remedy: "Try again in a moment. The dashboard shows which part.",
  },
  internal: {
    title: "Internal error of the appliance",
    body: "The log on the server has details: journalctl -u zvaai-api -u zvaai-worker.",
    remedy: "Check under Jobs whether the request was carried out, then try again. If the error returns, report it with the log.",
  },
  console: {
    title: "Internal error of the console",
    body: "This page failed. The appliance is not affected.",
    remedy: "Reload the page. If the error returns, report it.",
  },
  nothingChanged: "Nothing was changed.",
  unknown: "The request may have been carried out. Sending it again is safe: the appliance carries it out at most once.",
  nowIs: "New values:",
  news: (name: string, now: string, before: string) => `${name}: ${now} (before: ${before})`,
  inTheWay: "Conflicts:",
  moreInTheWay: (count: number) => `and ${count} more`,
  tryAgain: "Try again",
  lostBanner: "No connection to the appliance. The page may be out of date. Trying again…",
};
