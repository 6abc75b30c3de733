// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { adoptable } from "./adoptable";

const datasets = ["active", "deleted", "copy", "unknown"].map((name) => ({ dataset: `tank/${name}` }));

it("offers what is no datastore, and copies", () => {
  const stores = (["active", "deleted", "copy"] as const).map((state) => ({ dataset: `tank/${state}`, state }));
  expect(adoptable(datasets, stores)).toEqual([{ dataset: "tank/copy" }, { dataset: "tank/unknown" }]);
});

it("offers nothing of a missing datastore, which has no dataset", () => {
  expect(adoptable([], [{ dataset: "", state: "missing" }])).toEqual([]);
});
