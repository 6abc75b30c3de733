// SPDX-License-Identifier: Apache-2.0
/** The server's journal, page by page. */

import { EmptyState, EmptyStateBody, Label, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { logsQuery, type LogFilter } from "../api/queries";
import type { LogEntry } from "../api/types";
import { Choice } from "../parts/choice";
import { Screen } from "../parts/page";
import { Pager } from "../parts/pager";
import { SearchInput, Toolbar } from "../parts/patternfly";
import { QueryBoundary } from "../parts/states";
import { TimeRange } from "../parts/time-range";
import { Time } from "../parts/values";
import { text } from "../text";

const words = text.logs;
const NO_FILTER: LogFilter = { unit: "", priority: "", text: "", since: "", until: "" };
/** After a pause of this length the text counts as complete. */
const TYPING_PAUSE_MS = 400;
const UNITS = [
  "zvaai-target",
  "zvaai-worker",
  "zvaai-api",
  "zvaai-frontend",
  "zvaai-helper",
  "zvaai-mounts",
  "zvaai-setup",
  "zvaai-login-screen",
  "zvaai-frontend-reload",
  "zvaai-frontend-restart",
  "zvol_clone",
  "nfs-ganesha",
  "zfs-zed",
  "nginx",
];
const PRIORITIES = ["critical", "error", "warning", "info", "debug"] as const;
const STATUS: Record<LogEntry["priority"], "danger" | "warning" | "info"> = {
  ...{ critical: "danger", error: "danger", warning: "warning", info: "info", debug: "info" },
};

export default function LogsScreen() {
  const [filter, setFilter] = useState(NO_FILTER);
  const [typed, setTyped] = useState("");
  const change = (part: Partial<LogFilter>) => setFilter((before) => ({ ...before, ...part }));

  useEffect(() => {
    const pause = window.setTimeout(() => setFilter((before) => ({ ...before, text: typed.trim() })), TYPING_PAUSE_MS);
    return () => window.clearTimeout(pause);
  }, [typed]);

  return (
    <Screen title={words.title} lead={words.lead}>
      <Toolbar
        clearAllFilters={() => {
          setTyped("");
          setFilter(NO_FILTER);
        }}
      >
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <SearchInput
              aria-label={words.filter.text}
              placeholder={words.filter.text}
              value={typed}
              onChange={(_event, value) => setTyped(value)}
              onClear={() => setTyped("")}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filter.unit}
              all={words.filter.anyUnit}
              value={filter.unit}
              options={[...UNITS.map((unit) => [unit, unit] as const), ["kernel", words.kernel]]}
              onChange={(unit) => change({ unit })}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filter.priority}
              all={words.filter.anyPriority}
              value={filter.priority}
              options={PRIORITIES.map((priority) => [priority, words.atLeast[priority]])}
              onChange={(priority) => change({ priority })}
            />
          </ToolbarItem>
          <TimeRange id="logs" words={words.filter} times={filter} onChange={change} />
        </ToolbarContent>
      </Toolbar>
      <Entries key={JSON.stringify(filter)} filter={filter} />
    </Screen>
  );
}

/** Another filter starts at its first page. */
function Entries({ filter }: { readonly filter: LogFilter }) {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const query = useQuery(logsQuery(filter, cursors.at(-1) ?? null));
  return (
    <QueryBoundary query={query} what={words.title} lines={8}>
      {({ items, next_cursor: next }) => (
        <>
          {items.length === 0 ? (
            <EmptyState titleText={words.noMatch.title} headingLevel="h2">
              <EmptyStateBody>{words.noMatch.body}</EmptyStateBody>
            </EmptyState>
          ) : (
            <Table aria-label={words.list} variant="compact">
              <Thead>
                <Tr>
                  <Th>{words.columns.at}</Th>
                  <Th>{words.columns.unit}</Th>
                  <Th>{words.columns.priority}</Th>
                  <Th>{words.columns.text}</Th>
                </Tr>
              </Thead>
              <Tbody>
                {items.map((entry, number) => (
                  <Tr key={number}>
                    <Td dataLabel={words.columns.at}>
                      <Time at={entry.at} />
                    </Td>
                    <Td dataLabel={words.columns.unit}>{entry.unit}</Td>
                    <Td dataLabel={words.columns.priority}>
                      <Label status={STATUS[entry.priority]}>{words.priority[entry.priority]}</Label>
                    </Td>
                    <Td dataLabel={words.columns.text} modifier="breakWord" className="zv-log">
                      {entry.text}
                    </Td>
                  </Tr>
                ))}
              </Tbody>
            </Table>
          )}
          <Pager words={words} cursors={cursors} next={next} onChange={setCursors} />
        </>
      )}
    </QueryBoundary>
  );
}
