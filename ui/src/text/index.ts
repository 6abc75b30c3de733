// SPDX-License-Identifier: Apache-2.0
/** All text of the console, in the language of this page. */

import { chosen } from "./chosen";
import type { en } from "./en";

/** Exactly the texts that each language must have. */
export type Texts = typeof en;

export const text: Texts = chosen.text;
