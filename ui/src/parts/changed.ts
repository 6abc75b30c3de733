/** What of a form is sent: what was changed only, so that what somebody else changed meanwhile stays. */

/** Those of `now` that are not as in `first`; lists are the same in the same order only. */
export function changedOf<Values extends object>(first: Partial<Values>, now: Values): Partial<Values> {
  const changed: Partial<Values> = {};
  for (const name in now) {
    if (JSON.stringify(now[name]) !== JSON.stringify(first[name])) changed[name] = now[name];
  }
  return changed;
}
