// SPDX-License-Identifier: Apache-2.0
/** Failed requests, in one form for all screens. */

import type { components } from "./schema";

export type ProblemDocument = components["schemas"]["Problem"];

/** What a failed request has changed: the reader must know that before sending it again. */
export type Effect = "nothing-changed" | "unknown";

/** The service refused (RFC 9457), or did not respond (`status` 0). */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly fields: ReadonlyMap<string, string>;
  readonly blocking: readonly string[];
  readonly canForce: boolean;
  readonly retryAfter: number | null;
  /** Time of the next attempt in milliseconds since 1970; otherwise 0. */
  readonly retryAt: number;
  readonly effect: Effect;

  constructor(status: number, code: string, detail: string, more: Partial<ProblemDocument> = {}, effect?: Effect) {
    super(detail);
    this.name = "ApiProblem";
    this.status = status;
    this.code = code;
    this.fields = new Map((more.errors ?? []).map((fieldError) => [fieldError.field, fieldText(fieldError)]));
    this.blocking = more.blocking ?? [];
    this.canForce = more.can_force ?? false;
    this.retryAfter = more.retry_after ?? null;
    this.retryAt = this.retryAfter === null ? 0 : Date.now() + this.retryAfter * 1_000;
    // A refusal has changed nothing. After a fault of the service or without a response the outcome is unknown.
    this.effect = effect ?? (status >= 400 && status < 500 ? "nothing-changed" : "unknown");
  }

  /** Problem of a field or of a part of it ("iqns.0"). */
  at(name: string): string | undefined {
    return [...this.fields].find(([field]) => isWithin(field, name))?.[1];
  }

  /** No response. */
  get isConnection(): boolean {
    return this.status === 0;
  }

  /** The session has ended. */
  get isSession(): boolean {
    return this.status === 401;
  }
}

/** Whether a field is the named field or a part of it. */
export function isWithin(field: string, name: string): boolean {
  return field === name || field.startsWith(`${name}.`);
}

function fieldText(fieldError: { reason: string; allowed?: string }): string {
  return fieldError.allowed ? `${fieldError.reason}; allowed: ${fieldError.allowed}` : fieldError.reason;
}

/** The problem of a failed response. If its body is not a problem document, no details are shown. */
export function problemOf(status: number, body: unknown): ApiProblem {
  if (isProblem(body)) return new ApiProblem(status, body.code, body.detail, body);
  return new ApiProblem(status, "no_problem_document", "");
}

/** The problem of a request without a response. */
export function connectionProblem(): ApiProblem {
  return new ApiProblem(0, "connection", "");
}

/** Converts any thrown value. Other errors than ApiProblem are faults of the console. */
export function asProblem(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  return new ApiProblem(-1, "console", error instanceof Error ? error.message : "", {}, "unknown");
}

function isProblem(body: unknown): body is ProblemDocument {
  return (
    typeof body === "object" &&
    body !== null &&
    "detail" in body &&
    typeof body.detail === "string" &&
    "code" in body &&
    typeof body.code === "string"
  );
}
