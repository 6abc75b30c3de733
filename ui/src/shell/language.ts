// SPDX-License-Identifier: Apache-2.0
/** The language of the console: the user's choice, otherwise the browser's preference. */

import type { Texts } from "../text";
import { chosen, LANGUAGES, type Language } from "../text/chosen";

const KEY = "zvaai-language";

const isLanguage = (tag: string): tag is Language => Object.hasOwn(LANGUAGES, tag);
const primary = (tag: string) => tag.split("-")[0]?.toLowerCase() ?? "";

/**
 * The chosen language, or the first language of the browser that the console has; and the browser's way to write numbers in it.
 */
export function languageOf(
  stored: string | null,
  preferred: readonly string[],
): { readonly language: Language; readonly locale: string } {
  const language = [stored ?? "", ...preferred.map(primary)].find(isLanguage) ?? "en";
  return { language, locale: preferred.find((tag) => primary(tag) === language) ?? language };
}

const LOADED = {
  en: async () => (await import("../text/en")).en,
  de: async () => (await import("../text/de")).de,
} satisfies Record<Language, () => Promise<Texts>>;

/** Before the screens are loaded. Of the languages only the chosen one is requested. */
export async function loadLanguage(): Promise<void> {
  Object.assign(chosen, languageOf(window.localStorage.getItem(KEY), navigator.languages));
  chosen.text = await LOADED[chosen.language]();
  document.documentElement.lang = chosen.language;
}

/** Reloads the page in this language. */
export function chooseLanguage(language: Language): void {
  window.localStorage.setItem(KEY, language);
  window.location.reload();
}
