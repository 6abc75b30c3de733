// SPDX-License-Identifier: Apache-2.0
/** Why a screen failed to load, from its error. */

/** `load`: a part of the console could not be loaded. The network failed, or the appliance was updated and has other files. */
export type Failure = "none" | "code" | "load";

/** Messages of Chromium, Firefox, Safari and Vite. */
const LOAD = /dynamically imported module|importing a module script|preload CSS/i;

export function failureOf(error: unknown): Failure {
  return LOAD.test(String(error)) ? "load" : "code";
}
