// SPDX-License-Identifier: Apache-2.0
/** Sends a form once, even if the button is pressed repeatedly or the connection breaks, and returns the problem. */

import { useCallback, useRef, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { asProblem, type ApiProblem } from "../api/problem";
import { refused } from "../session/session";

interface Submission<Body, Answer> {
  readonly send: (body: Body) => Promise<Answer | undefined>;
  readonly pending: boolean;
  readonly problem: ApiProblem | null;
  /** Problem of a field or of a part of it, as the service reports it. */
  readonly fieldProblem: (name: string) => string | undefined;
  readonly forget: () => void;
}

/**
 * `send` gets the request and an idempotency key. The key stays the same while the outcome is unknown and the same request is
 * sent again: the service carries it out at most once.
 */
export function useSubmission<Body, Answer>(
  send: (body: Body, key: string) => Promise<Answer>,
  onDone?: (answer: Answer) => void,
): Submission<Body, Answer> {
  const client = useQueryClient();
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const attempt = useRef<{ key: string; body: string } | null>(null);

  const submit = useCallback(
    async (body: Body) => {
      const json = JSON.stringify(body);
      if (attempt.current?.body !== json) attempt.current = { key: crypto.randomUUID(), body: json };
      setPending(true);
      setProblem(null);
      try {
        const answer = await send(body, attempt.current.key);
        attempt.current = null;
        onDone?.(answer);
        return answer;
      } catch (error) {
        const refusal = asProblem(error);
        if (refusal.effect === "nothing-changed") attempt.current = null;
        refused(client, refusal);
        setProblem(refusal);
        return undefined;
      } finally {
        setPending(false);
      }
    },
    [send, onDone, client],
  );

  return {
    send: submit,
    pending,
    problem,
    fieldProblem: useCallback((name: string) => problem?.at(name), [problem]),
    forget: useCallback(() => setProblem(null), []),
  };
}
