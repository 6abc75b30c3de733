// SPDX-License-Identifier: Apache-2.0
/** Verdict on a disk's SMART data. */

import type { Disk } from "../../api/types";

export type Smart = NonNullable<Disk["smart"]>;
export type Verdict = "unread" | "none" | "asleep" | "failed" | "warning" | "passed" | "unknown";

/** One word. Counters that grow before a disk fails are a warning, even if the disk reports itself healthy. */
export function verdictOf(smart: Smart | null): Verdict {
  if (smart === null) return "unread";
  if (!smart.available) return "none";
  if (smart.asleep) return "asleep";
  if (smart.passed === false) return "failed";
  const counted = (smart.reallocated ?? 0) + (smart.pending ?? 0) + (smart.uncorrectable ?? 0) + smart.critical_warning;
  const hot = smart.temperature !== null && smart.temperature_limit !== null && smart.temperature > smart.temperature_limit;
  const worn =
    (smart.wear ?? 0) >= 100 || (smart.spare !== null && smart.spare_limit !== null && smart.spare < smart.spare_limit);
  if (counted > 0 || hot || worn) return "warning";
  return smart.passed === null ? "unknown" : "passed";
}
