// SPDX-License-Identifier: Apache-2.0
/** The network of the server, read-only, and pings of hosts at full MTU. */

import { Button, Grid, GridItem, Label, List, ListItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { api, idempotent, unwrap } from "../api/client";
import { hostsQuery, networkQuery } from "../api/queries";
import type { Host, Interface, Network, Ping } from "../api/types";
import { Facts } from "../parts/facts";
import { Screen } from "../parts/page";
import { Panel } from "../parts/panel";
import { ProblemAlert } from "../parts/problem-alert";
import { QueryBoundary } from "../parts/states";
import { useSubmission } from "../parts/use-submission";
import { May, useMay } from "../session/session";
import { text } from "../text";

const words = text.network;

export default function NetworkScreen() {
  const network = useQuery(networkQuery);
  const hosts = useQuery(hostsQuery);
  return (
    <Screen title={words.title} lead={words.lead}>
      <Grid hasGutter>
        <GridItem span={12}>
          <Panel title={words.interfaces.title}>
            <QueryBoundary query={network} what={words.interfaces.title} lines={4}>
              {({ interfaces }) =>
                interfaces.length === 0 ? <p>{words.interfaces.empty}</p> : <Interfaces interfaces={interfaces} />
              }
            </QueryBoundary>
            <p className="zv-below">
              {words.change} <a href={`https://${window.location.hostname}:9090/network`}>{words.cockpit}</a>
            </p>
          </Panel>
        </GridItem>
        <GridItem span={12}>
          <Panel title={words.hosts.title} lead={words.hosts.lead}>
            <QueryBoundary query={hosts} what={words.hosts.title} lines={3}>
              {(loaded) => (loaded.length === 0 ? <p>{words.hosts.empty}</p> : <Hosts hosts={loaded} />)}
            </QueryBoundary>
          </Panel>
        </GridItem>
        <GridItem span={12}>
          <Panel title={words.server.title}>
            <QueryBoundary query={network} what={words.server.title} lines={4}>
              {(loaded) => <Server network={loaded} />}
            </QueryBoundary>
          </Panel>
        </GridItem>
      </Grid>
    </Screen>
  );
}

const STATUS = { up: "success", "no link": "danger", down: "custom" } as const satisfies Record<Interface["state"], string>;

function Interfaces({ interfaces }: { readonly interfaces: readonly Interface[] }) {
  const { columns, kinds, states, members, speed } = words.interfaces;
  return (
    <Table aria-label={words.interfaces.title} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.name}</Th>
          <Th>{columns.kind}</Th>
          <Th>{columns.state}</Th>
          <Th>{columns.speed}</Th>
          <Th>{columns.mtu}</Th>
          <Th>{columns.addresses}</Th>
          <Th>{columns.mac}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {interfaces.map((port) => (
          <Tr key={port.name}>
            <Td dataLabel={columns.name}>{port.name}</Td>
            <Td dataLabel={columns.kind}>
              {kinds[port.kind] ?? port.kind} {port.detail} {port.members.length > 0 && members(port.members)}
            </Td>
            <Td dataLabel={columns.state}>
              <Label status={STATUS[port.state]}>{states[port.state]}</Label>
            </Td>
            <Td dataLabel={columns.speed}>{port.speed == null ? "–" : speed(port.speed)}</Td>
            <Td dataLabel={columns.mtu}>{port.mtu}</Td>
            <Td dataLabel={columns.addresses} modifier="breakWord">
              {text.common.listed(port.addresses)}
            </Td>
            <Td dataLabel={columns.mac}>{port.mac === "" ? "–" : port.mac}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Hosts({ hosts }: { readonly hosts: readonly Host[] }) {
  const { columns } = words.hosts;
  const may = useMay("operator");
  return (
    <Table aria-label={words.hosts.list} variant="compact">
      <Thead>
        <Tr>
          <Th width={20}>{columns.host}</Th>
          <Th width={20}>{columns.addresses}</Th>
          <Th>{columns.result}</Th>
          {may && <Th screenReaderText={words.hosts.ping} />}
        </Tr>
      </Thead>
      <Tbody>
        {hosts.map((host) => (
          <HostRow key={host.id} host={host} />
        ))}
      </Tbody>
    </Table>
  );
}

function HostRow({ host }: { readonly host: Host }) {
  const [pings, setPings] = useState<readonly Ping[]>([]);
  const { send, pending, problem } = useSubmission(
    (id: string, key: string) =>
      unwrap(api.POST("/api/v1/hosts/{host_id}/ping", { params: { path: { host_id: id } }, headers: idempotent(key) })),
    ({ items }) => setPings(items),
  );
  const { columns } = words.hosts;
  return (
    <Tr>
      <Td dataLabel={columns.host}>
        <Link to={`/hosts/${host.id}`}>{host.name}</Link>
      </Td>
      <Td dataLabel={columns.addresses}>{text.common.listed(host.addresses)}</Td>
      <Td dataLabel={columns.result}>
        {problem !== null && <ProblemAlert problem={problem} />}
        <div role="status">
          {pings.length > 0 && (
            <List isPlain>
              {pings.map((ping) => (
                <ListItem key={ping.address}>
                  <Label status={ping.result === "ok" ? "success" : "danger"}>{words.hosts.result[ping.result]}</Label>{" "}
                  {ping.text}
                </ListItem>
              ))}
            </List>
          )}
        </div>
      </Td>
      <May least="operator">
        <Td isActionCell>
          <Button
            variant="secondary"
            size="sm"
            aria-label={words.hosts.pingOne(host.name)}
            isLoading={pending}
            isDisabled={pending}
            onClick={() => {
              setPings([]);
              void send(host.id);
            }}
          >
            {words.hosts.ping}
          </Button>
        </Td>
      </May>
    </Tr>
  );
}

function Server({ network }: { readonly network: Network }) {
  const { server } = words;
  const { synchronized, zone } = network.time;
  return (
    <Facts
      facts={[
        [server.hostname, network.hostname],
        [server.dns, text.common.listed(network.dns_servers)],
        [server.search, text.common.listed(network.search_domains)],
        [
          server.clock,
          synchronized == null ? (
            server.unknown
          ) : synchronized ? (
            server.synchronized
          ) : (
            <Label key="clock" status="warning">
              {server.notSynchronized}
            </Label>
          ),
        ],
        [server.zone, zone ?? server.unknown],
      ]}
    />
  );
}
