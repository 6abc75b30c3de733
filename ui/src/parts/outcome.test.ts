// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { text } from "../text";
import { shortcomingsOf, tracesOf } from "./outcome";

describe("tracesOf", () => {
  it("says that the unfinished part was undone only if the appliance reports it", () => {
    const problem = { code: "conflict", text: "no room", left: null };
    expect(tracesOf({ problem: { ...problem, undone: true } })).toBe(text.common.job.tookBack);
    expect(tracesOf({ problem: { ...problem, undone: false } })).toBe(text.common.job.check);
  });

  it("says what could not be taken back, and why", () => {
    const problem = { code: "conflict", text: "no room", undone: false, left: "pool tank: suspended" };
    expect(tracesOf({ problem })).toBe(text.common.job.left("pool tank: suspended"));
  });
});

describe("shortcomingsOf", () => {
  it("has what could not be served", () => {
    expect(shortcomingsOf({ result: { pool: "tank", problems: ["vmfs1: no device"] } })).toEqual(["vmfs1: no device"]);
    expect(shortcomingsOf({ result: { datastore: "a", served: false, problem: "no device" } })).toEqual(["no device"]);
  });

  it("has nothing of a job that is under way, or has none", () => {
    expect(shortcomingsOf({ result: null })).toEqual([]);
    expect(shortcomingsOf({ result: { pool: "tank" } })).toEqual([]);
    expect(shortcomingsOf({ result: { datastore: "a", served: true, problem: null } })).toEqual([]);
  });
});
