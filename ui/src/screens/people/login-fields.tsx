// SPDX-License-Identifier: Apache-2.0
/** Common parts of the settings of a directory and of an OIDC provider. */

import type { UseQueryResult } from "@tanstack/react-query";
import { useState, type ComponentType } from "react";
import type { ApiProblem } from "../../api/problem";
import type { Role } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { Facts } from "../../parts/facts";
import { LinesField } from "../../parts/field";
import type { Fact } from "../../parts/known";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";

export const ROLES: readonly Role[] = ["admin", "operator", "viewer"];

/** One value a line, because values can contain commas and spaces. */
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

export interface DialogProps<Settings> {
  readonly settings: Settings;
  readonly onClose: () => void;
}

type Choice = "set" | "test" | "unset";

interface PanelProps<Settings> {
  readonly words: Readonly<Record<"title" | "lead" | "empty" | "menu" | Choice, string>>;
  readonly query: UseQueryResult<Settings>;
  readonly isSet: (settings: Settings) => boolean;
  readonly factsOf: (settings: Settings) => readonly Fact[];
  readonly dialogs: Readonly<Record<Choice, ComponentType<DialogProps<Settings>>>>;
}

/** The settings, and a menu of dialogs that change and test them. */
export function LoginPanel<Settings>({ words, query, isSet, factsOf, dialogs }: PanelProps<Settings>) {
  const [chosen, setChosen] = useState<Choice | null>(null);
  const Dialog = chosen && dialogs[chosen];
  const choice = (name: Choice, danger = false) => ({ name: words[name], danger, onChoose: () => setChosen(name) });
  return (
    <Panel title={words.title} lead={words.lead}>
      <QueryBoundary query={query} what={words.title}>
        {(settings) => (
          <>
            {isSet(settings) ? <Facts facts={factsOf(settings)} /> : <p>{words.empty}</p>}
            <div className="zv-below">
              <ActionsMenu
                label={words.menu}
                choices={[choice("set"), ...(isSet(settings) ? [choice("test"), choice("unset", true)] : [])]}
              />
            </div>
            {Dialog && <Dialog settings={settings} onClose={() => setChosen(null)} />}
          </>
        )}
      </QueryBoundary>
    </Panel>
  );
}
