// SPDX-License-Identifier: Apache-2.0
/** What a user finds on a page of the console, and does there. */

import { waitFor } from "@testing-library/react";
import { userEvent, type UserEvent } from "@testing-library/user-event";

/** What is typed, ticked or chosen; of a choice the words that are shown. */
export type Value = string | boolean | File;

const LONGEST_MS = 60_000;
const PRESSED = "button, a, [role=menuitem], [role=tab]";

export const newUser = (): UserEvent => userEvent.setup({ delay: null });

export async function until<Result>(what: string, find: () => Result | null | undefined | false): Promise<Result> {
  const missing = new Error(what);
  const check = () => {
    const result = find();
    if (result === null || result === undefined || result === false) throw missing;
    return result;
  };
  return waitFor(check, {
    timeout: LONGEST_MS,
    interval: 5,
    onTimeout: () => new Error(`${what}; it says: ${problemIn(document.body)}`),
  });
}

/** The text of a problem. */
export function problemIn(scope: Element): string {
  return scope.querySelector(".zv-problem")?.textContent ?? "";
}

export function dialog(): Element | null {
  return document.querySelector(".pf-v6-c-modal-box");
}

function nameOf(element: Element): string {
  return (element.getAttribute("aria-label") ?? element.textContent).trim();
}

/** The element that a user presses, by its name. */
export function toPress(name: string, scope: Element = document.body): HTMLElement | null {
  const matching = [...scope.querySelectorAll<HTMLElement>(PRESSED)].filter((element) => nameOf(element) === name);
  if (matching.length > 1) throw new Error(`${matching.length} are called ${name}`);
  return matching[0] ?? null;
}

export function isDisabled(element: HTMLElement): boolean {
  return element instanceof HTMLButtonElement && element.disabled;
}

/** Whether a button is there, and can be pressed. */
export function isReady(name: string, scope: Element): boolean {
  const pressed = toPress(name, scope);
  return pressed !== null && !isDisabled(pressed);
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
  const element = labelled(name, scope);
  if (element.length > 1) throw new Error(`${element.length} fields are called ${name}`);
  return element[0] ?? null;
}

export async function fill(user: UserEvent, scope: Element, name: string, value: Value): Promise<void> {
  if (value instanceof File) {
    const input = await until("there is no field for a file", () => scope.querySelector<HTMLInputElement>("input[type=file]"));
    return user.upload(input, value);
  }
  const input = await until(`no field is called ${name}`, () => field(name, scope));
  if (input instanceof HTMLSelectElement) return user.selectOptions(input, String(value));
  if (typeof value === "boolean") {
    if (input instanceof HTMLInputElement && input.checked !== value) await user.click(input);
    return undefined;
  }
  await user.clear(input);
  return user.paste(value);
}

/** All that was typed, ticked and chosen. */
export function typed(scope: Element): string {
  const fields = [...scope.querySelectorAll<HTMLInputElement>("input, textarea, select")];
  return JSON.stringify(fields.map(({ id, type, value, checked }) => [id, type === "file" ? "" : value, checked]));
}
