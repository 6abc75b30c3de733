// SPDX-License-Identifier: Apache-2.0
/** What is said of problems: what happened, what was not changed, what to do. */

export const problems = {
  connection: {
    title: "The appliance does not answer",
    body: "It is restarting, or the network between it and this browser is interrupted.",
    remedy: "Try again in a moment. Datastores are served to hosts all the same: the data planes do not need the console.",
  },
  session: {
    title: "Your session has ended",
    body: "You were not active for 30 minutes, logged out elsewhere, or your password was changed.",
    remedy: "Log in again; what you typed stays here.",
  },
  forbidden: { title: "You may not do this", remedy: "Ask somebody whose role allows it." },
  notFound: { title: "It is not there", remedy: "It was deleted or renamed meanwhile. Go back to the list and look." },
  conflict: { title: "Something is in the way", remedy: "Look at what is in the way, then try again." },
  changed: {
    title: "Somebody changed it meanwhile",
    body: "Yours was not saved.",
    remedy: "Send it again, or cancel.",
    remedyOverNews: "Look at what it is now, then send yours again, or cancel.",
  },
  invalid: { title: "Some values are not right", remedy: "Correct the marked fields." },
  tooMany: {
    title: "Too many attempts",
    remedy: (seconds: number | null) =>
      seconds === null ? "Wait a moment, then try again." : `Try again in ${seconds} seconds.`,
  },
  unavailable: {
    title: "A part of the appliance does not answer",
    remedy: "Try again in a moment; the dashboard says which part it is.",
  },
  internal: {
    title: "The appliance is at fault",
    body: "It met an error of its own. Details are in its log, on the server: journalctl -u zvaai-api -u zvaai-worker.",
    remedy: "See under Jobs whether it was done, then try again. If it happens again, report it with the log.",
  },
  console: {
    title: "The console is at fault",
    body: "This page met an error of its own. The appliance is not affected.",
    remedy: "Load the page again. If it happens again, report it.",
  },
  nothingChanged: "Nothing was changed.",
  unknown: "Whether something was changed is not known. Sending it again with “Try again” does it once at most.",
  nowIs: "This is what it is now:",
  news: (name: string, now: string, before: string) => `${name}: ${now} (before: ${before})`,
  inTheWay: "In the way:",
  moreInTheWay: (count: number) => `and ${count} more`,
  tryAgain: "Try again",
  lostBanner: "No connection to the appliance. What you see may be old. Trying again…",
};
