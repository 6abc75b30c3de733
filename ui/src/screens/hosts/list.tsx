// SPDX-License-Identifier: Apache-2.0
/** Hosts and host groups: two tabs of one screen. The address has the tab. */

import { Button, EmptyState, EmptyStateBody, Label, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { groupsQuery, hostsQuery, nfsClientsQuery, sessionsQuery } from "../../api/queries";
import type { Group, Host, IscsiSession, NfsClient } from "../../api/types";
import type { Cell } from "../../format/csv";
import { ExportCsv } from "../../parts/export-csv";
import { Screen } from "../../parts/page";
import { SearchInput, Toolbar } from "../../parts/patternfly";
import { ScreenTabs, useTab } from "../../parts/screen-tabs";
import { QueryBoundary } from "../../parts/states";
import { useMinute } from "../../parts/use-minute";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { GroupsTab } from "./groups-tab";
import { AddGroup } from "./group-dialogs";
import { AddHost } from "./host-dialogs";
import { HostDialog, HostMenu, type Chosen } from "./host-menu";
import { groupOf, isInUse, isRecent, isUsageKnown, matches, mountsOf, pathsOf } from "./paths";
import { Unknown } from "./unknown";

const words = text.hosts;
const TABS = ["hosts", "groups"] as const;
/** Number of rows shown at first. */
const STEP = 100;
const SHOWN_PATHS = 4;

export default function HostsScreen() {
  const [tab, show] = useTab(TABS);
  const [adding, setAdding] = useState(false);
  return (
    <Screen
      title={words.title}
      lead={words.lead}
      actions={
        <May least="operator">
          <Button onClick={() => setAdding(true)}>{tab === "hosts" ? words.create.action : words.groups.create.action}</Button>
        </May>
      }
    >
      <ScreenTabs names={TABS} titles={words.tabs} label={words.tabsLabel} shown={tab} onShow={show}>
        {tab === "hosts" ? <HostsTab /> : <GroupsTab />}
      </ScreenTabs>
      {adding && tab === "hosts" && <AddHost onClose={() => setAdding(false)} />}
      {adding && tab === "groups" && <AddGroup onClose={() => setAdding(false)} />}
    </Screen>
  );
}

function HostsTab() {
  const query = useQuery(hostsQuery);
  const { data: groups } = useQuery(groupsQuery);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  return (
    <>
      <QueryBoundary query={query} what={words.title} lines={6}>
        {(hosts) =>
          hosts.length === 0 ? (
            <EmptyState titleText={words.empty.title} headingLevel="h2">
              <EmptyStateBody>{words.empty.body}</EmptyStateBody>
            </EmptyState>
          ) : (
            <Hosts hosts={hosts} groups={groups} onChoose={setChosen} />
          )
        }
      </QueryBoundary>
      <Unknown />
      {chosen && <HostDialog {...chosen} onClose={() => setChosen(null)} />}
    </>
  );
}

function Hosts({ hosts, groups, onChoose }: Pick<TableProps, "hosts" | "groups" | "onChoose">) {
  const sessions = useQuery(sessionsQuery);
  const { data: clients } = useQuery(nfsClientsQuery);
  const [search, setSearch] = useState("");
  const [most, setMost] = useState(STEP);
  const matching = hosts.filter((host) => matches(host, search, groups));
  const more = matching.length - most;
  return (
    <>
      <Toolbar>
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <SearchInput
              className="zv-search"
              aria-label={words.search}
              placeholder={words.search}
              value={search}
              onChange={(_event, typed) => setSearch(typed)}
              onClear={() => setSearch("")}
            />
          </ToolbarItem>
          <ToolbarItem align={{ default: "alignEnd" }}>
            <span role="status">{words.shown(matching.length, hosts.length)}</span>
          </ToolbarItem>
          <ToolbarItem>
            <ExportCsv name="hosts" head={CSV_HEAD} rows={() => matching.map((host) => csvRow(host, groups, sessions.data))} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {matching.length === 0 ? (
        <EmptyState titleText={words.noMatch.title} headingLevel="h2">
          <EmptyStateBody>{words.noMatch.body}</EmptyStateBody>
        </EmptyState>
      ) : (
        <HostTable
          hosts={matching.slice(0, most)}
          groups={groups}
          sessions={sessions.data}
          clients={clients}
          onChoose={onChoose}
        />
      )}
      {more > 0 && (
        <Button variant="link" onClick={() => setMost(most + STEP)}>
          {words.more(Math.min(more, STEP))}
        </Button>
      )}
    </>
  );
}

const { columns: heads } = words;
const CSV_HEAD = [heads.name, heads.group, heads.paths, heads.seen, heads.iqns, heads.addresses, heads.chap];

function csvRow(
  host: Host,
  groups: readonly Group[] | undefined,
  sessions: readonly IscsiSession[] | undefined,
): readonly Cell[] {
  return [
    host.name,
    host.group && groupOf(host, groups),
    sessions && pathsOf(host, sessions).length,
    host.last_seen_at,
    host.iqns.join(" "),
    host.addresses.join(" "),
    host.chap_name,
  ];
}

interface TableProps {
  readonly hosts: readonly Host[];
  readonly groups: readonly Group[] | undefined;
  readonly sessions: readonly IscsiSession[] | undefined;
  readonly clients: readonly NfsClient[] | undefined;
  readonly onChoose: (chosen: Chosen) => void;
}

function HostTable({ hosts, groups, sessions, clients, onChoose }: TableProps) {
  const { columns } = words;
  return (
    <Table aria-label={words.title} variant="compact">
      <Thead>
        <Tr>
          <Th width={15}>{columns.name}</Th>
          <Th>{columns.group}</Th>
          <Th>{columns.state}</Th>
          <Th>{columns.paths}</Th>
          <Th>{columns.seen}</Th>
          <Th>{columns.iqns}</Th>
          <Th>{columns.chap}</Th>
          <Th screenReaderText={columns.actions} />
        </Tr>
      </Thead>
      <Tbody>
        {hosts.map((host) => (
          <Tr key={host.id}>
            <Td dataLabel={columns.name} modifier="breakWord">
              <Link to={`/hosts/${host.id}`}>{host.name}</Link>
            </Td>
            <Td dataLabel={columns.group}>{groupOf(host, groups)}</Td>
            <Td dataLabel={columns.state}>
              <HostState host={host} sessions={sessions} clients={clients} />
            </Td>
            <Td dataLabel={columns.paths}>
              {sessions === undefined ? words.state.unknown : <Paths paths={pathsOf(host, sessions)} />}
            </Td>
            <Td dataLabel={columns.seen}>
              <LastSeen host={host} sessions={sessions} clients={clients} />
            </Td>
            <Td dataLabel={columns.iqns} modifier="breakWord">
              {host.iqns.length === 0 ? "–" : host.iqns.map((iqn) => <div key={iqn}>{iqn}</div>)}
            </Td>
            <Td dataLabel={columns.chap}>{host.chap_name == null ? words.noChap : words.chapSet}</Td>
            <Td isActionCell>
              <May least="operator">
                <HostMenu host={host} row onChoose={onChoose} />
              </May>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Paths({ paths }: { readonly paths: readonly IscsiSession[] }) {
  if (paths.length === 0) return "–";
  const more = paths.length - SHOWN_PATHS;
  return (
    <>
      {paths.slice(0, SHOWN_PATHS).map(({ peer, portal }) => (
        <div key={`${peer} ${portal}`}>{words.path(peer, portal)}</div>
      ))}
      {more > 0 && <div>{words.morePaths(more)}</div>}
    </>
  );
}

export interface StateProps {
  readonly host: Host;
  readonly sessions: readonly IscsiSession[] | undefined;
  readonly clients: readonly NfsClient[] | undefined;
}

export function LastSeen({ host, sessions = [], clients = [] }: StateProps) {
  useMinute();
  if (isInUse(host, sessions, clients, Date.now())) return words.seen.now;
  return host.last_seen_at == null ? words.seen.never : <Time at={host.last_seen_at} ago />;
}

export function HostState({ host, sessions, clients }: StateProps) {
  useMinute();
  const paths = pathsOf(host, sessions ?? []).length;
  const mounts = mountsOf(host, clients ?? []);
  if (paths === 0 && mounts.length === 0) {
    if (!isUsageKnown(host, sessions, clients)) return <Label>{words.state.unknown}</Label>;
    return <Label color="grey">{words.state.offline}</Label>;
  }
  return (
    <>
      {paths > 0 && (
        <Label color={paths > 1 ? "green" : "orange"} title={paths > 1 ? undefined : words.state.single}>
          {words.state.paths(paths)}
        </Label>
      )}{" "}
      {mounts.length > 0 && (
        <Label color={mounts.some((mount) => isRecent(mount, Date.now())) ? "green" : "grey"}>
          {mounts.some((mount) => isRecent(mount, Date.now())) ? words.state.nfs : words.state.nfsIdle}
        </Label>
      )}
    </>
  );
}
