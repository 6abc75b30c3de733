// SPDX-License-Identifier: Apache-2.0
/** Input of the wizard, and its problems. */

import type { Datastore, DatastoreCreate, Pool } from "../../api/types";
import { parseBytes } from "../../format/bytes";
import { text } from "../../text";

const words = text.datastores.wizard;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,41}$/;
const SMALLEST = 1n << 30n;
const LARGEST = 64n << 40n;
const MIB = 1n << 20n;

export const COMPRESSIONS = ["lz4", "zstd", "zstd-fast", "off"] as const;
export const SYNCS = ["standard", "always"] as const;
export const BLOCK_SIZES = [8192, 16384, 32768, 65536, 131072] as const;
export const RECORD_SIZES = [8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576] as const;
const CLIENT = /^[0-9A-Fa-f:./]{2,64}$/;

export interface FormValues {
  readonly kind: Datastore["kind"];
  readonly name: string;
  readonly pool: string;
  /** As typed; for NFS the quota. */
  readonly size: string;
  readonly thick: boolean;
  readonly compression: (typeof COMPRESSIONS)[number];
  readonly sync: (typeof SYNCS)[number];
  readonly blockSize: (typeof BLOCK_SIZES)[number];
  /** Null for the service's default. */
  readonly recordSize: (typeof RECORD_SIZES)[number] | null;
  /** As typed; empty for none. */
  readonly threshold: string;
  /** As typed; empty for the next free one. */
  readonly lun: string;
  readonly encrypted: boolean;
  readonly groups: readonly string[];
  /** Clients in addition to the hosts of the groups, for NFS; as typed. */
  readonly clients: string;
  /** Whether clients can be any host that reaches the server. */
  readonly anyone: boolean;
}

export const NOTHING_YET: FormValues = {
  kind: "vmfs",
  name: "",
  pool: "",
  size: "",
  thick: false,
  compression: "lz4",
  sync: "standard",
  blockSize: 65536,
  recordSize: null,
  threshold: "",
  lun: "",
  encrypted: false,
  groups: [],
  clients: "",
  anyone: false,
};

/** Typed bytes, a whole number of MiB as the service requires; otherwise null. */
export function sizeOf(values: FormValues): bigint | null {
  const bytes = parseBytes(values.size);
  return bytes === null ? null : (bytes / MIB) * MIB;
}

export function nameProblem(values: FormValues, stores: readonly Datastore[]): string | undefined {
  if (!NAME.test(values.name)) return words.place.nameWrong;
  const taken = stores.some((store) => store.name === values.name && store.state === "active");
  return taken ? words.place.nameTaken : undefined;
}

export function sizeProblem(values: FormValues): string | undefined {
  const bytes = sizeOf(values);
  if (bytes === null) return words.size.sizeWrong;
  return bytes < SMALLEST || bytes > LARGEST ? words.size.sizeRange : undefined;
}

/** Of what was typed; empty is none. */
export function thresholdProblem(threshold: string): string | undefined {
  return threshold === "" || /^[1-9][0-9]?$/.test(threshold) ? undefined : words.size.thresholdWrong;
}

/** Of what was typed; empty is the next free one. */
export function lunProblem(lun: string): string | undefined {
  return lun === "" || (/^[0-9]{1,4}$/.test(lun) && Number(lun) < 1024) ? undefined : words.size.lunWrong;
}

/** Of the settings that only VMFS has. */
export function vmfsProblem({ kind, threshold, lun }: FormValues): string | undefined {
  return kind === "nfs" ? undefined : (thresholdProblem(threshold) ?? lunProblem(lun));
}

/** Addresses and networks of the typed text. */
export function clientsOf({ clients }: Pick<FormValues, "clients">): string[] {
  return clients.split(/[\s,;]+/).filter((client) => client !== "");
}

/** Whether a typed network has all addresses: the service refuses it without `anyone`. */
export function isForAnyone(values: Pick<FormValues, "clients">): boolean {
  return clientsOf(values).some((client) => /\/(0+|0\.0\.0\.0)$/.test(client));
}

/** Rejects what is certainly not an address; the service checks the rest. */
export function clientsProblem(values: Pick<FormValues, "kind" | "clients">): string | undefined {
  if (values.kind === "vmfs") return undefined;
  return clientsOf(values).every((client) => CLIENT.test(client)) ? undefined : words.hosts.clientsWrong;
}

/** Whether the pool has less space available than a thick datastore needs: a warning, the service decides. */
export function isTooThick(values: FormValues, pool: Pool | undefined): boolean {
  const bytes = sizeOf(values);
  return values.thick && bytes !== null && pool?.available != null && bytes > BigInt(pool.available);
}

/** Record size of the new datastore: the chosen one, else the service's default; null if the pool is not known. */
export function recordSizeOf({ recordSize, thick }: FormValues, pool: Pool | undefined): number | null {
  if (recordSize !== null || pool === undefined) return recordSize;
  return thick && pool.vdevs.some(({ kind }) => /^(raidz|draid)/.test(kind)) ? 131072 : 65536;
}

/** The request's body. Only for input without problems. */
export function requestOf(values: FormValues): DatastoreCreate {
  const common: DatastoreCreate = {
    kind: values.kind,
    name: values.name,
    pool: values.pool,
    size: String(sizeOf(values) ?? 0n),
    compression: values.compression,
    sync: values.sync,
    thick: values.thick,
    encrypted: values.encrypted,
    host_groups: [...values.groups],
  };
  if (values.kind === "nfs")
    return {
      ...common,
      ...(values.recordSize === null ? {} : { record_size: values.recordSize }),
      clients: clientsOf(values),
      anyone: values.anyone,
    };
  return {
    ...common,
    block_size: values.blockSize,
    soft_threshold: values.threshold === "" ? null : Number(values.threshold),
    lun: values.lun === "" ? null : Number(values.lun),
  };
}
