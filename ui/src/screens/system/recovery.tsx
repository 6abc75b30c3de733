// SPDX-License-Identifier: Apache-2.0
/** Recovery mode: copies of the configuration on pools, and the administrator's decision. */

import { Button, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import { recoveryQuery } from "../../api/queries";
import type { Recovery } from "../../api/types";
import { formatWhole } from "../../format/number";
import { SendDialog } from "../../parts/dialog";
import { ChoiceField, TextField } from "../../parts/field";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { useSubmission } from "../../parts/use-submission";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { Changes, usePreview } from "./preview";

const words = text.system.recovery;

/** Empty while the database is the newest. */
export function RecoveryPanel() {
  const { data } = useQuery(recoveryQuery);
  const [deciding, setDeciding] = useState(false);
  if (!data?.active) return null;
  return (
    <Panel title={words.title}>
      <Alert variant="warning" isInline component="p" title={data.reason ?? words.title}>
        {words.lead}
      </Alert>
      <Copies recovery={data} />
      <May least="admin">
        <div className="zv-buttons">
          <Button onClick={() => setDeciding(true)}>{words.decide}</Button>
        </div>
      </May>
      {deciding && <Decide recovery={data} onClose={() => setDeciding(false)} />}
    </Panel>
  );
}

function Copies({ recovery }: { readonly recovery: Recovery }) {
  const { columns } = words;
  if (recovery.copies.length === 0) return <p className="zv-below">{words.none}</p>;
  return (
    <Table aria-label={words.copies} variant="compact" className="zv-below">
      <Thead>
        <Tr>
          <Th>{columns.pool}</Th>
          <Th>{columns.generation}</Th>
          <Th>{columns.written}</Th>
          <Th>{columns.of}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {recovery.copies.map((copy) => (
          <Tr key={`${copy.pool} ${copy.installation}`}>
            <Td dataLabel={columns.pool}>{copy.pool}</Td>
            <Td dataLabel={columns.generation}>{formatWhole(copy.generation)}</Td>
            <Td dataLabel={columns.written}>
              <Time at={new Date(copy.written_at * 1000).toISOString()} />
            </Td>
            <Td dataLabel={columns.of}>
              {copy.this_installation ? words.thisInstallation : words.other}{" "}
              {!copy.known && <Label status="warning">{words.unknown}</Label>}
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** The database, as a choice next to names of pools: a pool cannot have this name. */
const KEEP = "-";

interface Body {
  readonly from_pool: string | null;
  readonly keep: boolean;
  readonly recovery_key: string | null;
  readonly dry_run: boolean;
  readonly force: boolean;
}

function Decide({ recovery, onClose }: { readonly recovery: Recovery; readonly onClose: () => void }) {
  const pools = [...new Set(recovery.copies.map((copy) => copy.pool))];
  const [source, setSource] = useState(recovery.suggested ?? "");
  const [key, setKey] = useState("");
  const { send, pending, problem } = useSubmission((body: Body, id: string) =>
    unwrap(api.POST("/api/v1/recovery", { body, headers: idempotent(id) })),
  );
  const keep = source === KEEP;
  const values = { from_pool: keep ? null : source, keep, recovery_key: key === "" ? null : key };
  const request = JSON.stringify(values);
  const { changes, take } = usePreview(request, words.decided, onClose);
  const isDryRun = !keep && changes === null;
  return (
    <SendDialog
      danger={!isDryRun}
      title={words.decideTitle}
      lead={words.decideLead}
      submit={isDryRun ? text.system.configuration.preview : words.decideSubmit}
      ready={source !== ""}
      pending={pending}
      problem={problem}
      knownFields={["from_pool", "recovery_key"]}
      body={request}
      onSubmit={(force) => void take(send({ ...values, dry_run: isDryRun, force }), isDryRun)}
      onClose={onClose}
    >
      <ChoiceField
        id="recovery-source"
        label={words.source}
        value={source}
        options={[
          ["", words.choose],
          ...pools.map((pool) => [pool, words.fromPool(pool)] as const),
          [KEEP, words.keep(recovery.generation)],
        ]}
        onChange={setSource}
        problem={problem?.fields.get("from_pool")}
        required
      />
      <TextField
        id="recovery-key"
        label={words.key}
        help={words.keyHelp}
        value={key}
        onChange={setKey}
        problem={problem?.fields.get("recovery_key")}
      />
      {changes !== null && <Changes changes={changes} />}
    </SendDialog>
  );
}
