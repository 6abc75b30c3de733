// SPDX-License-Identifier: Apache-2.0
/** Jobs. */

export const jobs = {
  title: "Jobs",
  lead: "Long work. It goes on when you leave, and is taken up again after a restart.",
  columns: { kind: "Job", subject: "About", state: "State", actor: "By", started: "Begun", took: "Took" },
  empty: { title: "No jobs yet", body: "What takes longer than a moment is shown here." },
  cancel: "Cancel",
  cancelFailed: "The job was not cancelled",
  step: "Step",
  created: "Asked for",
  ended: "Ended",
  problem: "Why it failed",
  shortcomings: "What is not as it should be",
  traces: "What it left",
  list: "Jobs, the newest first",
  open: (kind: string) => `Open ${kind}`,
};
