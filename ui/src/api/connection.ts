// SPDX-License-Identifier: Apache-2.0
/** Whether the service can be reached, from the last requests. */

type Listener = () => void;

const listeners = new Set<Listener>();
let lost = false;

function set(now: boolean): void {
  if (now === lost) return;
  lost = now;
  for (const listener of listeners) listener();
}

/** A request got no response. */
export function reportLost(): void {
  set(true);
}

/** A request got a response, whatever its status. */
export function reportReached(): void {
  set(false);
}

export function isLost(): boolean {
  return lost;
}

/** Calls `listener` at each change; returns a function that stops that. */
export function onConnectionChange(listener: Listener): Listener {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
