// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Datastore, Pool } from "../../api/types";
import {
  requestOf,
  clientsProblem,
  isForAnyone,
  isTooThick,
  nameProblem,
  NOTHING_YET,
  recordSizeOf,
  sizeProblem,
  vmfsProblem,
} from "./form-values";
import { matches, sorted } from "./filter";

function store(more: Partial<Datastore>): Datastore {
  return {
    id: "1",
    name: "one",
    pool: "tank",
    dataset: "tank/one",
    state: "active",
    host_groups: [],
    lun: 1,
    ...more,
  } as Datastore;
}

describe("form values", () => {
  it("is named as the service wants it", () => {
    const taken = [store({ name: "vmfs1" }), store({ name: "old", state: "deleted" })];
    expect(nameProblem({ ...NOTHING_YET, name: "vmfs2" }, taken)).toBeUndefined();
    expect(nameProblem({ ...NOTHING_YET, name: "old" }, taken)).toBeUndefined();
    for (const name of ["", "-a", "ä", "vmfs1", "x".repeat(43)]) {
      expect(nameProblem({ ...NOTHING_YET, name }, taken)).toBeDefined();
    }
  });
  it("knows a network of all addresses", () => {
    const all = ["0.0.0.0/0", "192.0.2.1, ::/0", "0.0.0.0/0.0.0.0", "0.0.0.0/00"];
    expect(all.filter((clients) => !isForAnyone({ clients }))).toEqual([]);
    expect(["192.0.2.0/24 10.0.0.0/10", "192.0.2.0/255.255.255.0", ""].filter((clients) => isForAnyone({ clients }))).toEqual([]);
  });
  it("warns of a thick size above what the pool has available, parity left out", () => {
    const pool = { size: String(6n << 40n), free: String(6n << 40n), available: String(4n << 40n) } as Pool;
    const tooThick = (size: string, of: Pool | undefined) => isTooThick({ ...NOTHING_YET, thick: true, size }, of);
    expect([tooThick("4 TiB", pool), tooThick("5 TiB", pool)]).toEqual([false, true]);
    expect([tooThick("5 TiB", { ...pool, available: null }), tooThick("5 TiB", undefined)]).toEqual([false, false]);
  });
  it.each(["1 GiB", "64 TiB", "1.5 TiB"])("takes %s", (size) => expect(sizeProblem({ ...NOTHING_YET, size })).toBeUndefined());
  it.each(["", "5", "1023 MiB", "65T"])("refuses %s", (size) => expect(sizeProblem({ ...NOTHING_YET, size })).toBeDefined());
  it("has a threshold of 1 to 99 percent", () => {
    expect(["", "1", "99"].map((threshold) => vmfsProblem({ ...NOTHING_YET, threshold }))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    for (const threshold of ["0", "100", "a", "5.5"]) expect(vmfsProblem({ ...NOTHING_YET, threshold })).toBeDefined();
    for (const lun of ["", "0", "1023"]) expect(vmfsProblem({ ...NOTHING_YET, lun })).toBeUndefined();
    for (const lun of ["1024", "-1", "a"]) expect(vmfsProblem({ ...NOTHING_YET, lun })).toBeDefined();
  });
  it("has of each kind what that has, whatever was chosen for the other before", () => {
    const clients = "192.0.2.1, 2001:db8::/32";
    const chosen = { ...NOTHING_YET, name: "a", size: "1 GiB", thick: true, threshold: "no", clients, sync: "always" } as const;
    const nfs = requestOf({ ...chosen, kind: "nfs" });
    expect(nfs).not.toHaveProperty("record_size");
    expect(requestOf({ ...chosen, kind: "nfs", recordSize: 65536 })).toHaveProperty("record_size", 65536);
    expect(requestOf({ ...chosen, recordSize: 65536 })).not.toHaveProperty("record_size");
    expect(nfs.clients).toEqual(["192.0.2.1", "2001:db8::/32"]);
    expect(nfs).toMatchObject({ thick: true, sync: "always" });
    expect(nfs).not.toHaveProperty("block_size");
    expect(vmfsProblem({ ...chosen, kind: "nfs" })).toBeUndefined();
    expect(vmfsProblem(chosen)).toBeDefined();
    expect(requestOf(chosen)).not.toHaveProperty("clients");
  });
  it.each([
    ["mirror", false, 65536],
    ["mirror", true, 65536],
    ["raidz2", false, 65536],
    ["raidz2", true, 131072],
    ["draid1", true, 131072],
    [null, true, null],
  ] as const)("has on %s, thick %s, the record size %s by default", (kind, thick, size) => {
    const pool = kind === null ? undefined : ({ vdevs: [{ kind: "disk" }, { kind }] } as Pool);
    expect(recordSizeOf({ ...NOTHING_YET, kind: "nfs", thick }, pool)).toBe(size);
    expect(recordSizeOf({ ...NOTHING_YET, kind: "nfs", thick, recordSize: 16384 }, pool)).toBe(16384);
  });
  it.each(["", "192.0.2.1", "192.0.2.0/24 2001:db8::1"])("takes clients %s", (clients) =>
    expect(clientsProblem({ ...NOTHING_YET, kind: "nfs", clients })).toBeUndefined(),
  );
  it.each(["esx1.example", "*", "192.0.2.1 all"])("refuses clients %s", (clients) =>
    expect(clientsProblem({ ...NOTHING_YET, kind: "nfs", clients })).toBeDefined(),
  );
  it("is requested in whole MiB", () => {
    expect(requestOf({ ...NOTHING_YET, name: "a", size: "1.0000001 GiB" }).size).toBe(String(1n << 30n));
  });
});

describe("the list", () => {
  const groups = [{ id: "g", name: "cluster", etag: "", hosts: [], disabled_offloads: [], created_at: "" }];
  it("finds by all words, in name, pool and host groups", () => {
    const grouped = store({ host_groups: ["g"] });
    const filter = { search: "CLUST one", state: "", pool: "" };
    expect(matches(grouped, filter, groups)).toBe(true);
    expect(matches(grouped, { ...filter, search: "one two" }, groups)).toBe(false);
    expect(matches(grouped, { ...filter, state: "deleted" }, groups)).toBe(false);
    expect(matches(grouped, { ...filter, pool: "other" }, groups)).toBe(false);
  });
  it("sorts numbers in names as numbers, and what has no LUN last", () => {
    const stores = [store({ name: "v10", lun: null }), store({ name: "v9", lun: 3 })];
    expect(sorted(stores, "name", "asc").map((row) => row.name)).toEqual(["v9", "v10"]);
    expect(sorted(stores, "lun", "asc").map((row) => row.name)).toEqual(["v9", "v10"]);
  });
  it("sorts by load, the busiest first, and last what has none", () => {
    const stores = ["idle", "unknown", "busy"].map((name) => store({ id: name, name }));
    const loads = new Map([10, 2000].map((bytes, index) => [index ? "busy" : "idle", { datastore: "", operations: 1, bytes }]));
    expect(sorted(stores, "load", "desc", loads).map((row) => row.name)).toEqual(["busy", "idle", "unknown"]);
  });
});
