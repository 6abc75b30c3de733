// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { expect, it } from "vitest";
import { scanText } from "./scan";

const scan = { state: "finished", started: "2026-11-22T09:30:00Z", ended: "2026-11-22T10:30:00Z", progress: 1 };

it.each([
  ["scrub", "0", 0, "Scrub found no errors"],
  ["scrub", "0", 2, "Scrub: 2 errors"],
  ["scrub", "3221225472", 0, "Scrub repaired 3 GiB, no errors left"],
  ["scrub", "3221225472", 1, "Scrub repaired 3 GiB, 1 error left"],
  ["resilver", "3221225472", 0, "Resilver wrote 3 GiB, no errors left"],
])("a %s that repaired %s bytes and left %i errors", (function_, repaired, errors, expected) => {
  expect(scanText({ ...scan, function: function_, repaired, errors })).toBe(expected);
});
