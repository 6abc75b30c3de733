// SPDX-License-Identifier: Apache-2.0
/** Operations per second, and latency. */

import { formatShort, formatWhole } from "./number";

export function formatOperations(value: number): string {
  return value < 100 ? formatShort(value) : formatWhole(value);
}

/** Latency in milliseconds. */
export function formatLatency(value: number): string {
  return `${formatOperations(value)} ms`;
}
