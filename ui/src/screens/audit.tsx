// SPDX-License-Identifier: Apache-2.0
/** The audit, page by page; each entry with former and requested values. */

import { Button, EmptyState, EmptyStateBody, Label, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useId, useState, type ReactNode } from "react";
import { auditQuery, readWholeAudit, type AuditFilter } from "../api/queries";
import type { AuditEntry } from "../api/types";
import { useAbout } from "../parts/about";
import type { Cell } from "../format/csv";
import { Choice } from "../parts/choice";
import { ExportCsv } from "../parts/export-csv";
import { Screen } from "../parts/page";
import { Pager } from "../parts/pager";
import { SearchInput, Toolbar } from "../parts/patternfly";
import { QueryBoundary } from "../parts/states";
import { TimeRange } from "../parts/time-range";
import { Time } from "../parts/values";
import { text } from "../text";

const words = text.audit;
const NO_FILTER: AuditFilter = { actor: "", action: "", outcome: "", since: "", until: "" };
const OUTCOMES = ["done", "refused"] as const;
const CSV_HEAD = [...Object.values(words.columns), words.before, words.after];
const csvRow = (entry: AuditEntry): readonly Cell[] => [
  ...[entry.at, entry.actor, entry.address, entry.action, entry.name === "" ? entry.subject : entry.name, entry.status],
  ...[entry.before, entry.after].map((state) => state && JSON.stringify(state)),
];
/** A pause of this length ends the input. */
const TYPING_PAUSE_MS = 400;

export default function AuditScreen() {
  const [filter, setFilter] = useState(NO_FILTER);
  // Cursors of all pages but the first: the service returns the cursor of the next page only.
  const [cursors, setCursors] = useState<readonly string[]>([]);
  // The query begins after a pause in typing, not at each key.
  const [typed, setTyped] = useState("");
  const query = useQuery({ ...auditQuery(filter, cursors.at(-1) ?? null), placeholderData: keepPreviousData });

  function change(part: Partial<AuditFilter>): void {
    setFilter((before) => ({ ...before, ...part }));
    setCursors([]);
  }

  useEffect(() => {
    const actor = typed.trim();
    if (actor === filter.actor) return undefined;
    const pause = window.setTimeout(() => {
      setFilter((before) => ({ ...before, actor }));
      setCursors([]);
    }, TYPING_PAUSE_MS);
    return () => window.clearTimeout(pause);
  }, [typed, filter.actor]);

  return (
    <Screen title={words.title} lead={words.lead}>
      <Toolbar
        clearAllFilters={() => {
          setTyped("");
          change(NO_FILTER);
        }}
      >
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <SearchInput
              aria-label={words.filter.actor}
              placeholder={words.filter.actorHelp}
              value={typed}
              onChange={(_event, name) => setTyped(name)}
              onClear={() => setTyped("")}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filter.action}
              all={words.filter.anyAction}
              value={filter.action}
              options={Object.entries(words.kinds)}
              onChange={(action) => change({ action })}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filter.outcome}
              all={words.filter.anyOutcome}
              value={filter.outcome}
              options={OUTCOMES.map((outcome) => [outcome, words.filter[outcome]])}
              onChange={(chosen) => change({ outcome: OUTCOMES.find((outcome) => outcome === chosen) ?? "" })}
            />
          </ToolbarItem>
          <TimeRange id="audit" words={words.filter} times={filter} onChange={change} />
          <ToolbarItem align={{ default: "alignEnd" }}>
            <ExportCsv name="audit" head={CSV_HEAD} rows={async () => (await readWholeAudit(filter)).map(csvRow)} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      <QueryBoundary query={query} what={words.title} lines={8}>
        {({ items, next_cursor: next }) => (
          <>
            {items.length === 0 ? (
              <EmptyState titleText={words.noMatch.title} headingLevel="h2">
                <EmptyStateBody>{words.noMatch.body}</EmptyStateBody>
              </EmptyState>
            ) : (
              <AuditTable entries={items} />
            )}
            <Pager words={words} cursors={cursors} next={query.isPlaceholderData ? null : next} onChange={setCursors} />
          </>
        )}
      </QueryBoundary>
    </Screen>
  );
}

function AuditTable({ entries }: { readonly entries: readonly AuditEntry[] }) {
  const [open, setOpen] = useState<number | null>(null);
  const about = useAbout();
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{words.columns.at}</Th>
          <Th>{words.columns.actor}</Th>
          <Th>{words.columns.from}</Th>
          <Th>{words.columns.action}</Th>
          <Th>{words.columns.subject}</Th>
          <Th>{words.columns.outcome}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {entries.map((entry) => (
          <Entry
            key={entry.id}
            entry={entry}
            about={about(entry.subject, entry.name)}
            open={open === entry.id}
            onToggle={() => setOpen(open === entry.id ? null : entry.id)}
          />
        ))}
      </Tbody>
    </Table>
  );
}

interface EntryProps {
  readonly entry: AuditEntry;
  readonly about: ReactNode;
  readonly open: boolean;
  readonly onToggle: () => void;
}

function Entry({ entry, about, open, onToggle }: EntryProps) {
  const id = useId();
  return (
    <>
      <Tr>
        <Td dataLabel={words.columns.at}>
          <Time at={entry.at} />
        </Td>
        <Td dataLabel={words.columns.actor}>
          {entry.actor === "" ? words.nobody : entry.actor}
          {entry.token != null && <small> {words.byToken(entry.token)}</small>}
        </Td>
        <Td dataLabel={words.columns.from}>{entry.address}</Td>
        <Td dataLabel={words.columns.action}>
          <Button
            variant="link"
            isInline
            aria-expanded={open}
            aria-controls={open ? id : undefined}
            aria-label={words.show(entry.action)}
            onClick={onToggle}
          >
            {entry.action}
          </Button>
        </Td>
        <Td dataLabel={words.columns.subject} modifier="breakWord" title={entry.subject}>
          {about}
        </Td>
        <Td dataLabel={words.columns.outcome}>
          <Outcome status={entry.status ?? null} />
        </Td>
      </Tr>
      {open && (
        <Tr id={id}>
          <Td colSpan={6}>
            <Changes entry={entry} />
          </Td>
        </Tr>
      )}
    </>
  );
}

function Outcome({ status }: { readonly status: number | null }) {
  if (status === null) return <Label status="warning">{words.outcome.open}</Label>;
  if (status < 400) return <Label status="success">{words.outcome.done}</Label>;
  return status < 500 ? (
    <Label status="danger">{words.outcome.refused(status)}</Label>
  ) : (
    <Label status="danger">{words.outcome.failed(status)}</Label>
  );
}

/** Requested and former values; only former ones for a deleted object. */
function Changes({ entry }: { readonly entry: AuditEntry }) {
  const before = entry.before ?? {};
  const after = entry.after ?? null;
  const names = Object.keys(after ?? before);
  if (names.length === 0) return entry.status != null && entry.status >= 400 ? words.nothingSent : words.nothingRecorded;
  return (
    <Table aria-label={words.changes(entry.action)} variant="compact" borders={false}>
      <Thead>
        <Tr>
          <Th>{words.field}</Th>
          <Th>{words.before}</Th>
          <Th>{words.after}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {names.map((name) => (
          <Tr key={name}>
            <Td>{name}</Td>
            <Td modifier="breakWord">{shown(before[name])}</Td>
            <Td modifier="breakWord">{shown(after?.[name])}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
