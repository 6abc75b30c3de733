// SPDX-License-Identifier: Apache-2.0
/** Search in all lists that the console has loaded. */

import type { Datastore, Host, Job, Pool, Snapshot } from "../api/types";
import { text } from "../text";

export interface Match {
  readonly kind: string;
  readonly name: string;
  readonly to: string;
}

interface Lists {
  readonly stores?: readonly Datastore[] | undefined;
  readonly hosts?: readonly Host[] | undefined;
  readonly pools?: readonly Pool[] | undefined;
  readonly jobs?: readonly Job[] | undefined;
  readonly snapshots?: readonly Snapshot[] | undefined;
}

/**
 * All words must be in the kind, name or other identifiers. Names that begin with the search come first, then the order of the
 * lists.
 */
export function find(search: string, { stores = [], hosts = [], pools = [], jobs = [], snapshots = [] }: Lists): Match[] {
  const typed = search.trim().toLowerCase();
  if (typed === "") return [];
  const { kinds } = text.search;
  const names = new Map(stores.map(({ id, name }) => [id, name]));
  const all: (Match & { readonly more?: readonly string[] })[] = [
    ...stores.map((store) => ({
      kind: kinds.datastore,
      name: store.name,
      to: `/datastores/${store.id}/overview`,
      more: [store.dataset],
    })),
    ...hosts.map((host) => ({
      kind: kinds.host,
      name: host.name,
      to: `/hosts/${host.id}`,
      more: [...host.iqns, ...host.addresses],
    })),
    ...pools.map((pool) => ({ kind: kinds.pool, name: pool.name, to: `/pools/${pool.name}` })),
    ...snapshots.map((snapshot) => ({
      kind: kinds.snapshot,
      name: `${names.get(snapshot.datastore) ?? ""}@${snapshot.name}`,
      to: `/datastores/${snapshot.datastore}/snapshots`,
    })),
    ...jobs.map((job) => ({
      kind: kinds.job,
      name: `${text.common.job.kind[job.kind] ?? job.kind}: ${job.name}`,
      to: `/jobs/${job.id}`,
    })),
  ];
  const words = typed.split(/\s+/);
  return all
    .filter(({ kind, name, more = [] }) => {
      const searched = [kind, name, ...more].join(" ").toLowerCase();
      return words.every((word) => searched.includes(word));
    })
    .toSorted((first, other) => begins(other, typed) - begins(first, typed));
}

function begins({ name }: Match, typed: string): number {
  return name.toLowerCase().startsWith(typed) ? 1 : 0;
}
