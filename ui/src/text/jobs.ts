// SPDX-License-Identifier: Apache-2.0
/** Jobs. */

export const jobs = {
  title: "Jobs",
  lead: "Jobs continue when you leave the page, and after a restart of the appliance.",
  columns: { kind: "Job", subject: "About", state: "State", actor: "By", started: "Started", took: "Took" },
  empty: { title: "No jobs yet", body: "Changes of storage run as jobs and are listed here." },
  cancel: "Cancel",
  cancelRequested: "Cancel requested",
  cancelHelp:
    "A file clone or VM restore stops, and its partial result is removed. Other jobs that are already changing something run to their end.",
  abandon: {
    action: "Abandon",
    title: (name: string) => `Abandon "${name}"?`,
    lead: "Use this if the job does not end because its pool hangs. Its step may still be done when the pool answers. If it changes a datastore, hosts cannot use that datastore until a later job succeeds.",
    done: "The job was abandoned",
  },
  step: "Step",
  created: "Requested",
  ended: "Ended",
  problem: "Why it failed",
  shortcomings: "Warnings",
  traces: "After the failure",
  list: "Jobs, newest first",
  anyState: "All states",
  noMatch: "No job in this state",
  newer: "Newer",
  older: "Older",
  pages: "Pages of jobs",
};
