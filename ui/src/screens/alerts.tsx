// SPDX-License-Identifier: Apache-2.0
import { Button, EmptyState, EmptyStateBody, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { api, idempotent, unwrap } from "../api/client";
import { alertPageQuery, alertsQuery, readAllAlerts } from "../api/queries";
import type { Alert } from "../api/types";
import type { Cell } from "../format/csv";
import { capitalised } from "../format/sentence";
import { Choice } from "../parts/choice";
import { ExportCsv } from "../parts/export-csv";
import { Screen } from "../parts/page";
import { Pager } from "../parts/pager";
import { Toolbar } from "../parts/patternfly";
import { ProblemAlert } from "../parts/problem-alert";
import { Severity } from "../parts/severity";
import { QueryBoundary } from "../parts/states";
import { useSubmission } from "../parts/use-submission";
import { Time } from "../parts/values";
import { May } from "../session/session";
import { text } from "../text";

const words = text.alerts;

const CSV_HEAD = [words.severityColumn, words.subject, words.title, words.remedy, words.raised, words.cleared, words.by];
const csvRow = (alert: Alert): readonly Cell[] => [
  ...[alert.severity, alert.subject, alert.text, alert.remedy, alert.raised_at, alert.cleared_at, alert.acknowledged_by],
];

export function AlertsScreen() {
  const [shown, setShown] = useState<"" | "all">("");
  return (
    <Screen title={words.title}>
      <Toolbar>
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <Choice
              label={words.show}
              all={words.open}
              value={shown}
              options={[["all", words.all]]}
              onChange={(chosen) => setShown(chosen === "all" ? "all" : "")}
            />
          </ToolbarItem>
          <ToolbarItem align={{ default: "alignEnd" }}>
            <ExportCsv name="alerts" head={CSV_HEAD} rows={async () => (await readAllAlerts(shown === "")).map(csvRow)} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {shown === "all" ? <AllAlerts /> : <OpenAlerts />}
    </Screen>
  );
}

function OpenAlerts() {
  const query = useQuery(alertsQuery);
  return (
    <QueryBoundary query={query} what={words.title}>
      {(alerts) =>
        alerts.length === 0 ? (
          <EmptyState titleText={words.empty.title} headingLevel="h2" status="success">
            <EmptyStateBody>{words.empty.body}</EmptyStateBody>
          </EmptyState>
        ) : (
          <AlertTable alerts={alerts} />
        )
      }
    </QueryBoundary>
  );
}

function AllAlerts() {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const query = useQuery({ ...alertPageQuery(cursors.at(-1) ?? null), placeholderData: keepPreviousData });
  return (
    <QueryBoundary query={query} what={words.title}>
      {({ items, next_cursor: next }) => (
        <>
          <AlertTable alerts={items} />
          <Pager words={words} cursors={cursors} next={query.isPlaceholderData ? null : next} onChange={setCursors} />
        </>
      )}
    </QueryBoundary>
  );
}

const cellOf = (id: number) => `alert-${id}`;

function AlertTable({ alerts }: { readonly alerts: readonly Alert[] }) {
  const client = useQueryClient();
  const { send, pending, problem } = useSubmission(
    useCallback(async (id: number, key: string) => {
      await unwrap(
        api.POST("/api/v1/alerts/{alert_id}/acknowledge", { params: { path: { alert_id: id } }, headers: idempotent(key) }),
      );
      return id;
    }, []),
    useCallback(
      (id: number) => {
        // The pressed button goes.
        document.getElementById(cellOf(id))?.focus();
        for (const name of ["alerts", "status"]) void client.invalidateQueries({ queryKey: [name] });
      },
      [client],
    ),
  );
  return (
    <>
      {problem !== null && <ProblemAlert problem={problem} />}
      <Table aria-label={words.list}>
        <Thead>
          <Tr>
            <Th>{words.title}</Th>
            <Th>{words.remedy}</Th>
            <Th>{words.raised}</Th>
            <Th screenReaderText={words.acknowledge} />
          </Tr>
        </Thead>
        <Tbody>
          {alerts.map((alert) => (
            <Tr key={alert.id}>
              <Td dataLabel={words.title}>
                <Severity of={alert} /> {capitalised(alert.text)}
              </Td>
              <Td dataLabel={words.remedy}>{capitalised(alert.remedy)}</Td>
              <Td dataLabel={words.raised}>
                <Time at={alert.raised_at} ago />
              </Td>
              <Td id={cellOf(alert.id)} tabIndex={-1}>
                {alert.cleared_at != null ? (
                  <>
                    {words.cleared} <Time at={alert.cleared_at} ago />
                  </>
                ) : alert.acknowledged_by == null ? (
                  <May least="operator">
                    <Button variant="secondary" size="sm" isDisabled={pending} onClick={() => void send(alert.id)}>
                      {words.acknowledge}
                    </Button>
                  </May>
                ) : (
                  words.acknowledged(alert.acknowledged_by)
                )}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
}
