// SPDX-License-Identifier: Apache-2.0
/** What can become a datastore: volumes and file systems that are not one, and copies of one. */

import type { Datastore } from "../../api/types";

type Placed = Pick<Datastore, "dataset" | "state">;

export function adoptable<Dataset extends { readonly dataset: string }>(
  datasets: readonly Dataset[],
  stores: readonly Placed[],
): readonly Dataset[] {
  const taken = new Set(stores.filter(({ state }) => state !== "copy").map(({ dataset }) => dataset));
  return datasets.filter(({ dataset }) => !taken.has(dataset));
}
