import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { alertsQuery, groupsQuery, hostsQuery, jobsQuery, sessionsQuery } from "../../api/queries";
import type { Datastore } from "../../api/types";
import { Panel } from "../../parts/panel";
import { Severity } from "../../parts/severity";
import { Told } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";
import { JobTable } from "../jobs";

const words = text.datastores.detail;

/** Each host that sees it, with its sessions; who is not logged in is told too. */
export function HostsTab({ store }: { readonly store: Datastore }) {
  const hosts = useQuery(hostsQuery);
  const { data: groups } = useQuery(groupsQuery);
  const { data: sessions } = useQuery(sessionsQuery);
  const { columns } = words.hosts;
  return (
    <Panel title={words.hosts.sessions}>
      <Told query={hosts} what={words.tabs.hosts}>
        {(told) => {
          const seeing = told.filter((host) => host.group != null && store.host_groups.includes(host.group));
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
                  <Th>{columns.since}</Th>
                </Tr>
              </Thead>
              <Tbody>
                {seeing.flatMap((host) =>
                  host.iqns.flatMap((iqn) => {
                    const open = (sessions ?? []).filter((session) => session.initiator === iqn);
                    const group = groups?.find((one) => one.id === host.group)?.name ?? "–";
                    return (open.length === 0 ? [null] : open).map((session, index) => (
                      <Tr key={`${host.id} ${iqn} ${index}`}>
                        <Td dataLabel={columns.host}>{host.name}</Td>
                        <Td dataLabel={columns.group}>{group}</Td>
                        <Td dataLabel={columns.iqn} modifier="breakWord">
                          {iqn}
                        </Td>
                        <Td dataLabel={columns.peer}>{session?.peer ?? words.hosts.offline}</Td>
                        <Td dataLabel={columns.portal}>{session?.portal ?? "–"}</Td>
                        <Td dataLabel={columns.since}>{session === null ? "–" : <Time at={session.since} ago />}</Td>
                      </Tr>
                    ));
                  }),
                )}
              </Tbody>
            </Table>
          );
        }}
      </Told>
    </Panel>
  );
}

export function EventsTab({ store }: { readonly store: Datastore }) {
  const jobs = useQuery(jobsQuery);
  const alerts = useQuery(alertsQuery);
  return (
    <>
      <Panel title={words.events.alerts}>
        <Told query={alerts} what={words.events.alerts}>
          {(told) => {
            const about = told.filter((alert) => alert.subject === store.id || alert.subject === store.dataset);
            return about.length === 0 ? (
              <p>{words.events.noAlerts}</p>
            ) : (
              <ul className="zv-lines">
                {about.map((alert) => (
                  <li key={alert.id}>
                    <Severity of={alert} /> <span>{alert.text}</span> <Time at={alert.raised_at} ago />
                  </li>
                ))}
              </ul>
            );
          }}
        </Told>
      </Panel>
      <div className="zv-below">
        <Panel title={words.events.jobs}>
          <Told query={jobs} what={words.events.jobs}>
            {(told) => {
              const about = told.filter((job) => job.subject === store.id || job.subject === store.uuid);
              return about.length === 0 ? <p>{words.events.noJobs}</p> : <JobTable jobs={about} />;
            }}
          </Told>
        </Panel>
      </div>
    </>
  );
}
