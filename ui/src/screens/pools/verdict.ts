// SPDX-License-Identifier: Apache-2.0
/** Verdict on a disk's SMART data. */

import type { Disk } from "../../api/types";

export type Smart = NonNullable<Disk["smart"]>;
export type Verdict = "unread" | "asleep" | "none" | NonNullable<Smart["severity"]> | "unknown" | "passed";

/** The appliance decides about severity, for its alerts too. A sleeping disk has no data yet. */
export function verdictOf(smart: Smart | null): Verdict {
  if (smart === null) return "unread";
  if (smart.severity !== null) return smart.severity;
  if (smart.asleep) return "asleep";
  if (!smart.available) return "none";
  return smart.passed === null ? "unknown" : "passed";
}
