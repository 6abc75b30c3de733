// SPDX-License-Identifier: Apache-2.0
import { Grid, GridItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { groupsQuery, poolsQuery, readinessQuery, spaceQuery } from "../../api/queries";
import type { Datastore } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { Facts, type Fact } from "../../parts/facts";
import { Fill } from "../../parts/fill";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { Bytes, Time } from "../../parts/values";
import { text } from "../../text";
import { groupNames } from "./filter";
import { SummaryPanel } from "./summary-panel";

const words = text.datastores.detail;

/** For an NFS datastore the quota, which can be none. */
function Size({ store }: { readonly store: Datastore }) {
  return store.size === "0" ? text.datastores.noQuota : <Bytes value={store.size} />;
}

/** The NAA as hosts see it; the readiness check of the LUN reports it. */
function useNaa(store: Datastore): string | undefined {
  const { data } = useQuery(readinessQuery);
  const evidence = data?.checks.find((check) => check.id === "served" && check.subject === store.id)?.evidence;
  return /naa\.[0-9a-f]+/.exec(evidence ?? "")?.[0];
}

function settingsOf(store: Datastore): readonly (Fact | null)[] {
  const { overview } = words;
  const nfs = store.kind === "nfs";
  return [
    [nfs ? words.capacity.quota : words.capacity.size, <Size key="size" store={store} />],
    [overview.provisioning, store.thick ? text.datastores.thick : text.datastores.thin],
    [nfs ? overview.recordSize : overview.blockSize, formatBytes(store.block_size)],
    [overview.compression, store.compression],
    [overview.encryption, store.encryption ?? text.common.none],
    [overview.sync, store.sync === "disabled" ? overview.syncDisabled : store.sync],
    nfs ? null : [overview.threshold, store.soft_threshold == null ? text.common.never : `${store.soft_threshold} %`],
  ];
}

/** Of a missing datastore only its identity and access are known. */
export function OverviewTab({ store }: { readonly store: Datastore }) {
  const { data: groups } = useQuery(groupsQuery);
  const naa = useNaa(store);
  const { overview } = words;
  const nfs = store.kind === "nfs";
  const missing = store.state === "missing";
  const names = groups === undefined ? store.host_groups : groupNames(store, groups);
  return (
    <Grid hasGutter>
      {store.state === "active" && (
        <GridItem span={12}>
          <SummaryPanel store={store} />
        </GridItem>
      )}
      <GridItem span={12} lg={6}>
        <Panel title={overview.identity}>
          <Facts
            facts={[
              missing ? null : [overview.dataset, <code key="dataset">{store.dataset}</code>],
              nfs ? null : [text.datastores.columns.lun, store.lun ?? "–"],
              store.share == null ? null : [overview.share, <code key="share">{store.share}</code>],
              naa === undefined ? null : [overview.naa, <code key="naa">{naa}</code>],
              store.uuid == null ? null : [overview.uuid, <code key="uuid">{store.uuid}</code>],
              missing ? null : [overview.created, <Time key="created" at={store.created_at} />],
              store.deleted_at == null ? null : [overview.deleted, <Time key="deleted" at={store.deleted_at} />],
              store.origin == null ? null : [overview.origin, <code key="origin">{store.origin}</code>],
              store.copy_of == null ? null : [overview.copyOf, store.copy_of],
              store.copy_reason == null ? null : [overview.copyReason, store.copy_reason],
            ]}
          />
        </Panel>
      </GridItem>
      <GridItem span={12} lg={6}>
        <Panel title={overview.settings}>
          <Facts
            facts={[
              ...(missing ? [] : settingsOf(store)),
              nfs ? [overview.clients, store.clients.length === 0 ? text.common.none : store.clients.join(", ")] : null,
              [overview.hosts, names.length > 0 ? names.join(", ") : nfs ? text.common.none : text.datastores.noHosts],
            ]}
          />
        </Panel>
      </GridItem>
    </Grid>
  );
}

export function CapacityTab({ store }: { readonly store: Datastore }) {
  const { data: pools } = useQuery(poolsQuery);
  const pool = pools?.find((candidate) => candidate.name === store.pool);
  const { capacity } = words;
  const nfs = store.kind === "nfs";
  return (
    <Grid hasGutter>
      <GridItem span={12} lg={6}>
        <Panel title={capacity.current} lead={nfs ? capacity.leadNfs : capacity.lead}>
          {store.size !== "0" && (
            <Fill
              label={text.datastores.usage(store.name)}
              part={store.referenced}
              whole={store.size}
              words={text.datastores.onDiskOf(formatBytes(store.referenced), formatBytes(store.size))}
              warning={store.soft_threshold ?? undefined}
            />
          )}
          <div className="zv-below">
            <Facts
              facts={[
                [nfs ? capacity.quota : capacity.size, <Size key="size" store={store} />],
                [capacity.referenced, <Bytes key="referenced" value={store.referenced} />],
              ]}
            />
          </div>
        </Panel>
      </GridItem>
      <GridItem span={12} lg={6}>
        <Panel title={capacity.inPool}>
          <Facts
            facts={[
              [capacity.used, <Bytes key="used" value={store.used} />],
              [capacity.snapshots, <Bytes key="snapshots" value={store.snapshot_bytes} />],
              [capacity.reserved, <Bytes key="reserved" value={store.reserved} />],
              pool === undefined ? null : [capacity.poolAvailable, <Bytes key="available" value={pool.available} />],
            ]}
          />
        </Panel>
      </GridItem>
      {store.state === "active" && (nfs ? <FileSpace store={store} /> : <Blocks id={store.id} />)}
    </Grid>
  );
}

/** Space that the files of an NFS datastore need, as counted by the NFS server. */
function FileSpace({ store }: { readonly store: Datastore }) {
  const query = useQuery(spaceQuery(store.id));
  const { files } = words.capacity;
  return (
    <GridItem span={12} lg={6}>
      <Panel title={files.title} lead={files.lead}>
        <QueryBoundary query={query} what={files.title}>
          {({ admitted, thick, size, problem, counting }) => {
            const needed = admitted == null ? text.hosts.state.unknown : formatBytes(admitted);
            return (
              <>
                <Facts
                  facts={[
                    [files.admitted, thick && admitted != null ? files.of(needed, formatBytes(size)) : needed],
                    !problem ? null : [files.problem, problem],
                  ]}
                />
                {counting && <p className="zv-lead">{files.counting}</p>}
              </>
            );
          }}
        </QueryBoundary>
      </Panel>
    </GridItem>
  );
}

/** Blocks of a VMFS datastore that no clone or copy shares; "at most" unless the target counted exactly. */
function Blocks({ id }: { readonly id: string }) {
  const query = useQuery(spaceQuery(id));
  const { blocks } = words.capacity;
  return (
    <GridItem span={12} lg={6}>
      <Panel title={blocks.title} lead={blocks.lead}>
        <QueryBoundary query={query} what={blocks.title}>
          {({ allocated, shared, unique, unique_exact: exact, snapshot, as_of: asOf, problem }) => (
            <Facts
              facts={[
                [blocks.allocated, <Counted key="allocated" bytes={allocated} />],
                [blocks.shared, <Counted key="shared" bytes={shared} />],
                [
                  blocks.unique,
                  unique == null || exact ? <Counted key="unique" bytes={unique} /> : text.files.atMost(formatBytes(unique)),
                ],
                [blocks.snapshot, <Counted key="snapshot" bytes={snapshot} />],
                asOf == null ? null : [blocks.asOf, <Time key="as-of" at={asOf} />],
                !problem ? null : [words.capacity.files.problem, problem],
              ]}
            />
          )}
        </QueryBoundary>
      </Panel>
    </GridItem>
  );
}

function Counted({ bytes }: { readonly bytes: string | null | undefined }) {
  return bytes == null ? text.hosts.state.unknown : <Bytes value={bytes} />;
}
