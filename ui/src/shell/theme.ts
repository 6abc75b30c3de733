// SPDX-License-Identifier: Apache-2.0
/** Light or dark: the user's choice, otherwise the system's setting. */

export type Theme = "system" | "light" | "dark";

const KEY = "zvaai-theme";
const DARK_CLASS = "pf-v6-theme-dark";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function readTheme(): Theme {
  const stored = window.localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme): void {
  document.documentElement.classList.toggle(DARK_CLASS, theme === "dark" || (theme === "system" && dark.matches));
}

export function chooseTheme(theme: Theme): void {
  if (theme === "system") window.localStorage.removeItem(KEY);
  else window.localStorage.setItem(KEY, theme);
  applyTheme(theme);
}

dark.addEventListener("change", () => applyTheme(readTheme()));
