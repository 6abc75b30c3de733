// SPDX-License-Identifier: Apache-2.0
/** The language of the console: the user's choice, otherwise the browser's preference. */

import { chosen, LANGUAGES, type Language } from "../text/chosen";

const KEY = "zvaai-language";

const isLanguage = (tag: string): tag is Language => Object.hasOwn(LANGUAGES, tag);
const primary = (tag: string) => tag.split("-")[0]?.toLowerCase() ?? "";

/** The language that was chosen, or the first of the browser's that the console has; and the browser's own way to write numbers in it. */
export function languageOf(
  stored: string | null,
  preferred: readonly string[],
): { readonly language: Language; readonly locale: string } {
  const language = [stored ?? "", ...preferred.map(primary)].find(isLanguage) ?? "en";
  return { language, locale: preferred.find((tag) => primary(tag) === language) ?? language };
}

/** Before the screens are loaded. German is requested only here. */
export async function loadLanguage(): Promise<void> {
  Object.assign(chosen, languageOf(window.localStorage.getItem(KEY), navigator.languages));
  if (chosen.language === "de") chosen.text = (await import("../text/de")).de;
  document.documentElement.lang = chosen.language;
}

/** Loads the page in this language. */
export function chooseLanguage(language: Language): void {
  window.localStorage.setItem(KEY, language);
  window.location.reload();
}
