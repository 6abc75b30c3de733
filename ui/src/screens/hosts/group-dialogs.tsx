// SPDX-License-Identifier: Apache-2.0
/** Dialogs of host groups: create, change, delete. */

import { Checkbox, FormGroup, FormHelperText, HelperText, HelperTextItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { groupQuery, hostsQuery } from "../../api/queries";
import type { Group, Offload } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { CAN_BE_DISABLED } from "../../measures/statistics";
import { text } from "../../text";

const words = text.hosts.groups;
const names = text.datastores.detail.vaai.names;
const CHANGES = ["host-groups", "readiness", "datastores"];

interface Form {
  readonly name: string;
  readonly disabled: readonly Offload[];
}

/** The request's body. */
function valuesOf({ name, disabled }: Form) {
  return { name, disabled_offloads: CAN_BE_DISABLED.filter((offload) => disabled.includes(offload)) };
}

interface FieldsProps {
  readonly form: Form;
  readonly onChange: (part: Partial<Form>) => void;
  readonly problem: ApiProblem | null;
}

function GroupFields({ form, onChange, problem }: FieldsProps) {
  return (
    <>
      <TextField
        id="group-name"
        label={words.form.name}
        help={words.form.nameHelp}
        value={form.name}
        onChange={(name) => onChange({ name })}
        problem={problem?.at("name")}
        required
      />
      <FormGroup role="group" label={words.form.offloads} fieldId="group-offloads">
        {CAN_BE_DISABLED.map((offload) => (
          <Checkbox
            key={offload}
            id={`offload-${offload}`}
            label={names[offload][0]}
            description={names[offload][1]}
            isChecked={!form.disabled.includes(offload)}
            onChange={(_event, on) => {
              const others = form.disabled.filter((name) => name !== offload);
              onChange({ disabled: on ? others : [...others, offload] });
            }}
          />
        ))}
        <FormHelperText>
          <HelperText>
            <HelperTextItem>{words.form.offloadsHelp}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </>
  );
}

interface Close {
  readonly onClose: () => void;
}

export function AddGroup({ onClose }: Close) {
  const [form, change] = useForm<Form>({ name: "", disabled: [] });
  return (
    <ChangeDialog
      title={words.create.title}
      submit={words.create.submit}
      done={words.create.done(form.name)}
      changes={CHANGES}
      knownFields={["name"]}
      ready={form.name !== ""}
      onClose={onClose}
      body={() => valuesOf(form)}
      ask={(body, headers) => api.POST("/api/v1/host-groups", { body, headers })}
    >
      {(problem) => <GroupFields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}

interface AboutGroup extends Close {
  readonly group: Group;
}

function formOf(group: Group): Form {
  return { name: group.name, disabled: group.disabled_offloads };
}

/** Facts of a group that changed while the dialog was open. */
function useFacts(): (group: Group) => readonly Fact[] {
  const { data: hosts = [] } = useQuery(hostsQuery);
  return (group) => [
    [words.form.name, group.name],
    [words.form.disabled, text.common.listed(group.disabled_offloads.map((offload) => names[offload][0] ?? offload))],
    [words.columns.hosts, text.common.listed(group.hosts.map((id) => hosts.find((host) => host.id === id)?.name ?? id))],
  ];
}

/** Sends changed fields only, so that meanwhile changes by others to other fields persist. */
export function ChangeGroup({ group, onClose }: AboutGroup) {
  const { known, first, form, change } = useKnownForm(group, groupQuery(group.id), useFacts(), formOf);
  return (
    <ChangeDialog
      known={known}
      title={words.change.title(group.name)}
      submit={words.change.submit}
      done={words.change.done(form.name)}
      changes={CHANGES}
      knownFields={["name"]}
      ready={form.name !== ""}
      onClose={onClose}
      body={() => changedOf(valuesOf(first), valuesOf(form))}
      ask={(body, headers) =>
        api.PATCH("/api/v1/host-groups/{group_id}", { params: { path: { group_id: group.id } }, body, headers })
      }
    >
      {(problem) => <GroupFields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}

export function DeleteGroup({ group, onClose }: AboutGroup) {
  const known = useKnown(group, groupQuery(group.id), useFacts());
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.delete.title(group.name)}
      lead={words.delete.lead}
      submit={words.delete.submit}
      done={words.delete.done(group.name)}
      changes={CHANGES}
      onClose={onClose}
      body={() => null}
      ask={(_body, headers) =>
        api.DELETE("/api/v1/host-groups/{group_id}", { params: { path: { group_id: group.id } }, headers })
      }
    />
  );
}
