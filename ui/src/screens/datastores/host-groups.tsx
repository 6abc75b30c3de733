// SPDX-License-Identifier: Apache-2.0
/** Choice of the host groups that a datastore is presented to. */

import { Checkbox, FormGroup } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { groupsQuery } from "../../api/queries";
import { text } from "../../text";

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
