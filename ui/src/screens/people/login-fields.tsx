// SPDX-License-Identifier: Apache-2.0
/** What the settings of a directory and of an OIDC provider have in common. */

import { TextArea } from "@patternfly/react-core";
import type { ApiProblem } from "../../api/problem";
import type { Role } from "../../api/types";
import { describedBy, Field, LinesField } from "../../parts/field";
import type { Fact } from "../../parts/known";
import { text } from "../../text";

export const ROLES: readonly Role[] = ["admin", "operator", "viewer"];

/** Values may have commas and spaces. */
export function linesOf(typed: string): string[] {
  return typed
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

type Listed = Partial<Record<Role, readonly string[]>>;
type Typed = Record<Role, string>;

export function rolesForm({ admin = [], operator = [], viewer = [] }: Listed): Typed {
  return { admin: admin.join("\n"), operator: operator.join("\n"), viewer: viewer.join("\n") };
}

export function rolesBody({ admin, operator, viewer }: Typed): Record<Role, string[]> {
  return { admin: linesOf(admin), operator: linesOf(operator), viewer: linesOf(viewer) };
}

export function rolesFacts(settings: Listed, names: Record<Role, string>): readonly Fact[] {
  return ROLES.map((role): Fact => [names[role], (settings[role] ?? []).join("; ") || text.common.none]);
}

interface RoleFieldsProps {
  readonly id: string;
  readonly names: Record<Role, string>;
  readonly help: string;
  readonly form: Typed;
  readonly change: (part: Partial<Typed>) => void;
  readonly problem: ApiProblem | null;
}

export function RoleFields({ id, names, help, form, change, problem }: RoleFieldsProps) {
  return ROLES.map((role) => (
    <LinesField
      key={role}
      id={`${id}-${role}`}
      label={names[role]}
      help={help}
      value={form[role]}
      onChange={(typed) => change({ [role]: typed })}
      problem={problem?.at(role)}
    />
  ));
}

interface CertificateProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly onChange: (typed: string) => void;
  readonly problem: ApiProblem | null;
}

export function CertificateField({ id, label, value, onChange, problem }: CertificateProps) {
  return (
    <Field id={id} label={label} help={text.people.certificateHelp} problem={problem?.at("certificate")}>
      <TextArea
        id={id}
        value={value}
        rows={3}
        spellCheck={false}
        aria-describedby={describedBy(id)}
        onChange={(_event, typed) => onChange(typed)}
      />
    </Field>
  );
}
