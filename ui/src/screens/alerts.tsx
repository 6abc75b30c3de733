// SPDX-License-Identifier: Apache-2.0
import { Button, EmptyState, EmptyStateBody } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, idempotent, unwrap } from "../api/client";
import { alertsQuery } from "../api/queries";
import type { Alert } from "../api/types";
import { capitalised } from "../format/sentence";
import { Screen } from "../parts/page";
import { ProblemAlert } from "../parts/problem-alert";
import { Severity } from "../parts/severity";
import { QueryBoundary } from "../parts/states";
import { useSubmission } from "../parts/use-submission";
import { Time } from "../parts/values";
import { May } from "../session/session";
import { text } from "../text";

const words = text.alerts;

export function AlertsScreen() {
  const query = useQuery(alertsQuery);
  return (
    <Screen title={words.title}>
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
    </Screen>
  );
}

function AlertTable({ alerts }: { readonly alerts: readonly Alert[] }) {
  const client = useQueryClient();
  const { send, pending, problem } = useSubmission(
    useCallback(
      (id: number, key: string) =>
        unwrap(
          api.POST("/api/v1/alerts/{alert_id}/acknowledge", { params: { path: { alert_id: id } }, headers: idempotent(key) }),
        ),
      [],
    ),
    useCallback(() => void client.invalidateQueries({ queryKey: ["alerts"] }), [client]),
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
              <Td>
                {alert.acknowledged_by == null ? (
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
