// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { countOf, formatSpan, retainedOf, minutesOf, reachOf, reachOfAll, unitOf, type Unit } from "./interval";

it.each<[string, Unit, number | null]>([
  ["15", "minutes", 15],
  ["4", "minutes", null],
  ["1", "hours", 60],
  ["25", "minutes", null],
  ["5", "hours", null],
  ["36", "hours", null],
  ["48", "hours", 2880],
  ["366", "days", 527_040],
  ["367", "days", null],
  ["1.5", "hours", null],
  ["-1", "days", null],
  ["", "days", null],
])("minutesOf %j %s", (typed, unit, minutes) => expect(minutesOf(typed, unit)).toBe(minutes));

it.each([
  ["1", 1],
  ["1000", 1000],
  ["1001", null],
  ["0", null],
  ["x", null],
])("keptOf %j", (typed, retained) => expect(retainedOf(typed)).toBe(retained));

it.each<[number, Unit, number]>([
  [90, "minutes", 90],
  [120, "hours", 2],
  [1440, "days", 1],
  [2160, "hours", 36],
])("%d minutes are shown in %s", (minutes, unit, count) => expect([unitOf(minutes), countOf(minutes)]).toEqual([unit, count]));

it.each([
  [15, "15 minutes"],
  [60, "1 hour"],
  [15 * 96, "1 day"],
  [36 * 60, "36 hours"],
  [15 * 1000, "10 days"],
  [15 * 999, "10 days"],
  [15 * 900, "225 hours"],
])("formatSpan %d", (minutes, expected) => expect(formatSpan(minutes)).toBe(expected));

it.each([
  [60, 24, "23 hours"],
  [1440, 8, "7 days"],
  [60, 1, "the newest only"],
])("reachOf %d minutes, %d kept", (minutes, retained, expected) => expect(reachOf(minutes, retained)).toBe(expected));

const NO_TIERS = { hourly: 0, daily: 0, weekly: 0, monthly: 0 };
it.each([
  [{ every_minutes: 60, keep: 48 }, "47 hours"],
  [{ every_minutes: 60, keep: 1 }, "the newest only"],
  [{ every_minutes: 15, keep: 4, hourly: 24, daily: 14 }, "13 days"],
  [{ every_minutes: 60, keep: 24, weekly: 8, monthly: 12 }, "330 days"],
  [{ every_minutes: 1440, keep: 1, hourly: 24 }, "23 days"], // 24 hours that have a snapshot
])("reachOfAll %j", (schedule, expected) => expect(reachOfAll({ ...NO_TIERS, ...schedule })).toBe(expected));
