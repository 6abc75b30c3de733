// SPDX-License-Identifier: Apache-2.0
/** Operations by the second, and how long they take. */

import { formatShort, formatWhole } from "./number";

export function formatOperations(value: number): string {
  return value < 100 ? formatShort(value) : formatWhole(value);
}

/** Of milliseconds. */
export function formatLatency(value: number): string {
  return `${formatOperations(value)} ms`;
}
