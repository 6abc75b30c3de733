// SPDX-License-Identifier: Apache-2.0
/** What a search over everything finds, in the lists that the console has. */

import type { Datastore, Host, Job, Pool, Snapshot } from "../api/types";
import { text } from "../text";

export interface Found {
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

/** All words are in its kind, name or other identifiers. Names that begin with the search come first, then the order of the lists. */
export function find(search: string, { stores = [], hosts = [], pools = [], jobs = [], snapshots = [] }: Lists): Found[] {
  const typed = search.trim().toLowerCase();
  if (typed === "") return [];
  const { kinds } = text.search;
  const names = new Map(stores.map(({ id, name }) => [id, name]));
  const all: (Found & { readonly more?: readonly string[] })[] = [
    ...stores.map((one) => ({
      kind: kinds.datastore,
      name: one.name,
      to: `/datastores/${one.id}/overview`,
      more: [one.dataset],
    })),
    ...hosts.map((one) => ({ kind: kinds.host, name: one.name, to: `/hosts/${one.id}`, more: [...one.iqns, ...one.addresses] })),
    ...pools.map((one) => ({ kind: kinds.pool, name: one.name, to: `/pools/${one.name}` })),
    ...snapshots.map((snapshot) => ({
      kind: kinds.snapshot,
      name: `${names.get(snapshot.datastore) ?? ""}@${snapshot.name}`,
      to: `/datastores/${snapshot.datastore}/snapshots`,
    })),
    ...jobs.map((one) => ({
      kind: kinds.job,
      name: `${text.common.job.kind[one.kind] ?? one.kind}: ${one.name}`,
      to: `/jobs/${one.id}`,
    })),
  ];
  const words = typed.split(/\s+/);
  return all
    .filter(({ kind, name, more = [] }) => {
      const searched = [kind, name, ...more].join(" ").toLowerCase();
      return words.every((word) => searched.includes(word));
    })
    .toSorted((one, other) => begins(other, typed) - begins(one, typed));
}

function begins({ name }: Found, typed: string): number {
  return name.toLowerCase().startsWith(typed) ? 1 : 0;
}
