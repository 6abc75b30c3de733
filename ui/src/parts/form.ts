// SPDX-License-Identifier: Apache-2.0
/** What is typed into a form of several fields. */

import { useCallback, useEffect, useRef, useState } from "react";

/** `change` takes what of it is otherwise now. */
export function useForm<Form extends object>(first: Form | (() => Form)): readonly [Form, change: (part: Partial<Form>) => void] {
  const [form, setForm] = useState(first);
  const change = useCallback((part: Partial<Form>) => setForm((before) => ({ ...before, ...part })), []);
  return [form, change];
}

/** The same, and the input survives a reload and a detour to another page, until `discard`. `name` is its key in the browser tab. */
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
