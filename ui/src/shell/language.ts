// SPDX-License-Identifier: Apache-2.0
/** The language of the console: the user's choice, otherwise the browser's preference. */

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

/** Called before the screens load. German is loaded only here. */
export async function loadLanguage(): Promise<void> {
  Object.assign(chosen, languageOf(window.localStorage.getItem(KEY), navigator.languages));
  if (chosen.language === "de") chosen.text = (await import("../text/de")).de;
  document.documentElement.lang = chosen.language;
}

/** Reloads the page in this language. */
export function chooseLanguage(language: Language): void {
  window.localStorage.setItem(KEY, language);
  window.location.reload();
}
