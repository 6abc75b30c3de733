// SPDX-License-Identifier: Apache-2.0
/** Tables as comma-separated values (RFC 4180), with all digits and times in UTC: for spreadsheets and scripts. */

export type Cell = string | number | boolean | null | undefined;

export function csvOf(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [head, ...rows].map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value: Cell): string {
  const text = String(value ?? "");
  // A spreadsheet would run it as a formula, and a name can be chosen by others.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
