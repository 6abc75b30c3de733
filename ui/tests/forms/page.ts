// SPDX-License-Identifier: Apache-2.0
/** What somebody at the console finds on its page, and does there. */

import { waitFor } from "@testing-library/react";
import { userEvent, type UserEvent } from "@testing-library/user-event";

/** What is typed, ticked or chosen; of a choice the words that are shown. */
export type Value = string | boolean | File;

const LONGEST_MS = 60_000;
const PRESSED = "button, a, [role=menuitem], [role=tab]";

export const newUser = (): UserEvent => userEvent.setup({ delay: null });

export async function until<Found>(what: string, find: () => Found | null | undefined | false): Promise<Found> {
  const missing = new Error(what);
  const check = () => {
    const found = find();
    if (found === null || found === undefined || found === false) throw missing;
    return found;
  };
  return waitFor(check, {
    timeout: LONGEST_MS,
    interval: 5,
    onTimeout: () => new Error(`${what}; it says: ${problemIn(document.body)}`),
  });
}

/** What is said of a problem. */
export function problemIn(scope: Element): string {
  return scope.querySelector(".zv-problem")?.textContent ?? "";
}

export function dialog(): Element | null {
  return document.querySelector(".pf-v6-c-modal-box");
}

function nameOf(one: Element): string {
  return (one.getAttribute("aria-label") ?? one.textContent).trim();
}

/** The one that is pressed by this name. */
export function toPress(name: string, scope: Element = document.body): HTMLElement | null {
  const found = [...scope.querySelectorAll<HTMLElement>(PRESSED)].filter((one) => nameOf(one) === name);
  if (found.length > 1) throw new Error(`${found.length} are called ${name}`);
  return found[0] ?? null;
}

export function isDisabled(one: HTMLElement): boolean {
  return one instanceof HTMLButtonElement && one.disabled;
}

/** Presses what has these names, one after the other: a menu, then what it opens. */
export async function press(user: UserEvent, names: readonly string[], scope?: Element): Promise<void> {
  for (const [index, name] of names.entries()) {
    const place = index === 0 ? scope : undefined;
    await user.click(await until(`nothing is called ${name}`, () => toPress(name, place)));
  }
}

function labelled(name: string, scope: Element): Element[] {
  const byLabel = [...scope.querySelectorAll("label")]
    .filter((label) => (label.querySelector(".pf-v6-c-form__label-text") ?? label).textContent.trim() === name)
    .flatMap((label) => label.control ?? []);
  return [...new Set([...byLabel, ...scope.querySelectorAll(`input[aria-label="${name}"], select[aria-label="${name}"]`)])];
}

/** The field that is called so. */
export function field(name: string, scope: Element): Element | null {
  const found = labelled(name, scope);
  if (found.length > 1) throw new Error(`${found.length} fields are called ${name}`);
  return found[0] ?? null;
}

export async function fill(user: UserEvent, scope: Element, name: string, value: Value): Promise<void> {
  if (value instanceof File) {
    const one = await until("there is no field for a file", () => scope.querySelector<HTMLInputElement>("input[type=file]"));
    return user.upload(one, value);
  }
  const one = await until(`no field is called ${name}`, () => field(name, scope));
  if (one instanceof HTMLSelectElement) return user.selectOptions(one, String(value));
  if (typeof value === "boolean") {
    if (one instanceof HTMLInputElement && one.checked !== value) await user.click(one);
    return undefined;
  }
  await user.clear(one);
  return user.paste(value);
}

/** All that was typed, ticked and chosen. */
export function typed(scope: Element): string {
  const fields = [...scope.querySelectorAll<HTMLInputElement>("input, textarea, select")];
  return JSON.stringify(fields.map(({ id, type, value, checked }) => [id, type === "file" ? "" : value, checked]));
}
