// SPDX-License-Identifier: Apache-2.0
/** What is typed into a form of several fields. */

import { useCallback, useState } from "react";

/** `change` takes what of it is otherwise now. */
export function useForm<Form extends object>(first: Form | (() => Form)): readonly [Form, change: (part: Partial<Form>) => void] {
  const [form, setForm] = useState(first);
  const change = useCallback((part: Partial<Form>) => setForm((before) => ({ ...before, ...part })), []);
  return [form, change];
}
