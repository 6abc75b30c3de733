// SPDX-License-Identifier: Apache-2.0
import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  EmptyStateVariant,
  Label,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { datastoresQuery, poolsQuery } from "../../api/queries";
import type { Datastore, Pool } from "../../api/types";
import { formatBytes, formatShare } from "../../format/bytes";
import { Facts } from "../../parts/facts";
import { PoolHealth } from "../../parts/health";
import { Panel } from "../../parts/panel";
import { PoolFill } from "../../parts/pool-fill";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";

const words = text.dashboard.pools;

export function PoolsCard() {
  const pools = useQuery(poolsQuery);
  const datastores = useQuery(datastoresQuery);
  return (
    <Panel title={words.title}>
      <QueryBoundary query={pools} what={words.title} lines={4}>
        {(loaded) =>
          loaded.length === 0 ? (
            <NoPool />
          ) : (
            loaded.map((pool) => <PoolFacts key={pool.guid} pool={pool} stores={datastores.data} />)
          )
        }
      </QueryBoundary>
    </Panel>
  );
}

/** Bytes that a pool offers to hosts: the sizes of all its datastores. */
function provisioned(pool: string, stores: readonly Datastore[]): number {
  return stores
    .filter((store) => store.pool === pool && store.state === "active")
    .reduce((sum, store) => sum + Number(store.size), 0);
}

function PoolFacts({ pool, stores }: { readonly pool: Pool; readonly stores: readonly Datastore[] | undefined }) {
  const provisionedBytes = stores === undefined ? null : provisioned(pool.name, stores);
  return (
    <section className="zv-pool" aria-label={pool.name}>
      <h3 className="zv-pool-name">
        {pool.name} <PoolHealth pool={pool} />
        {pool.scan?.state === "scanning" && (
          <Label color="blue">{words.scrub(pool.scan.function, formatShare(pool.scan.progress, 1))}</Label>
        )}
      </h3>
      <PoolFill pool={pool} />
      <Facts
        columns={2}
        facts={[
          [words.available, <Bytes key="available" value={pool.available} />],
          [
            words.provisioned,
            provisionedBytes === null ? (
              "–"
            ) : (
              <span key="provisioned" title={words.provisionedHelp}>
                {pool.usable == null
                  ? formatBytes(provisionedBytes)
                  : words.provisionedOf(formatBytes(provisionedBytes), formatBytes(pool.usable))}
              </span>
            ),
          ],
          [words.saved, <Bytes key="saved" value={pool.bclone_saved} />],
        ]}
      />
    </section>
  );
}

function NoPool() {
  const navigate = useNavigate();
  return (
    <EmptyState titleText={words.none.title} headingLevel="h3" variant={EmptyStateVariant.sm}>
      <EmptyStateBody>{words.none.body}</EmptyStateBody>
      <May least="admin">
        <EmptyStateFooter>
          <EmptyStateActions>
            <Button onClick={() => void navigate("/first-start")}>{words.none.action}</Button>
          </EmptyStateActions>
        </EmptyStateFooter>
      </May>
    </EmptyState>
  );
}
