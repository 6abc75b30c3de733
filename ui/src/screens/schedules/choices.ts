// SPDX-License-Identifier: Apache-2.0
/** Datastores shown for choice, of many. */

export interface Choice {
  readonly id: string;
  readonly name: string;
  readonly of: string;
}

/** Datastores that match by name or pool, and all chosen ones: a search must not hide what will be sent. */
export function shownOf(choices: readonly Choice[], search: string, chosen: readonly string[]): Choice[] {
  const term = search.trim().toLowerCase();
  return choices.filter(
    ({ id, name, of }) => chosen.includes(id) || [name, of].some((word) => word.toLowerCase().includes(term)),
  );
}
