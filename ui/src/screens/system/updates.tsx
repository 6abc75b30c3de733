// SPDX-License-Identifier: Apache-2.0
/** Pending updates of the server. An upgrade stops the console's own processes, so apt installs them in a shell. */

import { Button, ExpandableSection, List, ListItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { updatesQuery } from "../../api/queries";
import type { Updates } from "../../api/types";
import { CopyLines } from "../../parts/copy-lines";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";

const words = text.maintenance.updates;
const INSTALL = ["apt update", "zvaai upgrade --check", "apt upgrade"];

export function UpdatesPanel() {
  const query = useQuery(updatesQuery);
  return (
    <Panel title={words.title}>
      <QueryBoundary query={query} what={words.title} lines={4}>
        {(loaded) => <Shown updates={loaded} />}
      </QueryBoundary>
      <div className="zv-buttons">
        <Button variant="secondary" isLoading={query.isFetching} onClick={() => void query.refetch()}>
          {words.again}
        </Button>
      </div>
    </Panel>
  );
}

function Shown({ updates }: { readonly updates: Updates }) {
  const { packages, others, refreshed_at: refreshed, obstacles, reboot, notes } = updates;
  const pending = packages.length + others > 0;
  return (
    <>
      {reboot.length > 0 && <Reasons variant="warning" title={words.reboot} reasons={reboot} />}
      {obstacles.length > 0 && <Reasons variant="danger" title={words.obstacles} reasons={obstacles} />}
      <div>
        {pending ? words.pending(packages.length, others) : refreshed != null && words.none}{" "}
        {refreshed == null ? (
          words.neverRefreshed
        ) : (
          <>
            {words.refreshed} <Time at={refreshed} />
          </>
        )}
      </div>
      {packages.length > 0 && <Packages packages={packages} />}
      {notes !== "" && (
        <ExpandableSection toggleText={words.notes} className="zv-below">
          <pre className="zv-notes">{notes}</pre>
        </ExpandableSection>
      )}
      <p className="zv-below">{words.install}</p>
      <CopyLines
        lines={packages.some(({ name }) => name === "zvaai") && notes === "" ? [...INSTALL, "apt changelog zvaai"] : INSTALL}
        label={words.copy}
      />
    </>
  );
}

interface ReasonsProps {
  readonly variant: "warning" | "danger";
  readonly title: string;
  readonly reasons: readonly string[];
}

function Reasons({ variant, title, reasons }: ReasonsProps) {
  return (
    <Alert variant={variant} isInline component="p" title={title} className="zv-notice">
      <List isPlain>
        {reasons.map((reason) => (
          <ListItem key={reason}>{reason}</ListItem>
        ))}
      </List>
    </Alert>
  );
}

function Packages({ packages }: { readonly packages: Updates["packages"] }) {
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.name}</Th>
          <Th>{columns.installed}</Th>
          <Th>{columns.version}</Th>
          <Th width={50}>{columns.effect}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {packages.map(({ name, installed, version, effect }) => (
          <Tr key={name}>
            <Td dataLabel={columns.name}>{name}</Td>
            <Td dataLabel={columns.installed} modifier="breakWord">
              {installed ?? "–"}
            </Td>
            <Td dataLabel={columns.version} modifier="breakWord">
              {version}
            </Td>
            <Td dataLabel={columns.effect} modifier="breakWord">
              {effect}
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
