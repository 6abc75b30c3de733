// SPDX-License-Identifier: Apache-2.0
/** Host groups: hosts, datastores, offered offloads. */

import { EmptyState, EmptyStateBody, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { datastoresQuery, groupsQuery, hostsQuery } from "../../api/queries";
import type { Datastore, Group, Host } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { QueryBoundary } from "../../parts/states";
import { May } from "../../session/session";
import { text } from "../../text";
import { ChangeGroup, DeleteGroup } from "./group-dialogs";

const words = text.hosts.groups;
const offloads = text.datastores.detail.vaai.names;

/** An action that the user has chosen, for its dialog. The dialog stays if the group leaves the list. */
interface Chosen {
  readonly group: Group;
  readonly action: "change" | "delete";
}

export function GroupsTab() {
  const query = useQuery(groupsQuery);
  const { data: hosts } = useQuery(hostsQuery);
  const { data: stores } = useQuery(datastoresQuery);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const onClose = () => setChosen(null);
  return (
    <>
      <QueryBoundary query={query} what={words.list} lines={6}>
        {(groups) =>
          groups.length === 0 ? (
            <EmptyState titleText={words.empty.title} headingLevel="h2">
              <EmptyStateBody>{words.empty.body}</EmptyStateBody>
            </EmptyState>
          ) : (
            <Table aria-label={words.list} variant="compact">
              <Thead>
                <Tr>
                  <Th>{words.columns.name}</Th>
                  <Th>{words.columns.hosts}</Th>
                  <Th>{words.columns.datastores}</Th>
                  <Th>{words.columns.offloads}</Th>
                  <Th screenReaderText={words.columns.actions} />
                </Tr>
              </Thead>
              <Tbody>
                {groups.map((group) => (
                  <Row key={group.id} group={group} hosts={hosts} stores={stores} onChoose={setChosen} />
                ))}
              </Tbody>
            </Table>
          )
        }
      </QueryBoundary>
      {chosen?.action === "change" && <ChangeGroup group={chosen.group} onClose={onClose} />}
      {chosen?.action === "delete" && <DeleteGroup group={chosen.group} onClose={onClose} />}
    </>
  );
}

interface RowProps {
  readonly group: Group;
  readonly hosts: readonly Host[] | undefined;
  readonly stores: readonly Datastore[] | undefined;
  readonly onChoose: (chosen: Chosen) => void;
}

function namesOf(members: readonly { readonly name: string }[] | undefined): string {
  if (members === undefined) return text.hosts.state.unknown;
  return members.length === 0 ? text.common.none : members.map(({ name }) => name).join(", ");
}

function Row({ group, hosts, stores, onChoose }: RowProps) {
  const { columns } = words;
  const without = group.disabled_offloads.map((offload) => offloads[offload][0]);
  return (
    <Tr>
      <Td dataLabel={columns.name} modifier="breakWord">
        {group.name}
      </Td>
      <Td dataLabel={columns.hosts} modifier="breakWord">
        {namesOf(hosts?.filter((host) => host.group === group.id))}
      </Td>
      <Td dataLabel={columns.datastores} modifier="breakWord">
        {namesOf(stores?.filter((store) => store.host_groups.includes(group.id)))}
      </Td>
      <Td dataLabel={columns.offloads}>
        {without.length === 0 ? words.allOffloads : <Label color="orange">{words.without(without.join(", "))}</Label>}
      </Td>
      <Td isActionCell>
        <May least="operator">
          <ActionsMenu
            row
            label={text.hosts.actions(group.name)}
            choices={[
              { name: words.change.action, onChoose: () => onChoose({ group, action: "change" }) },
              { name: words.delete.action, danger: true, onChoose: () => onChoose({ group, action: "delete" }) },
            ]}
          />
        </May>
      </Td>
    </Tr>
  );
}
