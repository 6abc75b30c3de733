// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { RateHistory, rateBetween, type Sample } from "./rates";
import { estimatedSavedSeconds, exportOf, exportsOf, lunsOf, refusalsOf, totalsOf } from "./statistics";

const NOTHING = { operations: 0, bytes: 0, errors: 0, microseconds: 0 };

function sample(at: number, operations: number, bytes: number, microseconds = 0, exports = true): Sample {
  return { at, exports, totals: { read: { operations, bytes, errors: 0, microseconds }, write: NOTHING } };
}

describe("rateBetween", () => {
  it("divides by the time that has gone", () => {
    const rate = rateBetween(sample(10, 0, 0), sample(12, 100, 4096, 50_000));
    expect(rate).toEqual({ at: 12, readBytes: 2048, writeBytes: 0, readLatency: 0.5, writeLatency: null });
  });
  it("knows nothing across a restart of the target", () => {
    expect(rateBetween(sample(10, 100, 4096), sample(12, 1, 512))).toBeNull();
    expect(rateBetween(sample(12, 0, 0), sample(12, 1, 1))).toBeNull();
  });
  it("knows nothing when the exports come or go, but the LUNs alone meanwhile", () => {
    const [before, down, still, back] = [
      sample(0, 9, 9),
      sample(2, 9, 9, 0, false),
      sample(4, 9, 13, 0, false),
      sample(6, 9, 99),
    ];
    expect(rateBetween(before, down)).toBeNull();
    expect(rateBetween(down, still)?.readBytes).toBe(2);
    expect(rateBetween(still, back)).toBeNull();
  });
});

describe("RateHistory", () => {
  it("keeps five minutes, and counts no sample twice", () => {
    const history = new RateHistory();
    for (let at = 0; at <= 1000; at += 2) {
      history.take(sample(at, at, at));
      history.take(sample(at, at, at));
    }
    expect(history.rates).toHaveLength(150);
    expect(history.rates.at(-1)?.at).toBe(1000);
  });
});

describe("lunsOf", () => {
  it("takes what is not as described for nothing", () => {
    const luns = lunsOf({ luns: [{}, { uuid: 5, offload: "x", read: { bytes: -1, latency: null } }] });
    const none = { cloned: 0, copied: 0, zeroed: 0, reclaimed: 0, fallbacks: new Map() };
    expect(totalsOf(luns)).toEqual({ read: NOTHING, write: NOTHING, ...none });
  });
  it("tells only reasons that occurred", () => {
    const offload = {
      cloned_bytes: 8,
      copied_bytes: 4,
      zeroed_bytes: 2,
      unmapped_bytes: 1,
      fallback_bytes: { dirty: 4, thick: 0 },
    };
    const [lun] = lunsOf({ luns: [{ uuid: "u", offload }] });
    expect([...(lun?.fallbacks ?? [])]).toEqual([["dirty", 4]]);
    expect(lun?.cloned).toBe(8);
    const all = totalsOf(lunsOf({ luns: [{ offload }, { offload: { fallback_bytes: { dirty: 1, failed: 2 } } }] }));
    expect([...all.fallbacks]).toEqual([
      ["dirty", 5],
      ["failed", 2],
    ]);
  });
});

it("estimates a copy as read and written over the network", () => {
  expect(estimatedSavedSeconds({ cloned: 1e9, copied: 0, zeroed: 1e9 })).toBe(3);
});

describe("counters of an export", () => {
  const row = {
    export: "/nfs1",
    datastore: "a",
    clone: { operations: 3, errors: 2, refused: 1, latency: {} },
    offload: {
      cloned_bytes: 10,
      copied_bytes: 5,
      hole_bytes: 1,
      reserved_bytes: 7,
      fallback_bytes: { misaligned: 5, unproven: 0 },
    },
  };
  it("are the sum of its rows, and of no other's", () => {
    const match = exportOf({ exports: [row, { ...row, export: "/srv/zvaai/nfs1" }, { ...row, datastore: null }] }, "a");
    expect(match?.operations.clone).toEqual({ operations: 6, errors: 4, refused: 2 });
    expect(match?.operations.job).toEqual({ operations: 0, errors: 0, refused: 0 });
    expect([match?.cloned, match?.copied, match?.holes, match?.reserved]).toEqual([20, 10, 2, 14]);
    expect([...(match?.fallbacks ?? [])]).toEqual([["misaligned", 10]]);
  });
  it("are absent without requests", () => {
    expect(exportOf({ exports: [row] }, "b")).toBeUndefined();
    expect(exportsOf({ exports: [] })).toBeUndefined();
    const read = { operations: 9, bytes: 4096 };
    expect(exportOf({ exports: [{ export: "/nfs1", datastore: "a", read, write: read }] }, "a")).toBeUndefined();
  });
  it("are summed over all exports, with what hosts have to do themselves", () => {
    const refused = { operations: 1, errors: 1, refused: 1 };
    const other = { export: "/nfs2", datastore: "b", reserve: refused, statistics: refused, offload: { cloned_bytes: 1 } };
    const all = exportsOf({ exports: [row, other] });
    expect([all?.cloned, all?.copied, all?.reserved]).toEqual([11, 5, 7]);
    expect(all && refusalsOf(all)).toBe(2);
  });
});
