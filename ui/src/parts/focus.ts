// SPDX-License-Identifier: Apache-2.0
/** The keyboard focus when a form appears. */

import { useEffect } from "react";

/** Selects the first field of a form, or else another element. Never the button that closes a dialog: a space would press it. */
export function firstField(form: string, otherwise: string): string {
  const fields = ["input", "select", "textarea"].map((tag) => `[id="${form}"] ${tag}:not([disabled])`);
  return [...fields, `[id="${otherwise}"]`].join(", ");
}

/** Moves the focus to an element when the form appears. */
export function useFocus(id: string): void {
  useEffect(() => document.getElementById(id)?.focus(), [id]);
}
