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
  severity: null,
  read_at: "2026-11-22T09:30:00Z",
};

it.each([
  ["passed", {}],
  ["warning", { severity: "warning" }],
  ["critical", { severity: "critical", passed: null }],
  ["critical", { severity: "critical", available: false, asleep: true, passed: null }],
  ["none", { available: false, reason: "no SMART", passed: null }],
  ["asleep", { available: false, asleep: true, passed: null }],
  ["unknown", { passed: null }],
] as const)("%s: %j", (verdict, part) => expect(verdictOf({ ...GOOD, ...part })).toBe(verdict));

it("says that the disk was not read", () => expect(verdictOf(null)).toBe("unread"));
