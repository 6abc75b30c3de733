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

/** What is chosen is shown, so that it can be cleared: groups that no longer exist, too. */
export function Groups({ chosen, onChange }: GroupsProps) {
  const { data: groups } = useQuery(groupsQuery);
  if (groups === undefined) return null;
  const gone = chosen.filter((id) => !groups.some((group) => group.id === id));
  if (groups.length === 0 && gone.length === 0) return <p>{words.none.title}</p>;
  const choices = [
    ...groups.map(({ id, name, hosts }) => ({ id, label: name, description: words.count(hosts.length) })),
    ...gone.map((id) => ({ id, label: id, description: words.gone })),
  ];
  return (
    <FormGroup role="group" label={words.groups} fieldId="groups">
      {choices.map(({ id, ...choice }) => (
        <Checkbox
          {...choice}
          key={id}
          id={`group-${id}`}
          isChecked={chosen.includes(id)}
          onChange={(_event, checked) => onChange(checked ? [...chosen, id] : chosen.filter((other) => other !== id))}
        />
      ))}
    </FormGroup>
  );
}
