// SPDX-License-Identifier: Apache-2.0
import { Button, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { tokensQuery } from "../../api/queries";
import type { ApiToken, Role } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { Choice } from "../../parts/choice";
import { Facts } from "../../parts/facts";
import { Field, TextField } from "../../parts/field";
import { ListPanel } from "../../parts/list-panel";
import { SecretDialog, type Made } from "../../parts/secret";
import { Time } from "../../parts/values";
import { useSession } from "../../session/session";
import { text } from "../../text";
import { RoleChoice } from "./user-dialogs";

const words = text.people.tokens;
const DAYS = [7, 30, 90, 366] as const;

export function Tokens() {
  const query = useQuery(tokensQuery);
  const [made, setMade] = useState<Made | null>(null);
  const [removing, setRemoving] = useState<ApiToken | null>(null);
  return (
    <>
      <ListPanel words={words} query={query} creator={(onClose) => <CreateToken onMade={setMade} onClose={onClose} />}>
        {(tokens) => <TokenTable tokens={tokens} onRemove={setRemoving} />}
      </ListPanel>
      {made && <SecretDialog made={made} words={words} onClose={() => setMade(null)} />}
      {removing && <DeleteToken token={removing} onClose={() => setRemoving(null)} />}
    </>
  );
}

interface TableProps {
  readonly tokens: readonly ApiToken[];
  readonly onRemove: (token: ApiToken) => void;
}

function TokenTable({ tokens, onRemove }: TableProps) {
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{words.columns.name}</Th>
          <Th>{words.columns.scope}</Th>
          <Th>{words.columns.created}</Th>
          <Th>{words.columns.expires}</Th>
          <Th>{words.columns.used}</Th>
          <Th screenReaderText={words.remove} />
        </Tr>
      </Thead>
      <Tbody>
        {tokens.map((token) => (
          <Tr key={token.id}>
            <Td dataLabel={words.columns.name}>{token.name}</Td>
            <Td dataLabel={words.columns.scope}>{text.common.user.role[token.scope]}</Td>
            <Td dataLabel={words.columns.created}>
              <Time at={token.created_at} />
            </Td>
            <Td dataLabel={words.columns.expires}>
              <Expiry at={token.expires_at} />
            </Td>
            <Td dataLabel={words.columns.used}>{token.used_at == null ? text.common.never : <Time at={token.used_at} ago />}</Td>
            <Td>
              <Button variant="link" isDanger isInline aria-label={words.removeOne(token.name)} onClick={() => onRemove(token)}>
                {words.remove}
              </Button>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Expiry({ at }: { readonly at: string }) {
  const [now] = useState(Date.now);
  return (
    <>
      <Time at={at} /> {Date.parse(at) < now && <Label status="warning">{words.expired}</Label>}
    </>
  );
}

function CreateToken({ onMade, onClose }: { readonly onMade: (made: Made) => void; readonly onClose: () => void }) {
  const { session } = useSession();
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Role>("viewer");
  const [days, setDays] = useState("90");
  const [password, setPassword] = useState("");
  // A provider has the password of its users: their fresh login counts. The appliance limits tokens of users of other sources.
  const confirmed = session?.source === "oidc";
  const limited = session?.source !== "local";
  const body = { name, scope, days: limited ? 1 : Number(days), ...(confirmed ? {} : { password }) };
  return (
    <ChangeDialog
      title={words.createTitle}
      lead={confirmed ? words.freshLogin : undefined}
      submit={words.createSubmit}
      ready={name !== "" && (confirmed || password !== "")}
      knownFields={["name", "password"]}
      body={() => body}
      ask={(body, headers) => api.POST("/api/v1/tokens", { body, headers })}
      changes={["tokens"]}
      onDone={onMade}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <TextField
            id="token-name"
            label={words.name}
            help={words.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <RoleChoice label={words.scope} name="scope" value={scope} most={session?.role} onChange={setScope} />
          {limited ? (
            <Facts facts={[[words.days, `${words.limit}. ${words.limitHelp}`]]} />
          ) : (
            <Field id="token-days" label={words.days}>
              <Choice
                id="token-days"
                label={words.days}
                value={days}
                options={DAYS.map((days) => [String(days), words.daysOf(days)])}
                onChange={setDays}
              />
            </Field>
          )}
          {!confirmed && (
            <TextField
              id="token-password"
              label={words.password}
              type="password"
              value={password}
              onChange={setPassword}
              problem={problem?.fields.get("password")}
              autoComplete="current-password"
              required
            />
          )}
        </>
      )}
    </ChangeDialog>
  );
}

function DeleteToken({ token, onClose }: { readonly token: ApiToken; readonly onClose: () => void }) {
  return (
    <ChangeDialog
      danger
      title={words.removeTitle(token.name)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: token.id } }, headers })}
      changes={["tokens"]}
      done={words.removed(token.name)}
      onClose={onClose}
    />
  );
}
