// SPDX-License-Identifier: Apache-2.0
/** Addresses that may mount an NFS datastore, and addresses that do. */

import type { Datastore, Host, NfsClient } from "../../api/types";

export interface Mounter {
  /** Host of the address, if known. */
  readonly host: Host | null;
  /** Or a network. */
  readonly address: string;
  /** The NFS server's data about the address. */
  readonly client: NfsClient | null;
}

/**
 * Hosts of its groups by their addresses, further clients, then other addresses that may use it: in a permitted network, or of a
 * former group.
 */
export function mountersOf(
  { id, host_groups: groups, clients: further }: Pick<Datastore, "id" | "host_groups" | "clients">,
  hosts: readonly Host[],
  clients: readonly NfsClient[],
): Mounter[] {
  const grouped = hosts.filter(({ group }) => group != null && groups.includes(group)).flatMap(({ addresses }) => addresses);
  const using = clients.filter(({ datastores }) => datastores.includes(id)).map(({ address }) => address);
  return [...new Set([...grouped, ...further, ...using])].map((address) => ({
    host: hosts.find(({ addresses }) => addresses.includes(address)) ?? null,
    address,
    client: clients.find((candidate) => candidate.address === address) ?? null,
  }));
}
