// SPDX-License-Identifier: Apache-2.0
/** The language that this page was loaded in. `main.tsx` sets it before it loads the screens, which read their texts once. */

import type { Texts } from "./index";

/** Names of languages, each in its language, as in the menu. */
export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

interface Chosen {
  language: Language;
  /** Locale of numbers and times; undefined: the browser's. */
  locale: string | undefined;
  text: Texts;
}

/** Without text until `loadLanguage` has loaded it. */
export const chosen = { language: "en", locale: undefined } as Chosen;
