// SPDX-License-Identifier: Apache-2.0
/** The first lines of a datastore's page, from several queries. */

import type { Datastore, Group, History, Host, IscsiSession } from "../../api/types";
import { formatBytes, formatRate } from "../../format/bytes";
import { formatLatency, formatOperations } from "../../format/performance";
import { CAN_BE_DISABLED, type LunCounters } from "../../measures/statistics";
import { text } from "../../text";
import { pathsOf } from "../hosts/paths";

const words = text.datastores.detail.summary;

/**
 * Bytes that hosts can still write: the rest of its size, or less if its pool has less. Null for VMFS: only the hosts know how much
 * of the LUN is in use, and `referenced` is the size after compression. Null for a missing datastore too. In thick NFS datastores
 * files count with their whole size, which only the NFS server knows: `admitted`.
 */
export function freeOf(store: Datastore, admitted?: string | null): number | null {
  if (store.kind === "vmfs" || store.state === "missing") return null;
  if (store.thick) return admitted == null ? null : Math.max(0, Number(store.size) - Number(admitted));
  const available = Number(store.available);
  return store.size === "0" ? available : Math.max(0, Math.min(Number(store.size) - Number(store.referenced), available));
}

/** Hosts of its groups, each with the number of its paths, those without a path first. */
export function hostsWithPaths(
  store: Datastore,
  hosts: readonly Host[],
  sessions: readonly IscsiSession[],
): { readonly host: Host; readonly paths: number }[] {
  return hosts
    .filter((host) => host.group != null && store.host_groups.includes(host.group))
    .map((host) => ({ host, paths: pathsOf(host, sessions).length }))
    .toSorted((first, other) => first.paths - other.paths || first.host.name.localeCompare(other.host.name));
}

/** The state of VAAI of a VMFS datastore, in a line. */
export function vaaiOf(groups: readonly Group[], counters: LunCounters | undefined): string {
  if (counters === undefined) return words.notServed;
  const off = CAN_BE_DISABLED.filter((offload) => groups.some((group) => group.disabled_offloads.includes(offload)));
  const names = off.map((offload) => text.datastores.detail.vaai.names[offload][0]);
  const copied = [...counters.fallbacks.values()].reduce((sum, bytes) => sum + bytes, 0);
  return [
    off.length === 0 ? words.allOn : words.someOff(names.join(", ")),
    copied === 0 ? words.noFallback : words.fallback(formatBytes(copied)),
  ].join("; ");
}

/** Points of the history of an hour that are of now: the newest can still be without a value. */
const NEWEST = 3;

/** The newest values of its history; null without values. */
export function loadNow({ load }: History): string | null {
  const { series } = load;
  const last = (values: readonly (number | null)[]) => values.slice(-NEWEST).findLast((value) => value !== null) ?? null;
  const [reads, writes] = [last(series.read_operations), last(series.write_operations)];
  if (reads === null || writes === null) return null;
  const bytes = (last(series.read_bytes) ?? 0) + (last(series.write_bytes) ?? 0);
  const [median, p99] = [series.p50_ms.at(-1) ?? null, series.p99_ms.at(-1) ?? null];
  const latency = median === null || p99 === null ? [] : [words.latency(formatLatency(median), formatLatency(p99))];
  return [words.operations(formatOperations(reads), formatOperations(writes)), formatRate(bytes), ...latency].join(", ");
}
