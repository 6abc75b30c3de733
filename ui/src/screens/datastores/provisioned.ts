// SPDX-License-Identifier: Apache-2.0
import type { Datastore } from "../../api/types";

/** Bytes that a pool offers to hosts: the sizes of all its datastores. */
export function provisioned(pool: string, stores: readonly Datastore[]): number {
  return stores
    .filter((store) => store.pool === pool && store.state === "active")
    .reduce((sum, store) => sum + Number(store.size), 0);
}
