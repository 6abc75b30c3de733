// SPDX-License-Identifier: Apache-2.0
/** Choice of the host groups and other clients that a datastore is presented to. */

import { Checkbox, FormGroup } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { groupsQuery } from "../../api/queries";
import { text } from "../../text";
import { isForAnyone } from "./form-values";

interface AnyoneProps {
  readonly clients: string;
  readonly anyone: boolean;
  readonly onChange: (anyone: boolean) => void;
}

/** Allows a network of all addresses; shown while such a network is typed. */
export function Anyone({ clients, anyone, onChange }: AnyoneProps) {
  if (!isForAnyone({ clients })) return null;
  const { label, help } = text.datastores.wizard.hosts.anyone;
  return <Checkbox id="anyone" label={label} description={help} isChecked={anyone} onChange={(_event, on) => onChange(on)} />;
}

interface GroupsProps {
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function Groups({ chosen, onChange }: GroupsProps) {
  const { data: groups } = useQuery(groupsQuery);
  if (groups?.length === 0) return <p>{text.datastores.wizard.hosts.none.title}</p>;
  return (
    <FormGroup role="group" label={text.datastores.wizard.hosts.groups} fieldId="groups">
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
