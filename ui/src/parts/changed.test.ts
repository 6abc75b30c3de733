import { describe, expect, it } from "vitest";
import { changedOf } from "./changed";

const FIRST = { name: "hourly", datastores: ["a", "b"], keep: 24, group: null as string | null };

describe("changedOf", () => {
  it("is nothing of a form that was only looked at", () => {
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
