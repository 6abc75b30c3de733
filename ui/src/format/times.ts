// SPDX-License-Identifier: Apache-2.0
/** A range of time, as the fields of a browser have it: in its time zone, and empty for no limit. */

export const NAMES = ["since", "until"] as const;
export type Times = Readonly<Record<(typeof NAMES)[number], string>>;

/** As the API takes them: seconds since 1970, and nothing for an empty field. */
export function secondsOf(times: Times): { readonly since?: number; readonly until?: number } {
  const given = NAMES.filter((name) => times[name] !== "");
  return Object.fromEntries(given.map((name) => [name, new Date(times[name]).getTime() / 1_000]));
}
