// SPDX-License-Identifier: Apache-2.0
import type { Datastore } from "../../api/types";

/** What hosts believe to have of a pool, in bytes: the sizes of all that is served of it. */
export function provisioned(pool: string, stores: readonly Datastore[]): number {
  return stores
    .filter((store) => store.pool === pool && store.state === "active")
    .reduce((sum, store) => sum + Number(store.size), 0);
}
