// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { changedOf, mergedOf } from "./changed";

const FIRST = { name: "hourly", datastores: ["a", "b"], keep: 24, group: null as string | null };

describe("changedOf", () => {
  it("is nothing in a form without input", () => {
    expect(changedOf(FIRST, { ...FIRST, datastores: ["a", "b"] })).toEqual({});
  });

  it("leaves out what stayed: somebody else may have changed it", () => {
    expect(changedOf(FIRST, { ...FIRST, name: "daily" })).toEqual({ name: "daily" });
    expect(changedOf(FIRST, { ...FIRST, datastores: ["a"] })).toEqual({ datastores: ["a"] });
  });

  it("has what was taken away, and what was not there at first", () => {
    expect(changedOf({ ...FIRST, group: "blue" }, FIRST)).toEqual({ group: null });
    expect(changedOf({}, FIRST)).toEqual(FIRST);
  });
});

describe("mergedOf", () => {
  it("keeps what was typed, and takes what somebody else has changed of the rest", () => {
    const typed = { ...FIRST, name: "daily" };
    const now = { ...FIRST, name: "weekly", keep: 48 };
    expect(mergedOf(FIRST, typed, now)).toEqual({ ...FIRST, name: "daily", keep: 48 });
  });

  it("is what is there now, where nothing was typed", () => {
    const now = { ...FIRST, datastores: ["c"] };
    expect(mergedOf(FIRST, { ...FIRST }, now)).toEqual(now);
  });
});
