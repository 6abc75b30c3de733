// SPDX-License-Identifier: Apache-2.0
/** Offloads of one datastore: availability, use and shortcomings of each primitive. */

import { Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { groupsQuery, offloadsQuery } from "../../api/queries";
import type { Datastore, Group } from "../../api/types";
import { formatWhole } from "../../format/number";
import {
  exportOf,
  lunsOf,
  NAS_OPERATIONS,
  PRIMITIVES,
  type ExportCounters,
  type LunCounters,
  type Primitive,
} from "../../measures/statistics";
import { Fallbacks, Figure } from "../../parts/offloads";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { text } from "../../text";

const words = text.datastores.detail.vaai;

export function VaaiTab({ store }: { readonly store: Datastore }) {
  const query = useQuery(offloadsQuery);
  const { data: groups } = useQuery(groupsQuery);
  return (
    <QueryBoundary query={query} what={text.datastores.detail.tabs.vaai} lines={6}>
      {(offloads) => {
        if (store.kind === "nfs") return <Nas counters={exportOf(offloads, store.id)} problem={offloads.nfs_problem ?? null} />;
        const counters = lunsOf(offloads).find((lun) => lun.uuid === store.uuid);
        if (counters === undefined) return <p>{words.notServed}</p>;
        const seeing = (groups ?? []).filter((group) => store.host_groups.includes(group.id));
        return (
          <>
            <p className="zv-lead zv-intro">{words.lead}</p>
            <Panel title={words.primitives}>
              <Primitives counters={counters} groups={seeing} />
            </Panel>
            <div className="zv-below">
              <Panel title={words.bytes}>
                <dl className="zv-figures zv-figures-wide">
                  <ByteFigure name={words.cloned} value={counters.cloned} />
                  <ByteFigure name={words.copied} value={counters.copied} />
                  <ByteFigure name={words.zeroed} value={counters.zeroed} />
                  <ByteFigure name={words.reclaimed} value={counters.reclaimed} />
                </dl>
              </Panel>
            </div>
            <div className="zv-below">
              <Panel title={words.fallbacks}>
                <Fallbacks fallbacks={counters.fallbacks} reasons={words.reasons} />
                {counters.miscompares > 0 && <p className="zv-lead">{words.miscompares(formatWhole(counters.miscompares))}</p>}
              </Panel>
            </div>
          </>
        );
      }}
    </QueryBoundary>
  );
}

function ByteFigure({ name, value }: { readonly name: string; readonly value: number }) {
  return (
    <Figure name={name}>
      <Bytes value={value} />
    </Figure>
  );
}

function Primitives({ counters, groups }: { readonly counters: LunCounters; readonly groups: readonly Group[] }) {
  return (
    <Table aria-label={words.primitives} variant="compact">
      <Thead>
        <Tr>
          <Th width={40}>{words.columns.primitive}</Th>
          <Th>{words.columns.on}</Th>
          <Th>{words.columns.used}</Th>
          <Th>{words.columns.bytes}</Th>
          <Th>{words.columns.errors}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {PRIMITIVES.map((primitive) => {
          const [name, help] = words.names[primitive];
          const used = counters.primitives[primitive];
          return (
            <Tr key={primitive}>
              <Td dataLabel={words.columns.primitive}>
                <b>{name}</b> <span className="zv-subtle">{help}</span>
              </Td>
              <Td dataLabel={words.columns.on}>
                <Offered primitive={primitive} groups={groups} />
              </Td>
              <Td dataLabel={words.columns.used}>{formatWhole(used.operations)}</Td>
              <Td dataLabel={words.columns.bytes}>
                <Bytes value={used.bytes} />
              </Td>
              <Td dataLabel={words.columns.errors}>{formatWhole(used.errors)}</Td>
            </Tr>
          );
        })}
      </Tbody>
    </Table>
  );
}

function Offered({ primitive, groups }: { readonly primitive: Primitive; readonly groups: readonly Group[] }) {
  if (groups.length === 0) return <Label isCompact>{words.nobody}</Label>;
  const without = groups
    .filter((group) => group.disabled_offloads.some((offload) => offload === primitive))
    .map((group) => group.name);
  return without.length === 0 ? (
    <Label isCompact status="success">
      {words.on}
    </Label>
  ) : (
    <Label isCompact status="warning">
      {words.off(without.join(", "))}
    </Label>
  );
}

/** VAAI-NAS: requests to an export. */
function Nas({ counters, problem }: { readonly counters: ExportCounters | undefined; readonly problem: string | null }) {
  if (problem !== null) {
    return (
      <Alert variant="warning" isInline component="p" title={words.nas.unavailable}>
        {problem}
      </Alert>
    );
  }
  if (counters === undefined) return <p>{words.nas.nothing}</p>;
  return (
    <>
      <p className="zv-lead zv-intro">{words.nas.lead}</p>
      <Panel title={words.nas.operations}>
        <NasOperations counters={counters} />
      </Panel>
      <div className="zv-below">
        <Panel title={words.bytes}>
          <dl className="zv-figures zv-figures-wide">
            <ByteFigure name={words.cloned} value={counters.cloned} />
            <ByteFigure name={words.copied} value={counters.copied} />
            <ByteFigure name={words.nas.holes} value={counters.holes} />
            <ByteFigure name={words.nas.reserved} value={counters.reserved} />
          </dl>
        </Panel>
      </div>
      <div className="zv-below">
        <Panel title={words.fallbacks}>
          <Fallbacks fallbacks={counters.fallbacks} reasons={words.nas.reasons} />
        </Panel>
      </div>
    </>
  );
}

function NasOperations({ counters }: { readonly counters: ExportCounters }) {
  const { columns } = words.nas;
  return (
    <Table aria-label={words.nas.operations} variant="compact">
      <Thead>
        <Tr>
          <Th width={60}>{columns.operation}</Th>
          <Th>{columns.requests}</Th>
          <Th>{columns.failed}</Th>
          <Th>{columns.refused}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {NAS_OPERATIONS.map((operation) => {
          const [name, help] = words.nas.names[operation];
          const { operations, errors, refused } = counters.operations[operation];
          return (
            <Tr key={operation}>
              <Td dataLabel={columns.operation}>
                <b>{name}</b> <span className="zv-subtle">{help}</span>
              </Td>
              <Td dataLabel={columns.requests}>{formatWhole(operations)}</Td>
              <Td dataLabel={columns.failed}>{formatWhole(errors)}</Td>
              <Td dataLabel={columns.refused}>{formatWhole(refused)}</Td>
            </Tr>
          );
        })}
      </Tbody>
    </Table>
  );
}
