// SPDX-License-Identifier: Apache-2.0
/** Numbers as written in the chosen language. */

import { chosen } from "../text/chosen";

const WHOLE = new Intl.NumberFormat(chosen.locale, { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat(chosen.locale, { maximumSignificantDigits: 3 });

/** All digits, without a fraction. */
export function formatWhole(value: number | bigint): string {
  return WHOLE.format(value);
}

/** At most three significant digits. */
export function formatShort(value: number): string {
  return SHORT.format(value);
}

/** "." or ",". */
export const DECIMAL_SIGN = SHORT.formatToParts(0.5).find(({ type }) => type === "decimal")?.value ?? ".";
