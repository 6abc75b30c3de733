// SPDX-License-Identifier: Apache-2.0
/** A dialog that starts a job: sends it once, says that the job runs in the background, and passes the job on. */

import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Outcome } from "../api/client";
import type { ApiProblem } from "../api/problem";
import type { Job } from "../api/types";
import { SendDialog } from "./dialog";
import { jobName } from "./job";
import { sendKnown, type Known, type SentWith } from "./known";
import { useSubmission } from "./use-submission";
import { useToast } from "../shell/toasts";
import { text } from "../text";

/** Properties of each dialog that starts a job. */
export interface Place {
  /** Gets the started job. */
  readonly onBegin: (job: string) => void;
  readonly onClose: () => void;
}

interface Props<Body> extends Place {
  readonly title: string;
  readonly lead?: string;
  readonly submit: string;
  readonly danger?: boolean;
  /** A text that must be typed before sending. */
  readonly confirm?: string;
  /** Fields whose problems `children` shows. */
  readonly knownFields?: readonly string[];
  /** The request's body: the same body is carried out once, however often it is sent. */
  readonly body: (force: boolean) => Body;
  /** Whether the user may use force. */
  readonly mayForce?: boolean;
  readonly ask: (body: Body, headers: SentWith) => Promise<Outcome<Job>>;
  /** The changed object, if it has a version. */
  readonly known?: Known;
  /** Whether it can be sent, given the last problem. */
  readonly ready?: (problem: ApiProblem | null) => boolean;
  readonly children?: (problem: ApiProblem | null) => ReactNode;
}

export function JobDialog<Body>({ body, ask, known, ready, onBegin, onClose, children, ...dialog }: Props<Body>) {
  const client = useQueryClient();
  const notify = useToast();
  const { send, pending, problem } = useSubmission(
    (body: Body, key: string) => sendKnown((headers) => ask(body, headers), key, known),
    (job: Job) => {
      void client.invalidateQueries({ queryKey: ["jobs"] });
      client.setQueryData(["jobs", job.id], job);
      notify({ variant: "info", title: text.common.job.started(jobName(job)), body: text.common.job.goOn, about: job.id });
      onBegin(job.id);
      onClose();
    },
  );
  return (
    <SendDialog
      {...dialog}
      body={JSON.stringify(body(false))}
      ready={!known?.opening && (ready?.(problem) ?? true)}
      pending={pending}
      problem={problem}
      news={known?.news}
      onSubmit={(force) => void send(body(force))}
      onClose={onClose}
    >
      {children?.(problem)}
    </SendDialog>
  );
}
