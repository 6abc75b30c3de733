// SPDX-License-Identifier: Apache-2.0
/** The filter of datastores. It is in the address, so a link or the back button shows the same list. */

import type { Datastore, Group, Load } from "../../api/types";
import { chosen } from "../../text/chosen";
import { freeOf } from "./summary";

export interface Filter {
  readonly search: string;
  readonly state: string;
  readonly pool: string;
}

export function filterOf(parameters: URLSearchParams): Filter {
  return {
    search: parameters.get("search") ?? "",
    state: parameters.get("state") ?? "",
    pool: parameters.get("pool") ?? "",
  };
}

/** Names of the host groups that see the datastore. */
export function groupNames(store: Datastore, groups: readonly Group[]): string[] {
  return store.host_groups.map((id) => groups.find((group) => group.id === id)?.name ?? id);
}

/** All words of the search are in its name, pool, dataset or host groups. */
export function matches(store: Datastore, filter: Filter, groups: readonly Group[]): boolean {
  if (filter.state !== "" && store.state !== filter.state) return false;
  if (filter.pool !== "" && store.pool !== filter.pool) return false;
  const searched = [store.name, store.pool, store.dataset, ...groupNames(store, groups)].join(" ").toLowerCase();
  return filter.search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}

export type Column = "name" | "pool" | "lun" | "size" | "used" | "free" | "load";
/** Present load of datastores, by ID. */
export type Loads = ReadonlyMap<string, Load>;
export type Direction = "asc" | "desc";

const COLLATOR = new Intl.Collator(chosen.locale, { numeric: true });
const COMPARE: Readonly<Record<Exclude<Column, "load">, (first: Datastore, other: Datastore) => number>> = {
  name: (first, other) => COLLATOR.compare(first.name, other.name),
  pool: (first, other) => COLLATOR.compare(first.pool, other.pool),
  lun: (first, other) => (first.lun ?? Infinity) - (other.lun ?? Infinity) || 0,
  size: (first, other) => Number(first.size) - Number(other.size),
  used: (first, other) => Number(first.referenced) - Number(other.referenced),
  free: (first, other) => (freeOf(first) ?? -1) - (freeOf(other) ?? -1),
};

export function sorted(stores: readonly Datastore[], column: Column, direction: Direction, loads?: Loads): Datastore[] {
  const sign = direction === "asc" ? 1 : -1;
  const bytes = (store: Datastore) => loads?.get(store.id)?.bytes ?? -1;
  const compare = column === "load" ? (first: Datastore, other: Datastore) => bytes(first) - bytes(other) : COMPARE[column];
  return stores.toSorted((first, other) => sign * compare(first, other) || COMPARE.name(first, other));
}
