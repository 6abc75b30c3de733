// SPDX-License-Identifier: Apache-2.0
/** Sessions and paths of hosts. */

import type { Datastore, Group, Host, IscsiSession, NfsClient, Readiness } from "../../api/types";
import { text } from "../../text";

/** The name of the host's group. */
export function groupOf({ group }: Host, groups: readonly Group[] | undefined): string {
  if (group == null) return text.hosts.noGroup;
  return groups?.find((candidate) => candidate.id === group)?.name ?? text.hosts.state.unknown;
}

/** The host's name in its iSCSI name: at the end, where current ESXi adds two numbers. Empty if the name has none. */
export function nameIn(iqn: string): string {
  return /:([A-Za-z0-9][A-Za-z0-9_.@-]*)(?::\d+:\d+)?$/.exec(iqn)?.[1] ?? "";
}

/** Sessions of a host: each is a path. */
export function pathsOf(host: Host, sessions: readonly IscsiSession[]): IscsiSession[] {
  return sessions.filter((session) => host.iqns.includes(session.initiator));
}

/** Addresses of the host that use NFS datastores. */
export function mountsOf(host: Host, clients: readonly NfsClient[]): NfsClient[] {
  return clients.filter((client) => host.addresses.includes(client.address));
}

const IDLE_AFTER_MS = 5 * 60_000;

/** Whether an NFS client has open files, or has sent a request in the last 5 minutes. */
export function isRecent(client: NfsClient, now: number): boolean {
  return client.opens > 0 || now - Date.parse(client.seen_at) < IDLE_AFTER_MS;
}

/** Whether the host has a path now, or uses NFS. */
export function isInUse(host: Host, sessions: readonly IscsiSession[], clients: readonly NfsClient[], now: number): boolean {
  return pathsOf(host, sessions).length > 0 || mountsOf(host, clients).some((mount) => isRecent(mount, now));
}

/** Whether all data that shows the host's paths is loaded. A host without addresses cannot be an NFS client. */
export function isUsageKnown(
  host: Host,
  sessions: readonly IscsiSession[] | undefined,
  clients: readonly NfsClient[] | undefined,
): boolean {
  return sessions !== undefined && (clients !== undefined || host.addresses.length === 0);
}

/** Datastores that are presented to the host's group. */
export function seenBy(host: Host, stores: readonly Datastore[]): Datastore[] {
  const { group } = host;
  return group == null ? [] : stores.filter((store) => store.state === "active" && store.host_groups.includes(group));
}

export function matches(host: Host, search: string, groups: readonly Group[] = []): boolean {
  const group = groups.find((candidate) => candidate.id === host.group)?.name ?? "";
  const all = [host.name, group, ...host.iqns, ...host.addresses];
  const term = search.trim().toLowerCase();
  return all.some((word) => word.toLowerCase().includes(term));
}

const NAA = /\bnaa\.[0-9a-f]+/;

/**
 * Commands for this host, from readiness: those for this `host` alone, then those for all hosts. Commands for devices and mounts
 * appear only if the host sees the datastore.
 */
export function linesFor({ checks, esxcli, hosts }: Readiness, seen: readonly Datastore[], host?: string): string[] {
  const about = checks.filter((check) => check.result === "ok" && seen.some((store) => store.id === check.subject));
  const devices = about.filter((check) => check.id === "served").map((check) => NAA.exec(check.evidence)?.[0]);
  const lines = esxcli.filter((line) => {
    const device = NAA.exec(line)?.[0];
    return device === undefined || devices.includes(device);
  });
  const mounts = about.filter((check) => check.id === "clients").flatMap((check) => check.remedy.split("; "));
  const commands = hosts.filter((entry) => entry.host === host).flatMap((entry) => entry.esxcli);
  return [...commands, ...lines, ...new Set(mounts.filter((line) => line !== ""))];
}

/** Typed names or addresses. */
export function entriesOf(typed: string): string[] {
  return typed
    .split(/[\s,]+/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
