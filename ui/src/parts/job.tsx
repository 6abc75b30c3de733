// SPDX-License-Identifier: Apache-2.0
/** Jobs: name, progress and result. */

import { Label, Progress, ProgressMeasureLocation, ProgressSize } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { takeJobEnd } from "../api/events";
import { jobQuery } from "../api/queries";
import type { Job } from "../api/types";
import { sentence } from "../format/sentence";
import { useToast } from "../shell/toasts";
import { text } from "../text";
import { shortcomingsOf, tracesOf } from "./outcome";

export function jobName(job: Pick<Job, "kind">): string {
  return text.common.job.kind[job.kind] ?? job.kind;
}

export function isActive(job: Pick<Job, "state">): boolean {
  return job.state === "queued" || job.state === "running";
}

const STATUS = { queued: "custom", running: "info", succeeded: "success", failed: "danger", cancelled: "warning" } as const;

export function JobState({ job }: { readonly job: Job }) {
  return <Label status={STATUS[job.state]}>{text.common.job.state[job.state]}</Label>;
}

/** A bar while the job runs, otherwise its state. */
export function JobProgress({ job }: { readonly job: Job }) {
  if (!isActive(job)) return <JobState job={job} />;
  return (
    <Progress
      aria-label={text.common.job.progress(jobName(job))}
      title={job.step}
      value={job.percent}
      size={ProgressSize.sm}
      measureLocation={ProgressMeasureLocation.outside}
    />
  );
}

/** Reports once how a job that was started on this page has ended; shows nothing while the job runs. */
export function JobNews({ id, onEnd }: { readonly id: string; readonly onEnd?: (job: Job) => void }) {
  const { data: job } = useQuery(jobQuery(id));
  const client = useQueryClient();
  const notify = useToast();
  const announced = useRef(false);
  useEffect(() => {
    if (job === undefined || isActive(job) || announced.current) return;
    announced.current = true;
    // Without a stream of events nothing else reports it.
    takeJobEnd(client, job.kind);
    const words = text.common.job;
    const name = jobName(job);
    const missing = shortcomingsOf(job);
    if (job.state === "succeeded" && missing.length > 0)
      notify({ variant: "warning", title: words.partly(name), body: [...missing, words.triedAgain].join(" "), about: id });
    else if (job.state === "succeeded") notify({ variant: "success", title: words.done(name), about: id });
    else if (job.state === "cancelled") notify({ variant: "info", title: words.cancelled(name), about: id });
    else
      notify({
        variant: "danger",
        title: words.failed(name),
        body: `${sentence(job.problem?.text ?? "")} ${tracesOf(job)}`,
        about: id,
      });
    onEnd?.(job);
  }, [id, job, client, notify, onEnd]);
  return null;
}
