// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { formatAgo, formatDuration, formatExactTime, formatTime } from "./time";

const AT = "2026-11-22T09:30:00.000Z";
const NOW = Date.parse(AT);

describe("times", () => {
  it("are local, without a zone", () => {
    // vitest runs with TZ=America/St_Johns (package.json): its half-hour offset cannot be mistaken for UTC.
    expect(formatTime(AT)).toMatch(/Nov 22, 2026, 6:00/);
  });
  it("have the zone on request", () => expect(formatExactTime(AT)).toMatch(/Sunday.*6:00:00.*GMT-3:30/));
});

describe("formatAgo", () => {
  it.each([
    [20, "now"],
    [300, "5 minutes ago"],
    [7200, "2 hours ago"],
    [86_400, "yesterday"],
    [864_000, "10 days ago"],
    [-300, "in 5 minutes"],
  ])("%d s", (seconds, text) => expect(formatAgo(AT, NOW + seconds * 1000)).toBe(text));
});

describe("formatDuration", () => {
  it.each([
    [0, "0 s"],
    [59_400, "59 s"],
    [65_000, "1 min 5 s"],
    [3_900_000, "1 h 5 min"],
    [-5, "0 s"],
  ])("%d ms", (milliseconds, text) => expect(formatDuration(milliseconds)).toBe(text));
});
