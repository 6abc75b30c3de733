// SPDX-License-Identifier: Apache-2.0
/** Dialogs for administrators about users. */

import { Checkbox, FormGroup, Radio } from "@patternfly/react-core";
import { useState } from "react";
import { api } from "../../api/client";
import { userQuery } from "../../api/queries";
import type { Role, User } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { TextField } from "../../parts/field";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { text } from "../../text";
import { NewPassword, usePassword } from "./new-password";

const words = text.people.users;
export const ROLES = ["viewer", "operator", "admin"] as const satisfies readonly Role[];

interface Props {
  readonly user: User;
  readonly onClose: () => void;
}

/** The API path of the user. */
function pathOf(user: User) {
  return { path: { user_id: user.id } };
}

/** Facts of a user that changed while the dialog was open. */
function factsOf({ name, role, disabled }: User): readonly Fact[] {
  return [
    [words.name, name],
    [words.columns.role, text.common.user.role[role]],
    [words.columns.state, disabled ? words.disabled : words.active],
  ];
}

function useKnownUser(user: User) {
  return useKnown(user, userQuery(user.id), factsOf);
}

interface RoleProps {
  readonly label: string;
  readonly name: string;
  readonly value: Role;
  /** Highest role that can be chosen. */
  readonly most?: Role;
  readonly onChange: (role: Role) => void;
}

export function RoleChoice({ label, name, value, most = "admin", onChange }: RoleProps) {
  return (
    <FormGroup role="radiogroup" label={label} fieldId={name} isStack>
      {ROLES.slice(0, ROLES.indexOf(most) + 1).map((role) => (
        <Radio
          key={role}
          id={`${name}-${role}`}
          name={name}
          label={text.common.user.role[role]}
          description={text.people.roleHelp[role]}
          isChecked={value === role}
          onChange={() => onChange(role)}
        />
      ))}
    </FormGroup>
  );
}

export function CreateUser({ onClose }: Pick<Props, "onClose">) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const { password, good, field } = usePassword();
  const body = { name, role, password };
  return (
    <ChangeDialog
      title={words.createTitle}
      submit={words.createSubmit}
      ready={name !== "" && good}
      knownFields={["name", "password"]}
      body={() => body}
      ask={(body, headers) => api.POST("/api/v1/users", { body, headers })}
      changes={["users"]}
      done={words.made(name)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <TextField
            id="user-name"
            label={words.name}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <RoleChoice label={text.people.role} name="role" value={role} onChange={setRole} />
          <NewPassword {...field} problem={problem?.fields.get("password")} />
        </>
      )}
    </ChangeDialog>
  );
}

function roleOf({ role }: User): Pick<User, "role"> {
  return { role };
}

export function ChangeRole({ user, onClose }: Props) {
  const { known, first, form, change } = useKnownForm(user, userQuery(user.id), factsOf, roleOf);
  const { role } = form;
  return (
    <ChangeDialog
      known={known}
      title={words.changeRoleTitle(user.name)}
      submit={words.changeRoleSubmit}
      ready={role !== first.role}
      body={() => ({ role })}
      ask={(body, headers) => api.PATCH("/api/v1/users/{user_id}", { params: pathOf(user), body, headers })}
      changes={["users"]}
      done={words.changed(user.name)}
      onClose={onClose}
    >
      {() => <RoleChoice label={text.people.role} name="role" value={role} onChange={(chosen) => change({ role: chosen })} />}
    </ChangeDialog>
  );
}

export function ResetPassword({ user, onClose }: Props) {
  const { password, good, field } = usePassword();
  const [endTokens, setEndTokens] = useState(false);
  const known = useKnownUser(user);
  const body = { password, end_tokens: endTokens };
  return (
    <ChangeDialog
      known={known}
      title={words.resetTitle(user.name)}
      lead={words.resetLead}
      submit={words.resetSubmit}
      ready={good}
      knownFields={["password"]}
      body={() => body}
      ask={(body, headers) => api.PATCH("/api/v1/users/{user_id}", { params: pathOf(user), body, headers })}
      changes={["users"]}
      done={words.changed(user.name)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <NewPassword {...field} problem={problem?.fields.get("password")} />
          <Checkbox
            id="end-tokens"
            label={words.endTokens}
            isChecked={endTokens}
            onChange={(_event, checked) => setEndTokens(checked)}
          />
        </>
      )}
    </ChangeDialog>
  );
}

export function ResetTotp({ user, onClose }: Props) {
  const known = useKnownUser(user);
  const body = { reset_totp: true };
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.resetTotpTitle(user.name)}
      lead={words.resetTotpLead}
      submit={words.resetTotpSubmit}
      body={() => body}
      ask={(body, headers) => api.PATCH("/api/v1/users/{user_id}", { params: pathOf(user), body, headers })}
      changes={["users"]}
      done={words.changed(user.name)}
      onClose={onClose}
    />
  );
}

export function LockOut({ user, onClose }: Props) {
  const known = useKnownUser(user);
  // The state when the dialog opened: the request does what the dialog says even if the user was changed meanwhile.
  const [disabled] = useState(!user.disabled);
  const body = { disabled };
  return (
    <ChangeDialog
      known={known}
      danger={disabled}
      title={disabled ? words.lockTitle(user.name) : words.unlockTitle(user.name)}
      lead={disabled ? words.lockLead : words.unlockLead}
      submit={disabled ? words.lockSubmit : words.unlockSubmit}
      body={() => body}
      ask={(body, headers) => api.PATCH("/api/v1/users/{user_id}", { params: pathOf(user), body, headers })}
      changes={["users"]}
      done={words.changed(user.name)}
      onClose={onClose}
    />
  );
}

export function DeleteUser({ user, onClose }: Props) {
  const known = useKnownUser(user);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.removeTitle(user.name)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      confirm={known.thing.name}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/users/{user_id}", { params: pathOf(user), headers })}
      changes={["users"]}
      done={words.removed(user.name)}
      onClose={onClose}
    />
  );
}
