// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Datastore, Group, History, Host, IscsiSession } from "../../api/types";
import { lunsOf } from "../../measures/statistics";
import { freeOf, hostsWithPaths, loadNow, vaaiOf } from "./summary";

describe("freeOf", () => {
  const store = (size: number, referenced: number, available: number) =>
    ({ kind: "nfs", size: String(size), referenced: String(referenced), available: String(available) }) as Datastore;
  it("is what is left of the size", () => expect(freeOf(store(100, 40, 900))).toBe(60));
  it("is no more than the pool has", () => expect(freeOf(store(100, 40, 10))).toBe(10));
  it("is what the pool has without a quota", () => expect(freeOf(store(0, 40, 10))).toBe(10));
  it("is not known of VMFS", () => expect(freeOf({ ...store(100, 40, 900), kind: "vmfs" })).toBeNull());
  it("is what files of a thick datastore leave, with their whole size", () => {
    const thick = { ...store(100, 40, 900), thick: true };
    expect(freeOf(thick)).toBeNull();
    expect(freeOf(thick, "70")).toBe(30);
    expect(freeOf(thick, "170")).toBe(0);
  });
  it("is never negative", () => expect(freeOf(store(100, 140, 10))).toBe(0));
});

it("hosts without a path come first", () => {
  const host = (name: string, group: string | null) => ({ name, group, iqns: [`iqn.2026-11.test:${name}`] }) as Host;
  const path = (name: string) => ({ initiator: `iqn.2026-11.test:${name}` }) as IscsiSession;
  const reached = hostsWithPaths(
    { host_groups: ["a"] } as Datastore,
    [host("esx1", "a"), host("esx2", "a"), host("esx3", "b"), host("esx4", null)],
    [path("esx1"), path("esx1"), path("esx3")],
  );
  expect(reached.map((row) => [row.host.name, row.paths])).toEqual([
    ["esx2", 0],
    ["esx1", 2],
  ]);
});

describe("vaaiOf", () => {
  const counters = (fallback_bytes: Record<string, number>) => lunsOf({ luns: [{ offload: { fallback_bytes } }] })[0];
  const group = { disabled_offloads: ["unmap"] } as unknown as Group;
  it("is not known of what is not served", () => expect(vaaiOf([], undefined)).toBe("Not served"));
  it("is well", () => expect(vaaiOf([], counters({}))).toBe("All offloads enabled; all copies shared blocks"));
  it("says what is off, and what was copied", () =>
    expect(vaaiOf([group], counters({ dirty: 2048, thick: 1024 }))).toBe(
      "UNMAP is off for some hosts; 3 KiB copied, not cloned",
    ));
});

describe("loadNow", () => {
  const none = [null];
  const history = (series: Partial<History["load"]["series"]>) =>
    ({
      load: {
        series: {
          ...{ read_operations: none, write_operations: none, read_bytes: none, write_bytes: none, p50_ms: none, p99_ms: none },
          ...series,
        },
      },
    }) as History;
  it("is not known at first", () => expect(loadNow(history({}))).toBeNull());
  it("has the newest values", () => {
    const values = { read_operations: [1, 120, null], write_operations: [1, 3, null], read_bytes: [0, 1048576, null] };
    expect(loadNow(history(values))).toBe("120 reads/s, 3 writes/s, 1 MiB/s");
    expect(loadNow(history({ ...values, p50_ms: [0.4], p99_ms: [7] }))).toBe(
      "120 reads/s, 3 writes/s, 1 MiB/s, median 0.4 ms, 99 % 7 ms",
    );
  });
});
