// SPDX-License-Identifier: Apache-2.0
/** Round values for the axes of charts. */

const MOST_STEPS = 4;
const DAY_S = 86_400;
const TIME_STEPS_S = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, DAY_S, 7 * DAY_S, 30 * DAY_S, 61 * DAY_S, 183 * DAY_S, 365 * DAY_S];
const MOST_TIMES = 6;

/** Values from 0 to at least `highest`, equally far apart. Sizes have steps that are round in binary units. */
export function valueTicks(highest: number, binary: boolean): number[] {
  const least = highest / MOST_STEPS;
  let step: number;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(least));
  } else {
    const power = 10 ** Math.floor(Math.log10(least));
    step = power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
  }
  return Array.from({ length: Math.ceil(highest / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** Round local times, in seconds since 1970, between two times; and whether they are days. */
export function timeTicks(from: number, to: number): { readonly times: readonly number[]; readonly days: boolean } {
  const step = TIME_STEPS_S.find((candidate) => (to - from) / candidate <= MOST_TIMES) ?? 730 * DAY_S;
  const days = step >= DAY_S;
  const offsetAt = (time: number) => -60 * new Date(time * 1000).getTimezoneOffset();
  const offset = offsetAt(from);
  const first = Math.ceil((from + offset) / step) * step - offset;
  const count = Math.max(0, Math.floor((to - first) / step) + 1);
  const times = Array.from({ length: count }, (_, index) => first + index * step);
  // Midnight, also after a change of summer time.
  const shown = days ? times.map((time) => time + offset - offsetAt(time)).filter((time) => time <= to) : times;
  return { times: shown, days };
}

/** Index of the nearest time; times ascend. */
export function nearest(times: readonly number[], at: number): number {
  let low = 0;
  let high = times.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= at) low = middle;
    else high = middle;
  }
  return at - (times[low] ?? 0) < (times[high] ?? 0) - at ? low : high;
}
