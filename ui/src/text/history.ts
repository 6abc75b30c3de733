// SPDX-License-Identifier: Apache-2.0
import type { Range } from "../api/queries";

export const history = {
  title: "History",
  range: "Range",
  ranges: { hour: "Hour", day: "Day", week: "Week", month: "Month", year: "Year" } satisfies Record<Range, string>,
  newest: "Newest values. Point at a chart for the values of a time.",
  cursor: (chart: string) => `${chart}: time of the values`,
  nothing: "No values in this range yet. The first ones come within a minute.",
  operations: "Operations per second",
  throughput: "Throughput",
  latency: "Latency",
  offloads: "Offloads",
  capacity: "Capacity",
  read: "Read",
  write: "Write",
  median: "Median",
  p99: "99 %",
  cloned: "Cloned",
  copied: "Copied",
  zeroed: "Zeroed",
  reclaimed: "Reclaimed",
  used: "Used",
  snapshots: "Snapshots",
  size: "Size",
  fullAt: (day: string) => `If usage grows as in the last 30 days, the pool is full on ${day}.`,
  notForeseen: "Full: not foreseen. A forecast needs a day of history, and growth.",
};
