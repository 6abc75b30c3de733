// SPDX-License-Identifier: Apache-2.0
/** A dialog for a change without a job: sends it once, requests outdated data again, and reports success. */

import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Outcome } from "../api/client";
import type { ApiProblem } from "../api/problem";
import { useToast } from "../shell/toasts";
import { SendDialog } from "./dialog";
import { sendKnown, type Known, type SentWith } from "./known";
import { useSubmission } from "./use-submission";

interface Props<Body, Answer> {
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
  readonly ask: (body: Body, headers: SentWith) => Promise<Outcome<Answer>>;
  /** The changed object, if it has a version. */
  readonly known?: Known;
  readonly ready?: boolean;
  /** Query keys that the change invalidates. */
  readonly changes: readonly string[];
  /** Message after success, where the page does not show the result. */
  readonly done?: string;
  readonly onDone?: (answer: NonNullable<Answer>) => void;
  readonly onClose: () => void;
  readonly children?: (problem: ApiProblem | null) => ReactNode;
}

export function ChangeDialog<Body, Answer>(props: Props<Body, Answer>) {
  const { body, ask, known, ready = true, changes, done, onDone, onClose, children, ...dialog } = props;
  const client = useQueryClient();
  const notify = useToast();
  const { send, pending, problem } = useSubmission(
    (body: Body, key: string) => sendKnown((headers) => ask(body, headers), key, known),
    (answer) => {
      for (const name of changes) void client.invalidateQueries({ queryKey: [name] });
      if (done !== undefined) notify({ variant: "success", title: done });
      onClose();
      onDone?.(answer);
    },
  );
  return (
    <SendDialog
      {...dialog}
      ready={!known?.opening && ready}
      body={JSON.stringify(body(false))}
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
