// SPDX-License-Identifier: Apache-2.0
/** The language that this page was loaded in. `main.tsx` sets it before it loads the screens, which read their texts once. */

import type { Texts } from "./index";

/** By their own names, as the menu shows them. */
export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

interface Chosen {
  language: Language;
  /** How numbers and times are written; undefined: as the browser does. */
  locale: string | undefined;
  /** Undefined for English. */
  text: Texts | undefined;
}

export const chosen: Chosen = { language: "en", locale: undefined, text: undefined };
