// SPDX-License-Identifier: Apache-2.0
/** Verdict on a disk's SMART data. */

import type { Disk } from "../../api/types";

export type Smart = NonNullable<Disk["smart"]>;
export type Verdict = "unread" | "none" | "asleep" | "failed" | "hot" | "warning" | "passed" | "unknown";

/** Bit of an NVMe critical warning: the temperature is outside its limits. */
const TEMPERATURE = 2;

/** Counters that grow before a disk fails are a warning, even if the disk reports itself healthy. */
export function verdictOf(smart: Smart | null): Verdict {
  if (smart === null) return "unread";
  if (!smart.available) return "none";
  if (smart.asleep) return "asleep";
  // smartctl reports an NVMe disk with any critical warning as not passed, even if the disk is only too hot.
  const tooHot = smart.critical_warning === TEMPERATURE;
  if (!tooHot && (smart.critical_warning !== 0 || smart.passed === false)) return "failed";
  const aboveLimit =
    smart.temperature !== null && smart.temperature_limit !== null && smart.temperature > smart.temperature_limit;
  if (tooHot || aboveLimit) return "hot";
  const counted = (smart.reallocated ?? 0) + (smart.pending ?? 0) + (smart.uncorrectable ?? 0);
  const worn =
    (smart.wear ?? 0) >= 100 || (smart.spare !== null && smart.spare_limit !== null && smart.spare < smart.spare_limit);
  if (counted > 0 || worn) return "warning";
  return smart.passed === null ? "unknown" : "passed";
}
