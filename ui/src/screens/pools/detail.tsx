// SPDX-License-Identifier: Apache-2.0
/** One pool: health, space, scrub, its vdevs, its key. */

import { List, ListItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { api } from "../../api/client";
import { datastoresQuery, poolQuery } from "../../api/queries";
import type { Job, Pool } from "../../api/types";
import { formatWhole } from "../../format/number";
import { ActionsMenu, type Choice } from "../../parts/actions-menu";
import { useBegun } from "../../parts/begun";
import { Facts } from "../../parts/facts";
import { PoolHealth } from "../../parts/health";
import { HistoryPanel } from "../../parts/history";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { Screen } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { PoolFill } from "../../parts/pool-fill";
import { isScanning, ScanProgress } from "../../parts/scan";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { useMay } from "../../session/session";
import { text } from "../../text";
import { KeyPanel } from "./key-panel";
import { VdevTree } from "./vdev-tree";
import { ChangeThresholds, Destroy, isTrimming, Trim, Upgrade, type AboutPool } from "./whole-pool";

const words = text.pools;
const WHOLE_POOL = { trim: Trim, thresholds: ChangeThresholds, upgrade: Upgrade, destroy: Destroy } as const;

/** Jobs after which the appliance no longer has the pool. */
const LAST_JOBS: readonly string[] = ["pool.export", "pool.destroy"];

export default function PoolScreen() {
  const { name = "" } = useParams();
  const query = useQuery(poolQuery(name));
  const navigate = useNavigate();
  const leave = useCallback(
    (job: Job) => {
      if (job.state === "succeeded" && LAST_JOBS.includes(job.kind)) void navigate("/pools", { replace: true });
    },
    [navigate],
  );
  const [begin, news] = useBegun(leave);
  return (
    <Screen
      title={name}
      parent={{ to: "/pools", name: words.title }}
      lead={query.data && <PoolHealth pool={query.data} />}
      actions={query.data && <PoolMenu pool={query.data} onBegin={begin} />}
    >
      <QueryBoundary query={query} what={words.singular} lines={6}>
        {(pool) => (
          <div className="zv-panels">
            <PoolFacts pool={pool} />
            <Panel title={words.detail.vdevs}>
              <VdevTree pool={pool} onBegin={begin} />
            </Panel>
            <HistoryPanel kind="pools" id={pool.name} isFull={pool.used_percent >= pool.warning_percent} />
            <KeyPanel pool={pool.name} />
          </div>
        )}
      </QueryBoundary>
      {news}
    </Screen>
  );
}

function PoolFacts({ pool }: { readonly pool: Pool }) {
  const { detail } = words;
  return (
    <Panel title={detail.facts}>
      <div className="zv-pool">
        <PoolFill pool={pool} />
      </div>
      <Facts
        facts={[
          pool.status === "" ? null : [detail.status, pool.status],
          pool.action === "" ? null : [detail.action, pool.action],
          [detail.errors, pool.error_count === 0 ? detail.noErrors : formatWhole(pool.error_count)],
          [words.columns.scan, <ScanProgress key="scan" pool={pool} />],
          [words.columns.available, <Bytes key="available" value={pool.available} />],
          [detail.raw, <Bytes key="raw" value={pool.size} />],
          [words.columns.fragmentation, `${pool.fragmentation} %`],
          [detail.saved, <Bytes key="saved" value={pool.bclone_saved} />],
          [detail.guid, <code key="guid">{pool.guid}</code>],
        ]}
      />
    </Panel>
  );
}

interface MenuProps {
  readonly pool: Pool;
  readonly onBegin: Place["onBegin"];
}

type Chosen = "start" | "pause" | "stop" | "export" | keyof typeof WHOLE_POOL;

function PoolMenu({ pool, onBegin }: MenuProps) {
  const navigate = useNavigate();
  const operator = useMay("operator");
  const admin = useMay("admin");
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const about = { pool, onBegin, onClose: () => setChosen(null) };
  const scrubbing = isScanning(pool) && pool.scan?.function === "scrub";
  const paused = pool.scan?.state === "paused";
  const scrubs: Choice[] = [
    ...(scrubbing ? [{ name: words.scrub.pause, onChoose: () => setChosen("pause") }] : []),
    ...(isScanning(pool) ? [] : [{ name: paused ? words.scrub.resume : words.scrub.start, onChoose: () => setChosen("start") }]),
    ...(scrubbing || paused ? [{ name: words.scrub.stop, danger: true, onChoose: () => setChosen("stop") }] : []),
  ];
  const trimming = pool.vdevs.some(isTrimming);
  const operations: Choice[] = [
    ...scrubs,
    { name: trimming ? words.trim.stop : words.trim.start, onChoose: () => setChosen("trim") },
    { name: words.thresholds.action, onChoose: () => setChosen("thresholds") },
  ];
  const others: Choice[] = [
    { name: words.extend.action, onChoose: () => void navigate(`/pools/${pool.name}/extend`) },
    ...(pool.upgradable ? [{ name: words.upgrade.action, onChoose: () => setChosen("upgrade") }] : []),
    { name: words.export.action, danger: true, onChoose: () => setChosen("export") },
    { name: words.destroy.action, danger: true, onChoose: () => setChosen("destroy") },
  ];
  const Whole = chosen !== null && chosen in WHOLE_POOL ? WHOLE_POOL[chosen as keyof typeof WHOLE_POOL] : null;
  return (
    <>
      <ActionsMenu label={words.menu} choices={[...(operator ? operations : []), ...(admin ? others : [])]} />
      {Whole && <Whole {...about} />}
      {chosen === "export" && <Export {...about} />}
      {(chosen === "start" || chosen === "pause" || chosen === "stop") && <Scrub {...about} action={chosen} />}
    </>
  );
}

function Scrub({ pool, action, ...job }: AboutPool & { readonly action: "start" | "pause" | "stop" }) {
  return (
    <JobDialog
      {...job}
      danger={action === "stop"}
      title={words.scrub.titles[action](pool.name)}
      lead={words.scrub.leads[action]}
      submit={words.scrub[action]}
      body={() => ({ action })}
      ask={(body, headers) => api.POST("/api/v1/pools/{name}/scrub", { params: { path: { name: pool.name } }, body, headers })}
    />
  );
}

/** Names the datastores that go out of service, and requires the pool's name. */
function Export({ pool, ...job }: AboutPool) {
  const { data: stores } = useQuery(datastoresQuery);
  const served = stores?.filter((store) => store.pool === pool.name && store.state === "active");
  return (
    <JobDialog
      {...job}
      danger
      title={words.export.title(pool.name)}
      lead={words.export.lead}
      submit={words.export.submit}
      confirm={pool.name}
      ready={() => served !== undefined}
      body={(force) => ({ force })}
      ask={(query, headers) => api.POST("/api/v1/pools/{name}/export", { params: { path: { name: pool.name }, query }, headers })}
    >
      {() =>
        served === undefined ? (
          <p>{words.export.storesUnknown}</p>
        ) : (
          served.length > 0 && (
            <>
              <p>{words.export.stores(served.length)}</p>
              <List>
                {served.map((store) => (
                  <ListItem key={store.id}>{store.name}</ListItem>
                ))}
              </List>
            </>
          )
        )
      }
    </JobDialog>
  );
}
