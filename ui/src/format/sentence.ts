// SPDX-License-Identifier: Apache-2.0
/** What the service says in half a sentence, as in a line of a log, for where it stands by itself. */

/** What the service says to type is typed so. */
const COMMAND = /^(esxcli|systemctl|zfs|zpool|zvaai)\b/;

/** Capitalises the first word, except in a command, an address or a path. */
export function capitalised(said: string): string {
  const trimmed = said.trim();
  if (COMMAND.test(trimmed) || !/^[a-z]+(?=[\s,:;.]|$)/.test(trimmed) || /^\w+\.\w/.test(trimmed)) return trimmed;
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}`;
}

/** With a full stop too; nothing of nothing. */
export function sentence(said: string): string {
  const begun = capitalised(said);
  return begun === "" || /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
