// SPDX-License-Identifier: Apache-2.0
/** Client of the API: types of the OpenAPI document, CSRF token, idempotency keys, problems. */

import createClient, { type Middleware } from "openapi-fetch";
import { reportLost, reportReached } from "./connection";
import { connectionProblem, problemOf } from "./problem";
import type { paths } from "./schema";

/** CSRF token of the session, in memory only: a reloaded page requests it again. */
let csrfToken: string | null = null;

export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

/** Longer than the service waits for its worker: 60 s. */
const LONGEST_MS = 65_000;

const guard: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken !== null) request.headers.set("X-CSRF-Token", csrfToken);
    return new Request(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(LONGEST_MS)]) });
  },
  onResponse() {
    reportReached();
  },
  onError({ request, error }) {
    if (request.signal.aborted && error instanceof DOMException && error.name === "AbortError") return undefined;
    reportLost();
    return connectionProblem();
  },
};

/** Calls by path and method; `unwrap` returns the response's body. */
export const api = createClient<paths>({ baseUrl: window.location.origin, credentials: "same-origin" });
api.use(guard);

/** Result of a call. */
export interface Outcome<Body> {
  data?: Body;
  error?: unknown;
  response: Response;
}

/** The response's body. Throws ApiProblem. */
export async function unwrap<Body>(outcome: Promise<Outcome<Body>>): Promise<NonNullable<Body>> {
  const { data, error, response } = await outcome;
  if (!response.ok || data === undefined || data === null) throw problemOf(response.status, error);
  return data;
}

/** The header with which a repeated request is carried out once. */
export function idempotent(key: string): { "Idempotency-Key": string } {
  return { "Idempotency-Key": key };
}
