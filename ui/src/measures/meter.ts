// SPDX-License-Identifier: Apache-2.0
/** Present rates of counters. */

/** Three times as long as the interval of the counters. */
const WINDOW_S = 30;

interface Sample<Name extends string> {
  /** Seconds since 1970. */
  readonly at: number;
  readonly counts: Readonly<Record<Name, number>>;
}

/** Averaged over some seconds, because requests of hosts come in bursts. */
export class Meter<Name extends string> {
  readonly #names: readonly Name[];
  #samples: readonly Sample<Name>[] = [];

  constructor(names: readonly Name[]) {
    this.#names = names;
  }

  /** Adds a sample that is newer than the last. If a counter fell, it was reset: the measurement starts with this sample. */
  take(sample: Sample<Name>): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && sample.at <= last.at) return;
    const fell = last !== undefined && this.#names.some((name) => sample.counts[name] < last.counts[name]);
    const retained = fell ? [] : this.#samples.filter((earlier) => earlier.at >= sample.at - WINDOW_S);
    this.#samples = [...retained, sample];
  }

  /** Per second; 0 before there are two samples. */
  rate(name: Name): number {
    const first = this.#samples.at(0);
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || first === last) return 0;
    return (last.counts[name] - first.counts[name]) / (last.at - first.at);
  }
}
