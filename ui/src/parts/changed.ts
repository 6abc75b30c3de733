// SPDX-License-Identifier: Apache-2.0
/** Only the changed fields of a form are sent, so that meanwhile changes by others to other fields persist. */

/** Fields of `now` that differ from `first`; the order of lists counts. */
export function changedOf<Values extends object>(first: Partial<Values>, now: Values): Partial<Values> {
  const changed: Partial<Values> = {};
  for (const name in now) {
    if (JSON.stringify(now[name]) !== JSON.stringify(first[name])) changed[name] = now[name];
  }
  return changed;
}

/** A form over the present values: changed fields stay, unchanged fields are updated. */
export function mergedOf<Form extends object>(first: Form, typed: Form, now: Form): Form {
  const touched: Partial<Form> = changedOf<Form>(first, typed);
  return { ...now, ...touched };
}
