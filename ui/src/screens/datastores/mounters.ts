// SPDX-License-Identifier: Apache-2.0
/** Who may mount an NFS datastore, and who does. */

import type { Datastore, Host, NfsClient } from "../../api/types";

export interface Mounter {
  /** Whose address it is, as far as that is known. */
  readonly host: Host | null;
  /** Or a network. */
  readonly address: string;
  /** What the NFS server knows of it. */
  readonly client: NfsClient | null;
}

/** Hosts of its groups by their addresses, further clients, then others that may be using it: one of a network, or of a group before. */
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
