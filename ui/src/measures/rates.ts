// SPDX-License-Identifier: Apache-2.0
/** Rates per second of counters that only grow. They are retained while the page is loaded, on all screens. */

import type { OperationCounters, Totals } from "./statistics";

export interface Sample {
  /** Seconds since 1970. */
  readonly at: number;
  /** Whether it counts the NFS exports too. */
  readonly exports: boolean;
  readonly totals: Pick<Totals, "read" | "write">;
}

export interface Rate {
  readonly at: number;
  readonly readBytes: number;
  readonly writeBytes: number;
  /** Mean latency in milliseconds; null without operations. */
  readonly readLatency: number | null;
  readonly writeLatency: number | null;
}

const RETAINED_S = 300;

function difference(now: OperationCounters, before: OperationCounters): OperationCounters {
  return {
    operations: now.operations - before.operations,
    bytes: now.bytes - before.bytes,
    errors: now.errors - before.errors,
    microseconds: now.microseconds - before.microseconds,
  };
}

function latency(counters: OperationCounters): number | null {
  return counters.operations > 0 ? counters.microseconds / counters.operations / 1000 : null;
}

/**
 * Rate between two samples; null if the counters were reset in between (the target was restarted, a LUN was removed), or if only
 * one of them counts the exports: their whole count would be one spike.
 */
export function rateBetween(before: Sample, now: Sample): Rate | null {
  const seconds = now.at - before.at;
  const read = difference(now.totals.read, before.totals.read);
  const write = difference(now.totals.write, before.totals.write);
  const fewest = Math.min(read.bytes, write.bytes, read.operations, write.operations, read.microseconds, write.microseconds);
  if (seconds <= 0 || fewest < 0 || before.exports !== now.exports) return null;
  return {
    at: now.at,
    readBytes: read.bytes / seconds,
    writeBytes: write.bytes / seconds,
    readLatency: latency(read),
    writeLatency: latency(write),
  };
}

/** The rates of the last minutes. */
export class RateHistory {
  #last: Sample | null = null;
  #rates: readonly Rate[] = [];

  /** Adds a sample that is newer than the last. */
  take(sample: Sample): void {
    if (this.#last !== null && sample.at <= this.#last.at) return;
    const rate = this.#last === null ? null : rateBetween(this.#last, sample);
    this.#last = sample;
    if (rate !== null) this.#rates = [...this.#rates.filter((known) => known.at > sample.at - RETAINED_S), rate];
  }

  get rates(): readonly Rate[] {
    return this.#rates;
  }
}
