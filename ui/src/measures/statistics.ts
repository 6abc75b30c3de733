// SPDX-License-Identifier: Apache-2.0
/**
 * Counters of the target (zvol_target/docs/control.md, statistics.get) and of the NFS server (docs/vaai_nas.md). Their types are
 * checked here, because the API passes them on untyped.
 */

import type { Offload, Offloads } from "../api/types";

/** Primitives that can be disabled for a host group: all but ATS, the lock of VMFS. */
export const CAN_BE_DISABLED = ["extended_copy", "write_same", "unmap", "token"] as const satisfies readonly Offload[];
export const PRIMITIVES = ["compare_and_write", ...CAN_BE_DISABLED] as const;
export type Primitive = (typeof PRIMITIVES)[number];

export interface OperationCounters {
  readonly operations: number;
  readonly bytes: number;
  readonly errors: number;
  /** Sum over all operations. */
  readonly microseconds: number;
}

export interface LunCounters {
  readonly uuid: string;
  readonly read: OperationCounters;
  readonly write: OperationCounters;
  readonly primitives: Readonly<Record<Primitive, OperationCounters>>;
  readonly cloned: number;
  readonly copied: number;
  readonly zeroed: number;
  readonly reclaimed: number;
  readonly miscompares: number;
  /** Bytes copied instead of cloned, by reason; only reasons that occurred. */
  readonly fallbacks: ReadonlyMap<string, number>;
}

type Json = Readonly<Record<string, unknown>>;

function object(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : 0;
}

function operation(value: unknown): OperationCounters {
  const { operations, bytes, errors, latency } = object(value);
  return {
    operations: count(operations),
    bytes: count(bytes),
    errors: count(errors),
    microseconds: count(object(latency)["total_microseconds"]),
  };
}

function fallbacksOf(offload: Json): Map<string, number> {
  const fallbacks = Object.entries(object(offload["fallback_bytes"])).map(([reason, bytes]) => [reason, count(bytes)] as const);
  return new Map(fallbacks.filter(([, bytes]) => bytes > 0));
}

function lun(value: unknown): LunCounters {
  const row = object(value);
  const offload = object(row["offload"]);
  return {
    uuid: typeof row["uuid"] === "string" ? row["uuid"] : "",
    read: operation(row["read"]),
    write: operation(row["write"]),
    primitives: {
      compare_and_write: operation(row["compare_and_write"]),
      extended_copy: operation(row["extended_copy"]),
      write_same: operation(row["write_same"]),
      unmap: operation(row["unmap"]),
      token: operation(row["token"]),
    },
    cloned: count(offload["cloned_bytes"]),
    copied: count(offload["copied_bytes"]),
    zeroed: count(offload["zeroed_bytes"]),
    reclaimed: count(offload["unmapped_bytes"]),
    miscompares: count(offload["miscompares"]),
    fallbacks: fallbacksOf(offload),
  };
}

export const NAS_OPERATIONS = ["clone", "fast_clone", "reserve", "statistics", "capabilities", "job"] as const;
export type NasOperation = (typeof NAS_OPERATIONS)[number];

export interface NasCounters {
  readonly operations: number;
  readonly errors: number;
  /** Errors caused by access rights, space or the kind of file. */
  readonly refused: number;
}

export interface ExportCounters {
  readonly operations: Readonly<Record<NasOperation, NasCounters>>;
  readonly cloned: number;
  readonly copied: number;
  readonly holes: number;
  readonly reserved: number;
  /** Bytes copied instead of cloned, by reason; only reasons that occurred. */
  readonly fallbacks: ReadonlyMap<string, number>;
}

function addNas(sum: NasCounters, value: unknown): NasCounters {
  const { operations, errors, refused } = object(value);
  return {
    operations: sum.operations + count(operations),
    errors: sum.errors + count(errors),
    refused: sum.refused + count(refused),
  };
}

const NO_NAS: NasCounters = { operations: 0, errors: 0, refused: 0 };
const NO_EXPORT: ExportCounters = {
  operations: { clone: NO_NAS, fast_clone: NO_NAS, reserve: NO_NAS, statistics: NO_NAS, capabilities: NO_NAS, job: NO_NAS },
  cloned: 0,
  copied: 0,
  holes: 0,
  reserved: 0,
  fallbacks: new Map(),
};

function addFallbacks(first: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  const sums = new Map(first);
  for (const [reason, bytes] of other) sums.set(reason, (sums.get(reason) ?? 0) + bytes);
  return sums;
}

function addExport(sum: ExportCounters, row: Json): ExportCounters {
  const offload = object(row["offload"]);
  return {
    operations: {
      clone: addNas(sum.operations.clone, row["clone"]),
      fast_clone: addNas(sum.operations.fast_clone, row["fast_clone"]),
      reserve: addNas(sum.operations.reserve, row["reserve"]),
      statistics: addNas(sum.operations.statistics, row["statistics"]),
      capabilities: addNas(sum.operations.capabilities, row["capabilities"]),
      job: addNas(sum.operations.job, row["job"]),
    },
    cloned: sum.cloned + count(offload["cloned_bytes"]),
    copied: sum.copied + count(offload["copied_bytes"]),
    holes: sum.holes + count(offload["hole_bytes"]),
    reserved: sum.reserved + count(offload["reserved_bytes"]),
    fallbacks: addFallbacks(sum.fallbacks, fallbacksOf(offload)),
  };
}

/**
 * Counters of an NFS datastore by its ID: it can be counted under its path and its share. Undefined without requests of VAAI-NAS.
 */
export function exportOf(offloads: Pick<Offloads, "exports">, datastore: string): ExportCounters | undefined {
  return sumOf(offloads.exports.map(object).filter((row) => row["datastore"] === datastore));
}

/** Sum over all exports. Undefined without requests of VAAI-NAS. */
export function exportsOf(offloads: Pick<Offloads, "exports">): ExportCounters | undefined {
  return sumOf(offloads.exports.map(object));
}

/** Bytes by kind, without requests. */
export function offloadOf(offload: unknown): ExportCounters {
  return addExport(NO_EXPORT, { offload });
}

/** A row can have only reads and writes. */
function sumOf(rows: readonly Json[]): ExportCounters | undefined {
  const sum = rows.reduce(addExport, NO_EXPORT);
  return Object.values(sum.operations).some(({ operations }) => operations > 0) ? sum : undefined;
}

/** Refused clones and reservations: the host must do the work itself. */
export function refusalsOf({ operations }: ExportCounters): number {
  return operations.clone.refused + operations.fast_clone.refused + operations.reserve.refused;
}

export function lunsOf(offloads: Pick<Offloads, "luns">): LunCounters[] {
  return offloads.luns.map(lun);
}

const ZERO: OperationCounters = { operations: 0, bytes: 0, errors: 0, microseconds: 0 };

function sum(first: OperationCounters, other: OperationCounters): OperationCounters {
  return {
    operations: first.operations + other.operations,
    bytes: first.bytes + other.bytes,
    errors: first.errors + other.errors,
    microseconds: first.microseconds + other.microseconds,
  };
}

export interface Totals {
  readonly read: OperationCounters;
  readonly write: OperationCounters;
  readonly cloned: number;
  readonly copied: number;
  readonly zeroed: number;
  readonly reclaimed: number;
  readonly fallbacks: ReadonlyMap<string, number>;
}

export function totalsOf(luns: readonly LunCounters[]): Totals {
  return luns.reduce<Totals>(
    (total, lun) => ({
      read: sum(total.read, lun.read),
      write: sum(total.write, lun.write),
      cloned: total.cloned + lun.cloned,
      copied: total.copied + lun.copied,
      zeroed: total.zeroed + lun.zeroed,
      reclaimed: total.reclaimed + lun.reclaimed,
      fallbacks: addFallbacks(total.fallbacks, lun.fallbacks),
    }),
    { read: ZERO, write: ZERO, cloned: 0, copied: 0, zeroed: 0, reclaimed: 0, fallbacks: new Map() },
  );
}

const NETWORK_BYTES_PER_S = 1e9;

/** Estimated seconds that hosts would have needed: a copy crosses the network twice, zeros once. */
export function estimatedSavedSeconds({ cloned, copied, zeroed }: Pick<Totals, "cloned" | "copied" | "zeroed">): number {
  return (2 * (cloned + copied) + zeroed) / NETWORK_BYTES_PER_S;
}
