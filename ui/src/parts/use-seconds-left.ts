// SPDX-License-Identifier: Apache-2.0
import { useSyncExternalStore } from "react";

function everySecond(onChange: () => void): () => void {
  const timer = window.setInterval(onChange, 1_000);
  return () => window.clearInterval(timer);
}

/** Seconds until a moment in milliseconds since 1970, counted down; 0 after it. */
export function useSecondsLeft(until: number): number {
  return useSyncExternalStore(everySecond, () => Math.max(0, Math.ceil((until - Date.now()) / 1_000)));
}
