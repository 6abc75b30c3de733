// SPDX-License-Identifier: Apache-2.0
/** Input of a form with several fields. */

import { useCallback, useEffect, useRef, useState } from "react";

/** `change` gets the changed fields. */
export function useForm<Form extends object>(first: Form | (() => Form)): readonly [Form, change: (part: Partial<Form>) => void] {
  const [form, setForm] = useState(first);
  const change = useCallback((part: Partial<Form>) => setForm((before) => ({ ...before, ...part })), []);
  return [form, change];
}

/** A form whose input survives a reload and a visit to another page, until `discard`. `name` is its key in the browser tab. */
export function useDraft<Form extends object>(
  name: string,
  first: () => Form,
): readonly [Form, change: (part: Partial<Form>) => void, discard: () => void] {
  const [form, change] = useForm<Form>(() => ({ ...first(), ...draftOf<Form>(name) }));
  const discarded = useRef(false);
  useEffect(() => {
    if (!discarded.current) sessionStorage.setItem(name, JSON.stringify(form));
  }, [name, form]);
  const discard = useCallback(() => {
    discarded.current = true;
    sessionStorage.removeItem(name);
  }, [name]);
  return [form, change, discard];
}

function draftOf<Form>(name: string): Partial<Form> {
  try {
    const draft: unknown = JSON.parse(sessionStorage.getItem(name) ?? "{}");
    return typeof draft === "object" && draft !== null ? draft : {};
  } catch {
    return {};
  }
}
