// SPDX-License-Identifier: Apache-2.0
import { Button, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { readinessQuery } from "../api/queries";
import type { Check } from "../api/types";
import { capitalised } from "../format/sentence";
import { useAbout } from "../parts/about";
import { CopyLines } from "../parts/copy-lines";
import { Screen } from "../parts/page";
import { Panel } from "../parts/panel";
import { QueryBoundary } from "../parts/states";
import { text } from "../text";

const words = text.readiness;
const STATUS = { ok: "success", warning: "warning", failed: "danger", unknown: "custom" } as const;
/** Checks that need action come first. */
const ORDER: readonly Check["result"][] = ["failed", "warning", "unknown", "ok"];

export function ReadinessScreen() {
  const query = useQuery(readinessQuery);
  const about = useAbout();
  return (
    <Screen
      title={words.title}
      lead={words.lead}
      actions={
        <Button variant="secondary" isLoading={query.isFetching} onClick={() => void query.refetch()}>
          {words.again}
        </Button>
      }
    >
      <QueryBoundary query={query} what={words.title} lines={8}>
        {({ checks, esxcli }) => (
          <>
            <Checks checks={checks} about={about} />
            <Lines lines={esxcli} />
          </>
        )}
      </QueryBoundary>
    </Screen>
  );
}

interface ChecksProps {
  readonly checks: readonly Check[];
  /** With the subject, unless the list is about one object. */
  readonly about?: (subject: string) => ReactNode;
}

/** With evidence and remedy. */
export function Checks({ checks, about }: ChecksProps) {
  const failed = checks.filter((check) => check.result !== "ok").length;
  const ordered = checks.toSorted((first, other) => ORDER.indexOf(first.result) - ORDER.indexOf(other.result));
  return (
    <Panel title={failed === 0 ? words.all(checks.length) : words.some(failed, checks.length)}>
      <Table aria-label={words.list} variant="compact">
        <Thead>
          <Tr>
            <Th width={10}>{words.columns.result}</Th>
            <Th width={15}>{words.columns.check}</Th>
            {about !== undefined && <Th width={15}>{words.columns.about}</Th>}
            <Th width={30}>{words.columns.evidence}</Th>
            <Th width={30}>{words.columns.remedy}</Th>
          </Tr>
        </Thead>
        <Tbody>
          {ordered.map((check) => (
            <Tr key={`${check.id} ${check.subject}`}>
              <Td dataLabel={words.columns.result}>
                <Label status={STATUS[check.result]}>{words.result[check.result]}</Label>
              </Td>
              <Td dataLabel={words.columns.check}>{check.title}</Td>
              {about !== undefined && (
                <Td dataLabel={words.columns.about} modifier="breakWord">
                  {about(check.subject)}
                </Td>
              )}
              <Td dataLabel={words.columns.evidence} modifier="breakWord">
                {capitalised(check.evidence)}
              </Td>
              <Td dataLabel={words.columns.remedy} modifier="breakWord">
                {capitalised(check.remedy) || "–"}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </Panel>
  );
}

function Lines({ lines }: { readonly lines: readonly string[] }) {
  return (
    <div className="zv-below">
      <Panel title={words.esxcli.title} lead={words.esxcli.lead}>
        <CopyLines lines={lines} label={words.esxcli.copyAll} />
      </Panel>
    </div>
  );
}
