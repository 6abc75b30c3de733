// SPDX-License-Identifier: Apache-2.0
/** Local times, with the zone in a tooltip. */

import { chosen } from "../text/chosen";

const LOCAL = new Intl.DateTimeFormat(chosen.locale, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(chosen.locale, {
  dateStyle: "full",
  timeStyle: "long",
});
const RELATIVE = new Intl.RelativeTimeFormat(chosen.locale, { numeric: "auto" });

const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

const DAY = new Intl.DateTimeFormat(chosen.locale, { dateStyle: "medium" });

/** "22 Nov 2026". */
export function formatDay(at: string): string {
  return DAY.format(new Date(at));
}

/** "22 Nov 2026, 09:30". */
export function formatTime(at: string): string {
  return LOCAL.format(new Date(at));
}

/** With day of the week, seconds and zone. */
export function formatExactTime(at: string): string {
  return EXACT.format(new Date(at));
}

/** "5 minutes ago"; "now" for less than a minute. */
export function formatAgo(at: string, now: number = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return RELATIVE.format(0, "second");
}

/** "1 h 5 min", "12 s", of milliseconds. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
