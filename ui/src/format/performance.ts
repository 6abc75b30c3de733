// SPDX-License-Identifier: Apache-2.0
/** Operations by the second, and how long they take. */

const DIGITS = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

export function formatOperations(value: number): string {
  return value < 100 ? DIGITS.format(value) : WHOLE.format(value);
}

/** Of milliseconds. */
export function formatLatency(value: number): string {
  return `${formatOperations(value)} ms`;
}
