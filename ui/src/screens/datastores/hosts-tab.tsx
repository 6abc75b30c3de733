// SPDX-License-Identifier: Apache-2.0
/** Two tabs of a datastore: its hosts and its events. */

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import {
  alertsQuery,
  groupsQuery,
  hostsQuery,
  jobsOfQuery,
  nfsClientsQuery,
  readinessQuery,
  sessionsQuery,
} from "../../api/queries";
import type { Datastore } from "../../api/types";
import { capitalised } from "../../format/sentence";
import { CopyLines } from "../../parts/copy-lines";
import { Panel } from "../../parts/panel";
import { Severity } from "../../parts/severity";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";
import { groupOf, linesFor } from "../hosts/paths";
import { JobTable } from "../jobs";
import { mountersOf } from "./mounters";

const words = text.datastores.detail;

/** Hosts that see the datastore, and commands for each of them. */
export function HostsTab({ store }: { readonly store: Datastore }) {
  return (
    <div className="zv-panels">
      {store.kind === "nfs" ? <Mounters store={store} /> : <Sessions store={store} />}
      {store.state === "active" && <Lines store={store} />}
    </div>
  );
}

/** Commands of readiness for all devices and for this datastore, and its mount command. */
function Lines({ store }: { readonly store: Datastore }) {
  const query = useQuery(readinessQuery);
  const nfs = store.kind === "nfs";
  return (
    <Panel title={words.hosts.esxcli} lead={nfs ? words.hosts.esxcliNfs : text.readiness.esxcli.lead}>
      <QueryBoundary query={query} what={words.hosts.esxcli}>
        {(loaded) => {
          const lines = linesFor({ ...loaded, esxcli: nfs ? [] : loaded.esxcli }, [store]);
          return lines.length === 0 ? (
            <p>{words.hosts.noLines}</p>
          ) : (
            <CopyLines lines={lines} label={text.readiness.esxcli.copyAll} />
          );
        }}
      </QueryBoundary>
    </Panel>
  );
}

/** Each address that may mount it, with the NFS server's data about it. */
function Mounters({ store }: { readonly store: Datastore }) {
  const hosts = useQuery(hostsQuery);
  const clients = useQuery(nfsClientsQuery);
  const { columns, nfs } = words.hosts;
  return (
    <Panel title={nfs.title} lead={nfs.lead}>
      <QueryBoundary query={hosts} what={words.tabs.hosts}>
        {(loaded) => {
          const mounters = mountersOf(store, loaded, clients.data ?? []);
          if (mounters.length === 0) return <p>{nfs.none}</p>;
          return (
            <Table aria-label={nfs.title} variant="compact">
              <Thead>
                <Tr>
                  <Th>{nfs.address}</Th>
                  <Th>{columns.host}</Th>
                  <Th>{nfs.seen}</Th>
                  <Th>{nfs.opens}</Th>
                  <Th>{nfs.uses}</Th>
                </Tr>
              </Thead>
              <Tbody>
                {mounters.map(({ host, address, client }) => (
                  <Tr key={address}>
                    <Td dataLabel={nfs.address}>{address}</Td>
                    <Td dataLabel={columns.host}>{host === null ? "–" : <Link to={`/hosts/${host.id}`}>{host.name}</Link>}</Td>
                    <Td dataLabel={nfs.seen}>
                      {client !== null ? (
                        <Time at={client.seen_at} ago />
                      ) : clients.data === undefined ? (
                        text.hosts.state.unknown
                      ) : (
                        text.hosts.detail.nfsUnseen
                      )}
                    </Td>
                    <Td dataLabel={nfs.opens}>{client?.opens ?? "–"}</Td>
                    <Td dataLabel={nfs.uses}>
                      {clients.data === undefined
                        ? text.hosts.state.unknown
                        : client?.datastores.includes(store.id)
                          ? text.common.yes
                          : text.common.no}
                    </Td>
                  </Tr>
                ))}
              </Tbody>
            </Table>
          );
        }}
      </QueryBoundary>
    </Panel>
  );
}

/** Each host that sees it, with its sessions; also hosts without a session. */
function Sessions({ store }: { readonly store: Datastore }) {
  const hosts = useQuery(hostsQuery);
  const { data: groups } = useQuery(groupsQuery);
  const { data: sessions } = useQuery(sessionsQuery);
  const { columns } = words.hosts;
  return (
    <Panel title={words.hosts.sessions}>
      <QueryBoundary query={hosts} what={words.tabs.hosts}>
        {(loaded) => {
          const seeing = loaded.filter((host) => host.group != null && store.host_groups.includes(host.group));
          if (seeing.length === 0) return <p>{words.hosts.none}</p>;
          return (
            <Table aria-label={words.hosts.sessions} variant="compact">
              <Thead>
                <Tr>
                  <Th>{columns.host}</Th>
                  <Th>{columns.group}</Th>
                  <Th>{columns.iqn}</Th>
                  <Th>{columns.peer}</Th>
                  <Th>{columns.portal}</Th>
                  <Th>{columns.loggedInAt}</Th>
                </Tr>
              </Thead>
              <Tbody>
                {seeing.flatMap((host) =>
                  host.iqns.flatMap((iqn) => {
                    const open = (sessions ?? []).filter((session) => session.initiator === iqn);
                    return (open.length === 0 ? [null] : open).map((session, index) => (
                      <Tr key={`${host.id} ${iqn} ${index}`}>
                        <Td dataLabel={columns.host}>
                          <Link to={`/hosts/${host.id}`}>{host.name}</Link>
                        </Td>
                        <Td dataLabel={columns.group}>{groupOf(host, groups)}</Td>
                        <Td dataLabel={columns.iqn} modifier="breakWord">
                          {iqn}
                        </Td>
                        <Td dataLabel={columns.peer}>
                          {session?.peer ?? (sessions === undefined ? text.hosts.state.unknown : words.hosts.offline)}
                        </Td>
                        <Td dataLabel={columns.portal}>{session?.portal ?? "–"}</Td>
                        <Td dataLabel={columns.loggedInAt}>{session === null ? "–" : <Time at={session.logged_in_at} ago />}</Td>
                      </Tr>
                    ));
                  }),
                )}
              </Tbody>
            </Table>
          );
        }}
      </QueryBoundary>
    </Panel>
  );
}

export function EventsTab({ store }: { readonly store: Datastore }) {
  const jobs = useQuery(jobsOfQuery(store.id));
  const alerts = useQuery(alertsQuery);
  return (
    <>
      <Panel title={words.events.alerts}>
        <QueryBoundary query={alerts} what={words.events.alerts}>
          {(loaded) => {
            // Those of its pool too. A missing datastore has neither dataset nor pool: both are empty, like other alerts' subject.
            const subjects = [store.id, store.uuid, store.dataset, store.pool].filter(Boolean);
            const about = loaded.filter((alert) => subjects.includes(alert.subject));
            return about.length === 0 ? (
              <p>{words.events.noAlerts}</p>
            ) : (
              <ul className="zv-lines">
                {about.map((alert) => (
                  <li key={alert.id}>
                    <Severity of={alert} /> <span>{capitalised(alert.text)}</span> <Time at={alert.raised_at} ago />
                  </li>
                ))}
              </ul>
            );
          }}
        </QueryBoundary>
      </Panel>
      <div className="zv-below">
        <Panel title={words.events.jobs}>
          <QueryBoundary query={jobs} what={words.events.jobs}>
            {(loaded) => (loaded.length === 0 ? <p>{words.events.noJobs}</p> : <JobTable jobs={loaded} />)}
          </QueryBoundary>
        </Panel>
      </div>
    </>
  );
}
