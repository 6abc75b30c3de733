// SPDX-License-Identifier: Apache-2.0
/** Choice of the host groups and other clients that a datastore is presented to. */

import { Checkbox, FormGroup } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { groupsQuery } from "../../api/queries";
import { TextField } from "../../parts/field";
import { text } from "../../text";
import { clientsProblem, isForAnyone, type FormValues } from "./form-values";

const words = text.datastores.wizard.hosts;

export type ClientsForm = Pick<FormValues, "clients" | "anyone">;
export const NO_CLIENTS: ClientsForm = { clients: "", anyone: false };

interface ClientsProps {
  readonly form: ClientsForm;
  readonly onChange: (part: Partial<ClientsForm>) => void;
  readonly help?: string;
  readonly problem: string | undefined;
}

/** Clients of an NFS datastore; a checkbox allows a network of all addresses, while such a network is typed. */
export function Clients({ form: { clients, anyone }, onChange, help = words.clientsHelp, problem }: ClientsProps) {
  return (
    <>
      <TextField
        id="clients"
        label={words.clients}
        help={help}
        value={clients}
        onChange={(typed) => onChange({ clients: typed })}
        problem={clientsProblem({ kind: "nfs", clients }) ?? problem}
      />
      {isForAnyone({ clients }) && (
        <Checkbox
          id="anyone"
          label={words.anyone.label}
          description={words.anyone.help}
          isChecked={anyone}
          onChange={(_event, on) => onChange({ anyone: on })}
        />
      )}
    </>
  );
}

interface GroupsProps {
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function Groups({ chosen, onChange }: GroupsProps) {
  const { data: groups } = useQuery(groupsQuery);
  if (groups?.length === 0) return <p>{words.none.title}</p>;
  return (
    <FormGroup role="group" label={words.groups} fieldId="groups">
      {groups?.map((group) => (
        <Checkbox
          key={group.id}
          id={`present-${group.id}`}
          label={group.name}
          isChecked={chosen.includes(group.id)}
          onChange={(_event, checked) => onChange(checked ? [...chosen, group.id] : chosen.filter((id) => id !== group.id))}
        />
      ))}
    </FormGroup>
  );
}
