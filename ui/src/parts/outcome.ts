// SPDX-License-Identifier: Apache-2.0
/** What a job has left behind: the traces of a failed job, the shortcomings of a successful job. */

import type { Job } from "../api/types";
import { text } from "../text";

/** Text about the traces of a failed job. */
export function tracesOf(job: Pick<Job, "problem">): string {
  if (job.problem?.left != null) return text.common.job.left(job.problem.left);
  return job.problem?.undone === true ? text.common.job.tookBack : text.common.job.check;
}

/** Shortcomings of a job that succeeded, with reasons: the appliance continues to try. */
export function shortcomingsOf({ result }: Pick<Job, "result">): string[] {
  const several = result?.["problems"];
  const all: unknown[] = Array.isArray(several) ? several : [result?.["problem"]];
  return all.filter((item) => typeof item === "string");
}
