// SPDX-License-Identifier: Apache-2.0
/** What the service refuses with (RFC 9457). */

import type { ProblemDocument } from "../../src/api/problem";

/** What only the service's log may have. */
export const SECRET = "Traceback";

export function problemBody(status: number, more: Partial<ProblemDocument> = {}): ProblemDocument {
  const detail = status === 500 ? `${SECRET} (most recent call last): File "secret.py"` : "refused";
  const base = { type: "urn:zvaai:problem:refused", title: "", status, detail, code: "refused", errors: [], blocking: [] };
  return { ...base, can_force: false, retry_after: null, ...more };
}
