// SPDX-License-Identifier: Apache-2.0
/** Sizes, always in binary units and with the same number of digits. */

import { text } from "../text";
import { DECIMAL_SIGN, formatShort, formatWhole } from "./number";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** "1.5 TiB", of the service's decimal string or a number. At most three significant digits, and never "1,024 GiB". */
export function formatBytes(value: string | number): string {
  let amount = Number(value);
  let unit = 0;
  while (Math.round(amount) >= 1000 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? formatWhole(amount) : formatShort(amount)} ${UNITS[unit] ?? ""}`;
}

/** "12.3 MiB/s". */
export function formatRate(bytesPerSecond: number): string {
  return `${formatBytes(Math.round(bytesPerSecond))}/s`;
}

/** All digits, for exact values. */
export function formatExactBytes(value: string | number): string {
  return text.common.bytes(formatWhole(BigInt(value)));
}

/** After the decimal sign of the other language at most two digits: "1,000 GB" means 1 GB to some and 1000 GB to others. */
const FRACTION = DECIMAL_SIGN === "," ? ",[0-9]+|\\.[0-9]{1,2}" : "\\.[0-9]+|,[0-9]{1,2}";
const SIZE = new RegExp(`^\\s*([0-9]+(?:${FRACTION})?)\\s*([kmgtp]?)(i?b?)\\s*$`, "i");

/** Bytes of a typed size: "2T", "1.5 TiB", "500 GiB"; otherwise null. Units are binary. A number without a unit is refused. */
export function parseBytes(typed: string): bigint | null {
  const match = SIZE.exec(typed);
  const [, amount, letter] = match ?? [];
  if (!amount || !letter) return null;
  const power = "kmgtp".indexOf(letter.toLowerCase()) + 1;
  const [whole = "0", fraction = ""] = amount.replace(",", ".").split(".");
  const scale = 1024n ** BigInt(power);
  const part = fraction ? (BigInt(fraction) * scale) / 10n ** BigInt(fraction.length) : 0n;
  return BigInt(whole) * scale + part;
}

/** "37 %"; "100 %" only if it is full, "0 %" only if it is empty. */
export function formatShare(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return "< 1 %";
  if (percent > 99 && percent < 100) return "> 99 %";
  return `${formatWhole(percent)} %`;
}
