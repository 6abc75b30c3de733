// SPDX-License-Identifier: Apache-2.0
/** Intervals of schedules: input and display. The API has whole minutes. */

import type { Schedule } from "../../api/types";
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
  const fits = minutes < MINUTES.days ? MINUTES.days % minutes === 0 : minutes % MINUTES.days === 0;
  return minutes >= LEAST && minutes <= MOST && fits ? minutes : null;
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

function reach(minutes: number): string {
  return minutes <= 0 ? text.schedules.newestOnly : formatSpan(minutes);
}

/** Minutes between the snapshots of a tier; a month counts 30 days. */
const TIER_MINUTES = { hourly: 60, daily: 1440, weekly: 10_080, monthly: 43_200 } as const;
export type Tier = keyof typeof TIER_MINUTES;
export const TIERS = Object.keys(TIER_MINUTES) as readonly Tier[];

/** How far the snapshots of all tiers reach back, to within one interval of the tier that reaches furthest. */
export function reachOfAll(schedule: Pick<Schedule, "every_minutes" | "keep" | Tier>): string {
  const { every_minutes: every, keep } = schedule;
  const reaches = TIERS.map((tier) => Math.max(TIER_MINUTES[tier], every) * (schedule[tier] - 1));
  return reach(Math.max(every * (keep - 1), ...reaches));
}

/** How far the snapshots reach back at least, just after a new snapshot: the intervals between the retained snapshots. */
export function reachOf(minutes: number, retained: number): string {
  return reach(minutes * (retained - 1));
}
