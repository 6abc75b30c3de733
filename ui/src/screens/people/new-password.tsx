// SPDX-License-Identifier: Apache-2.0
/** A new password, typed twice. */

import { useState } from "react";
import { SHORTEST_PASSWORD, TextField } from "../../parts/field";
import { text } from "../../text";

const words = text.people.users;

interface PasswordProps {
  /** Label, if "Password" would be ambiguous. */
  readonly label?: string;
  readonly password: string;
  readonly repeated: string;
  readonly problem: string | undefined;
  readonly onChange: (password: string, repeated: string) => void;
}

export function NewPassword({ label = words.password, password, repeated, problem, onChange }: PasswordProps) {
  return (
    <>
      <TextField
        id="new-password"
        label={label}
        help={words.passwordHelp}
        type="password"
        value={password}
        onChange={(typed) => onChange(typed, repeated)}
        problem={problem}
        autoComplete="new-password"
        required
      />
      <TextField
        id="new-password-again"
        label={words.repeat}
        type="password"
        value={repeated}
        onChange={(typed) => onChange(password, typed)}
        problem={repeated !== "" && repeated !== password ? words.repeatWrong : undefined}
        autoComplete="new-password"
        required
      />
    </>
  );
}

export function usePassword() {
  const [{ password, repeated }, set] = useState({ password: "", repeated: "" });
  return {
    password,
    good: password.length >= SHORTEST_PASSWORD && password === repeated,
    field: { password, repeated, onChange: (typed: string, again: string) => set({ password: typed, repeated: again }) },
  };
}
