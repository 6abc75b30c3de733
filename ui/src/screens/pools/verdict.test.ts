// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Disk } from "../../api/types";
import { verdictOf } from "./verdict";

const GOOD: NonNullable<Disk["smart"]> = {
  available: true,
  reason: "",
  asleep: false,
  passed: true,
  temperature: 30,
  temperature_limit: 60,
  power_on_hours: 100,
  reallocated: 0,
  pending: 0,
  uncorrectable: 0,
  wear: 3,
  spare: 100,
  spare_limit: 10,
  critical_warning: 0,
  read_at: "2026-11-22T09:30:00Z",
};

it.each([
  ["passed", {}],
  ["none", { available: false, reason: "no SMART", passed: null }],
  ["asleep", { asleep: true }],
  ["failed", { passed: false, reallocated: 5 }],
  ["warning", { reallocated: 1 }],
  ["warning", { pending: 1 }],
  ["warning", { uncorrectable: 1, passed: null }],
  ["hot", { critical_warning: 2, passed: false }],
  ["hot", { critical_warning: 2, passed: null, uncorrectable: 1 }],
  ["hot", { temperature: 61 }],
  ["failed", { critical_warning: 4, passed: false }],
  ["failed", { critical_warning: 6, passed: false }],
  ["failed", { critical_warning: 1, passed: null }],
  ["warning", { wear: 100 }],
  ["warning", { spare: 9 }],
  ["unknown", { passed: null, temperature: null, spare: null, wear: null, reallocated: null }],
])("%s: %j", (verdict, part) => expect(verdictOf({ ...GOOD, ...part })).toBe(verdict));

it("says that the disk was not read", () => expect(verdictOf(null)).toBe("unread"));
