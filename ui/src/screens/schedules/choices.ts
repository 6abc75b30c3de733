// SPDX-License-Identifier: Apache-2.0
/** Which of many datastores are shown to choose from. */

export interface Choice {
  readonly id: string;
  readonly name: string;
  readonly of: string;
}

/** Those that match by name or pool, and all that are chosen: what is searched for hides nothing that will be sent. */
export function shownOf(choices: readonly Choice[], search: string, chosen: readonly string[]): Choice[] {
  const term = search.trim().toLowerCase();
  return choices.filter(
    ({ id, name, of }) => chosen.includes(id) || [name, of].some((word) => word.toLowerCase().includes(term)),
  );
}
