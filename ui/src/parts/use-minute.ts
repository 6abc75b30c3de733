// SPDX-License-Identifier: Apache-2.0
/** Relative times get old: one timer for all that are shown. */

import { useSyncExternalStore } from "react";

const MINUTE_MS = 60_000;
const listeners = new Set<() => void>();
let timer: number | undefined;

function listen(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= window.setInterval(() => listeners.forEach((tell) => tell()), MINUTE_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    window.clearInterval(timer);
    timer = undefined;
  };
}

/** Renders the component again each minute. */
export function useMinute(): void {
  useSyncExternalStore(listen, () => Math.floor(Date.now() / MINUTE_MS));
}
