// SPDX-License-Identifier: Apache-2.0
/** Intervals of schedules: input and display. The API has whole minutes. */

import { text } from "../../text";

const words = text.schedules.span;
const MINUTES = { minutes: 1, hours: 60, days: 1440 } as const;
const LEAST = 5;
const MOST = 527_040;
const MOST_RETAINED = 1000;

export type Unit = keyof typeof MINUTES;
export const UNITS: readonly Unit[] = ["minutes", "hours", "days"];

function whole(typed: string): number | null {
  return /^[0-9]{1,6}$/.test(typed.trim()) ? Number(typed) : null;
}

/** Typed interval in minutes; null if the service would refuse it. */
export function minutesOf(typed: string, unit: Unit): number | null {
  const minutes = (whole(typed) ?? 0) * MINUTES[unit];
  return minutes >= LEAST && minutes <= MOST ? minutes : null;
}

/** How many snapshots are retained; null for a number that the service refuses. */
export function retainedOf(typed: string): number | null {
  const count = whole(typed);
  return count !== null && count >= 1 && count <= MOST_RETAINED ? count : null;
}

/** The largest unit that divides it. */
export function unitOf(minutes: number): Unit {
  return UNITS.findLast((unit) => minutes % MINUTES[unit] === 0) ?? "minutes";
}

export function countOf(minutes: number): number {
  return minutes / MINUTES[unitOf(minutes)];
}

/** "90 minutes", "1 day"; in the next larger unit, rounded down, if longer than ten of it. */
export function formatSpan(minutes: number): string {
  const unit = unitOf(minutes);
  const rough = UNITS.findLast((candidate) => minutes >= 2 * MINUTES[candidate]) ?? unit;
  const shown = MINUTES[rough] > MINUTES[unit] && minutes > 10 * MINUTES[rough] ? rough : unit;
  return words[shown](Math.floor(minutes / MINUTES[shown]));
}

/** How far the snapshots reach back at least, just after a new snapshot: the intervals between the retained snapshots. */
export function reachOf(minutes: number, retained: number): string {
  return retained <= 1 ? text.schedules.newestOnly : formatSpan(minutes * (retained - 1));
}
