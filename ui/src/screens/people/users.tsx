// SPDX-License-Identifier: Apache-2.0
import { Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { usersQuery } from "../../api/queries";
import type { User } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { ListPanel } from "../../parts/list-panel";
import { Time } from "../../parts/values";
import { useSession } from "../../session/session";
import { text } from "../../text";
import { ChangeRole, CreateUser, DeleteUser, LockOut, ResetPassword, ResetTotp } from "./user-dialogs";

const words = text.people.users;
const DIALOGS = { role: ChangeRole, reset: ResetPassword, totp: ResetTotp, lock: LockOut, remove: DeleteUser } as const;

interface Chosen {
  readonly user: User;
  readonly action: keyof typeof DIALOGS;
}

export function Users() {
  const query = useQuery(usersQuery);
  const { session } = useSession();
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const Dialog = chosen && DIALOGS[chosen.action];
  return (
    <>
      <ListPanel words={words} query={query} creator={(onClose) => <CreateUser onClose={onClose} />}>
        {(users) => (
          <Table aria-label={words.list} variant="compact">
            <Thead>
              <Tr>
                <Th>{words.columns.name}</Th>
                <Th>{words.columns.role}</Th>
                <Th>{words.columns.state}</Th>
                <Th>{words.totp}</Th>
                <Th>{words.columns.created}</Th>
                <Th screenReaderText={text.datastores.detail.actions.menu} />
              </Tr>
            </Thead>
            <Tbody>
              {users.map((user) => (
                <Tr key={user.id}>
                  <Td dataLabel={words.columns.name}>
                    {user.name} {user.id === session?.user && <Label isCompact>{words.you}</Label>}
                    {user.source !== "local" && <Label isCompact>{words.source[user.source]}</Label>}
                  </Td>
                  <Td dataLabel={words.columns.role}>{text.common.user.role[user.role]}</Td>
                  <Td dataLabel={words.columns.state}>
                    <Label status={user.disabled ? "warning" : "success"}>{user.disabled ? words.disabled : words.active}</Label>
                  </Td>
                  <Td dataLabel={words.totp}>{user.totp ? text.common.yes : text.common.no}</Td>
                  <Td dataLabel={words.columns.created}>
                    <Time at={user.created_at} />
                  </Td>
                  <Td isActionCell>
                    <ActionsMenu
                      row
                      label={words.menu(user.name)}
                      choices={[
                        ...(user.source === "local"
                          ? [
                              { name: words.changeRole, onChoose: () => setChosen({ user, action: "role" as const }) },
                              { name: words.reset, onChoose: () => setChosen({ user, action: "reset" as const }) },
                            ]
                          : []),
                        ...(user.totp
                          ? [{ name: words.resetTotp, onChoose: () => setChosen({ user, action: "totp" as const }) }]
                          : []),
                        {
                          name: user.disabled ? words.unlock : words.lock,
                          danger: !user.disabled,
                          onChoose: () => setChosen({ user, action: "lock" }),
                        },
                        { name: words.remove, danger: true, onChoose: () => setChosen({ user, action: "remove" }) },
                      ]}
                    />
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </ListPanel>
      {Dialog && <Dialog user={chosen.user} onClose={() => setChosen(null)} />}
    </>
  );
}
