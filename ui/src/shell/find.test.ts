// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Datastore, Host, Job, Pool, Snapshot } from "../api/types";
import { find } from "./find";

const lists = {
  stores: [
    { id: "1", name: "old-gold", dataset: "tank/zvaai/old-gold" },
    { id: "2", name: "gold1", dataset: "tank/zvaai/gold1" },
  ] as Datastore[],
  hosts: [{ id: "3", name: "esx1", iqns: ["iqn.1998-01.com.vmware:esx1"], addresses: ["192.0.2.9"] }] as unknown as Host[],
  pools: [{ name: "tank" }] as Pool[],
  snapshots: [{ datastore: "2", name: "before" }] as Snapshot[],
  jobs: [{ id: "4", kind: "datastore.create", name: "gold1" }] as Job[],
};
const to = (search: string) => find(search, lists).map((match) => match.to);

it("finds by name, identifier and kind, names that begin so first", () => {
  expect(to("GOLD")).toEqual(["/datastores/2/overview", "/datastores/2/snapshots", "/datastores/1/overview", "/jobs/4"]);
  expect(to("192.0.2.9")).toEqual(["/hosts/3"]);
  expect(to("tank")).toEqual(["/pools/tank", "/datastores/1/overview", "/datastores/2/overview"]);
  expect(to("datastore gold1")).toEqual(["/datastores/2/overview", "/jobs/4"]);
  expect(to("before gold1")).toEqual(["/datastores/2/snapshots"]);
  expect(to(" ")).toEqual([]);
});
