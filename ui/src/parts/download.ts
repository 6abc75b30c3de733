// SPDX-License-Identifier: Apache-2.0

/** Hands something to the browser as a file, under a name. */
export function download(content: string, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // Not at once: the browser reads it after this.
  window.setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
