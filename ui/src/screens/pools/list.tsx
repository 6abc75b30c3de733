// SPDX-License-Identifier: Apache-2.0
/** Pools and disks: two tabs of one screen. The address has the tab. */

import { EmptyState, EmptyStateBody, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { keysQuery, poolsQuery } from "../../api/queries";
import type { Key, Pool } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { useBegun } from "../../parts/begun";
import { PoolHealth } from "../../parts/health";
import { Screen } from "../../parts/page";
import { PoolFill } from "../../parts/pool-fill";
import { ScreenTabs, useTab } from "../../parts/screen-tabs";
import { ScanSummary } from "../../parts/scan";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { DisksTab } from "./disks-tab";
import { ImportPool } from "./import-dialog";

const words = text.pools;
const TABS = ["pools", "disks"] as const;

export default function PoolsScreen() {
  const [tab, show] = useTab(TABS);
  return (
    <Screen
      title={words.title}
      actions={
        <May least="admin">
          <Actions />
        </May>
      }
    >
      <ScreenTabs names={TABS} titles={words.tabs} label={words.tabsLabel} shown={tab} onShow={show}>
        {tab === "pools" ? <PoolsTab /> : <DisksTab />}
      </ScreenTabs>
    </Screen>
  );
}

function Actions() {
  const navigate = useNavigate();
  const [importing, setImporting] = useState(false);
  const [begin, news] = useBegun();
  return (
    <>
      <ActionsMenu
        label={words.menu}
        choices={[
          { name: words.create.action, onChoose: () => void navigate("/pools/-new") },
          { name: words.import.action, onChoose: () => setImporting(true) },
        ]}
      />
      {importing && <ImportPool onBegin={begin} onClose={() => setImporting(false)} />}
      {news}
    </>
  );
}

function PoolsTab() {
  const query = useQuery(poolsQuery);
  const { data: keys } = useQuery(keysQuery);
  return (
    <QueryBoundary query={query} what={words.list} lines={4}>
      {(pools) =>
        pools.length === 0 ? (
          <EmptyState titleText={words.empty.title} headingLevel="h2">
            <EmptyStateBody>{words.empty.body}</EmptyStateBody>
          </EmptyState>
        ) : (
          <PoolTable pools={pools} keys={keys} />
        )
      }
    </QueryBoundary>
  );
}

function PoolTable({ pools, keys }: { readonly pools: readonly Pool[]; readonly keys: readonly Key[] | undefined }) {
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.name}</Th>
          <Th>{columns.health}</Th>
          <Th width={20}>{columns.used}</Th>
          <Th>{columns.usable}</Th>
          <Th>{columns.available}</Th>
          <Th>{columns.errors}</Th>
          <Th>{columns.scan}</Th>
          <Th>{columns.encryption}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {pools.map((pool) => (
          <Tr key={pool.guid}>
            <Td dataLabel={columns.name} modifier="breakWord">
              <Link to={`/pools/${pool.name}`}>{pool.name}</Link>
            </Td>
            <Td dataLabel={columns.health}>
              <PoolHealth pool={pool} />
            </Td>
            <Td dataLabel={columns.used}>
              <PoolFill pool={pool} isBrief />
            </Td>
            <Td dataLabel={columns.usable}>
              <Bytes value={pool.usable} />
            </Td>
            <Td dataLabel={columns.available}>
              <Bytes value={pool.available} />
            </Td>
            <Td dataLabel={columns.errors}>{pool.error_count}</Td>
            <Td dataLabel={columns.scan}>
              <ScanSummary pool={pool} />
            </Td>
            <Td dataLabel={columns.encryption}>
              <Encryption pool={pool.name} keys={keys} />
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Encryption({ pool, keys }: { readonly pool: string; readonly keys: readonly Key[] | undefined }) {
  if (keys === undefined) return words.encryption.unknown;
  const poolKey = keys.find((candidate) => candidate.pool === pool);
  if (poolKey === undefined) return words.encryption.none;
  if (poolKey.key_status === "available") return words.encryption.open;
  return <Label status="danger">{words.encryption.locked}</Label>;
}
