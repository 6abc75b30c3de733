// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { nearest, timeTicks, valueTicks } from "./scale";

describe("valueTicks", () => {
  it.each([
    [1, false, [0, 0.5, 1]],
    [100, false, [0, 50, 100]],
    [7, false, [0, 2, 4, 6, 8]],
    [1048576, true, [0, 262144, 524288, 786432, 1048576]],
    [3 * 1048576, true, [0, 1048576, 2097152, 3145728]],
  ])("%d", (highest, binary, ticks) => expect(valueTicks(highest, binary)).toEqual(ticks));
});

describe("timeTicks", () => {
  const at = (text: string) => new Date(text).getTime() / 1000;
  const local = (seconds: number) => new Date(seconds * 1000).toTimeString().slice(0, 5);

  it("are round in local time", () => {
    const hour = timeTicks(at("2026-11-22T09:07:00Z"), at("2026-11-22T10:07:00Z"));
    expect(hour.days).toBe(false);
    expect(hour.times.map((time) => local(time).slice(3))).toEqual(["45", "00", "15", "30"]);
  });
  it("are midnights where the range is long", () => {
    const week = timeTicks(at("2026-11-16T09:07:00Z"), at("2026-11-22T09:07:00Z"));
    expect(week.days).toBe(true);
    expect(week.times).toHaveLength(6);
    expect(new Set(week.times.map(local))).toEqual(new Set(["00:00"]));
  });
  it.each([
    ["2026-11-01", "2026-10-29T09:07:00Z", "2026-11-04T09:07:00Z"],
    ["2026-03-08", "2026-03-05T09:07:00Z", "2026-03-11T09:07:00Z"],
  ])("are each day once while summer time changes on %s", (_, from, to) => {
    const { times } = timeTicks(at(from), at(to));
    expect(times).toHaveLength(6);
    expect(new Set(times.map(local))).toEqual(new Set(["00:00"]));
    expect(new Set(times.map((time) => new Date(time * 1000).getDate())).size).toBe(6);
  });
  it("end with the range after summer time", () => {
    const end = at("2026-11-04T02:45:00Z");
    expect(timeTicks(at("2026-10-29T09:07:00Z"), end).times.at(-1)).toBeLessThanOrEqual(end);
  });
  it.each([1, 3, 5, 10])("are few in %d years", (years) => {
    const { times } = timeTicks(at(`${2026 - years}-11-22T00:00:00Z`), at("2026-11-22T00:00:00Z"));
    expect(times.length).toBeGreaterThan(2);
    expect(times.length).toBeLessThan(8);
  });
});

describe("nearest", () => {
  const times = [10, 20, 30];
  it.each([
    [-5, 0],
    [14, 0],
    [16, 1],
    [29, 2],
    [99, 2],
  ])("%d", (at, place) => expect(nearest(times, at)).toBe(place));
  it("is the only one of one", () => expect(nearest([10], 50)).toBe(0));
});
