// SPDX-License-Identifier: Apache-2.0
/** One host: names, paths, datastores, commands. */

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { datastoresQuery, groupsQuery, hostQuery, nfsClientsQuery, readinessQuery, sessionsQuery } from "../../api/queries";
import type { Datastore, Host, IscsiSession, NfsClient } from "../../api/types";
import { CopyLines } from "../../parts/copy-lines";
import { Facts } from "../../parts/facts";
import { HistoryPanel } from "../../parts/history";
import { Screen } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { StateLabel } from "../datastores/table";
import { useUnserved } from "../datastores/unserved";
import { Checks } from "../readiness";
import { Connect, isConnected } from "./connect";
import { HostDialog, HostMenu, type Chosen } from "./host-menu";
import { HostState, LastSeen, type StateProps } from "./list";
import { groupOf, isUsageKnown, linesFor, pathsOf, seenBy } from "./paths";

const words = text.hosts;
const NO_STORES: readonly Datastore[] = [];

export default function HostScreen() {
  const { id = "" } = useParams();
  const navigate = useNavigate();
  const query = useQuery(hostQuery(id));
  const sessions = useQuery(sessionsQuery);
  const { data: clients } = useQuery(nfsClientsQuery);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const host = query.data;
  return (
    <Screen
      title={host?.name ?? words.singular}
      parent={{ to: "/hosts", name: words.title }}
      lead={host && <HostState host={host} sessions={sessions.data} clients={clients} />}
      actions={
        host && (
          <May least="operator">
            <HostMenu host={host} onChoose={setChosen} />
          </May>
        )
      }
    >
      <QueryBoundary query={query} what={words.singular} lines={6}>
        {(loaded) => <HostPanels key={loaded.id} host={loaded} sessions={sessions} clients={clients} />}
      </QueryBoundary>
      {chosen && <HostDialog {...chosen} onClose={() => setChosen(null)} onDeleted={() => void navigate("/hosts")} />}
    </Screen>
  );
}

interface PanelsProps {
  readonly host: Host;
  readonly sessions: UseQueryResult<readonly IscsiSession[]>;
  readonly clients: readonly NfsClient[] | undefined;
}

function HostPanels({ host, sessions, clients }: PanelsProps) {
  const use = { host, sessions: sessions.data, clients };
  // Who opens the page of a host that is not there yet sees it come.
  const [connecting, setConnecting] = useState(false);
  if (!connecting && isUsageKnown(host, sessions.data, clients) && !isConnected(use)) setConnecting(true);
  return (
    <div className="zv-panels">
      {connecting && <Connect {...use} />}
      <HostFacts {...use} />
      <Panel title={words.detail.paths}>
        <QueryBoundary query={sessions} what={words.detail.paths}>
          {(all) => <Paths host={host} sessions={all} />}
        </QueryBoundary>
      </Panel>
      {host.addresses.length > 0 && <Mounts host={host} clients={clients} />}
      <HistoryPanel kind="hosts" id={host.id} />
      <Sees host={host} connecting={connecting} />
    </div>
  );
}

function HostFacts(use: StateProps) {
  const { host } = use;
  const { data: groups } = useQuery(groupsQuery);
  return (
    <Panel title={words.detail.facts}>
      <Facts
        facts={[
          [words.columns.group, groupOf(host, groups)],
          [words.columns.iqns, host.iqns.length === 0 ? text.common.none : host.iqns.join(", ")],
          [words.columns.addresses, host.addresses.length === 0 ? text.common.none : host.addresses.join(", ")],
          [words.columns.chap, host.chap_name ?? words.noChap],
          [words.columns.seen, <LastSeen key="seen" {...use} />],
          [words.detail.created, <Time key="created" at={host.created_at} />],
        ]}
      />
    </Panel>
  );
}

/** A row for each session; initiator names without a session are listed too. */
function Paths({ host, sessions }: { readonly host: Host; readonly sessions: readonly IscsiSession[] }) {
  const columns = words.detail.pathColumns;
  if (host.iqns.length === 0) return <p>{words.detail.noIqns}</p>;
  const open = pathsOf(host, sessions);
  return (
    <Table aria-label={words.detail.paths} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.iqn}</Th>
          <Th>{columns.peer}</Th>
          <Th>{columns.portal}</Th>
          <Th>{columns.account}</Th>
          <Th>{columns.loggedInAt}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {host.iqns.flatMap((iqn) => {
          const opened = open.filter((session) => session.initiator === iqn);
          return (opened.length === 0 ? [null] : opened).map((session) => (
            <Tr key={`${iqn} ${session?.peer ?? ""} ${session?.portal ?? ""}`}>
              <Td dataLabel={columns.iqn} modifier="breakWord">
                {iqn}
              </Td>
              <Td dataLabel={columns.peer}>{session?.peer ?? words.state.offline}</Td>
              <Td dataLabel={columns.portal}>{session?.portal ?? "–"}</Td>
              <Td dataLabel={columns.account} modifier="breakWord">
                {session?.account ?? "–"}
              </Td>
              <Td dataLabel={columns.loggedInAt}>{session === null ? "–" : <Time at={session.logged_in_at} ago />}</Td>
            </Tr>
          ));
        })}
      </Tbody>
    </Table>
  );
}

function Mounts({ host, clients }: { readonly host: Host; readonly clients: readonly NfsClient[] | undefined }) {
  const { data: stores = NO_STORES } = useQuery(datastoresQuery);
  const columns = words.detail.nfsColumns;
  return (
    <Panel title={words.detail.nfs}>
      <Table aria-label={words.detail.nfs} variant="compact">
        <Thead>
          <Tr>
            <Th>{columns.address}</Th>
            <Th>{columns.seen}</Th>
            <Th>{columns.opens}</Th>
            <Th>{columns.datastores}</Th>
          </Tr>
        </Thead>
        <Tbody>
          {host.addresses.map((address) => {
            const client = clients?.find((candidate) => candidate.address === address);
            const used = (client?.datastores ?? []).map((id) => stores.find((store) => store.id === id)?.name ?? id);
            return (
              <Tr key={address}>
                <Td dataLabel={columns.address}>{address}</Td>
                <Td dataLabel={columns.seen}>
                  {client !== undefined ? (
                    <Time at={client.seen_at} ago />
                  ) : clients === undefined ? (
                    words.state.unknown
                  ) : (
                    words.detail.nfsUnseen
                  )}
                </Td>
                <Td dataLabel={columns.opens}>{client?.opens ?? "–"}</Td>
                <Td dataLabel={columns.datastores}>{used.length === 0 ? "–" : used.join(", ")}</Td>
              </Tr>
            );
          })}
        </Tbody>
      </Table>
    </Panel>
  );
}

/** The datastores, what readiness says of the host, and what to type on it. */
function Sees({ host, connecting }: { readonly host: Host; readonly connecting: boolean }) {
  const stores = useQuery(datastoresQuery);
  const readiness = useQuery(readinessQuery);
  const unserved = useUnserved();
  const seen = seenBy(host, stores.data ?? NO_STORES);
  const columns = words.detail.datastoreColumns;
  return (
    <>
      <Panel title={words.detail.datastores}>
        <QueryBoundary query={stores} what={words.detail.datastores}>
          {() =>
            seen.length === 0 ? (
              <p>{words.detail.noDatastores}</p>
            ) : (
              <Table aria-label={words.detail.datastores} variant="compact">
                <Thead>
                  <Tr>
                    <Th>{columns.name}</Th>
                    <Th>{columns.type}</Th>
                    <Th>{columns.number}</Th>
                    <Th>{columns.state}</Th>
                  </Tr>
                </Thead>
                <Tbody>
                  {seen.map((store) => (
                    <Tr key={store.id}>
                      <Td dataLabel={columns.name}>
                        <Link to={`/datastores/${store.id}/overview`}>{store.name}</Link>
                      </Td>
                      <Td dataLabel={columns.type}>{text.datastores.type[store.kind]}</Td>
                      <Td dataLabel={columns.number}>{store.share ?? store.lun ?? "–"}</Td>
                      <Td dataLabel={columns.state}>
                        <StateLabel store={store} unserved={unserved?.get(store.id)} />
                      </Td>
                    </Tr>
                  ))}
                </Tbody>
              </Table>
            )
          }
        </QueryBoundary>
      </Panel>
      <QueryBoundary query={readiness} what={text.readiness.title}>
        {(loaded) => {
          const about = loaded.checks.filter((check) => check.subject === host.id);
          return (
            <>
              {about.length > 0 && <Checks checks={about} />}
              {!connecting && (
                <Panel title={words.detail.esxcli} lead={words.detail.esxcliLead}>
                  <CopyLines lines={linesFor(loaded, seen, host.id)} label={words.detail.copyAll} />
                </Panel>
              )}
            </>
          );
        }}
      </QueryBoundary>
    </>
  );
}
