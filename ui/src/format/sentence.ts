// SPDX-License-Identifier: Apache-2.0
/** Makes sentences of the service's half sentences. */

/** Commands are not capitalised. */
const COMMAND = /^(apt|df|echo|esxcli|journalctl|modprobe|systemctl|zfs|zpool|zvaai)\b/;

/** Capitalises the first word, except in a command, an address or a path. */
export function capitalised(said: string): string {
  const trimmed = said.trim();
  if (COMMAND.test(trimmed) || !/^[a-z]+(?=[\s,:;.]|$)/.test(trimmed) || /^\w+\.\w/.test(trimmed)) return trimmed;
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}`;
}

/** Capitalised and with a full stop; empty for empty text. */
export function sentence(said: string): string {
  const begun = capitalised(said);
  return begun === "" || /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
