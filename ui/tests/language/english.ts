// SPDX-License-Identifier: Apache-2.0

/** Words of English that German does not have. */
const SMALL = "the|of|and|or|is|are|not|no|with|without|for|from|to|this|that|it|its|has|have|be|can|by|at";
const OF_BUTTONS =
  "actions|add|alert|breadcrumb|cancel|change|close|copy|create|delete|more|next|reset|search|select|show|sort|toggle";
export const ENGLISH = new RegExp(`\\b(${SMALL}|${OF_BUTTONS})\\b`, "i");

/** Commands and paths of a server are English in each language. */
const TYPED = /\b(esxcli|journalctl|zvaai|zpool|zfs|nmtui)( [a-z0-9.-]+)+|\/\S+|\w+\.\w+/g;

export function withoutCommands(text: string): string {
  return text.replaceAll(TYPED, "");
}
