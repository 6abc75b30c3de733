// SPDX-License-Identifier: Apache-2.0
/** Summary of a datastore: space, load, address, hosts, last snapshot and VAAI. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import {
  groupsQuery,
  historyQuery,
  hostsQuery,
  nfsClientsQuery,
  offloadsQuery,
  readinessQuery,
  sessionsQuery,
  snapshotsQuery,
  spaceQuery,
} from "../../api/queries";
import type { Datastore } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { lunsOf, exportOf } from "../../measures/statistics";
import { Facts } from "../../parts/facts";
import { Fill } from "../../parts/fill";
import { Panel } from "../../parts/panel";
import { Bytes, Time } from "../../parts/values";
import { text } from "../../text";
import { mountersOf } from "./mounters";
import { freeOf, hostsWithPaths, loadNow, vaaiOf } from "./summary";

const words = text.datastores.detail.summary;

export function SummaryPanel({ store }: { readonly store: Datastore }) {
  const nfs = store.kind === "nfs";
  const { data: space } = useQuery({ ...spaceQuery(store.id), enabled: !nfs || store.thick });
  const { data: history } = useQuery(historyQuery("datastores", store.id, "hour"));
  return (
    <Panel title={words.title}>
      <Facts
        columns={2}
        facts={[
          [words.onDisk, <OnDisk key="on-disk" store={store} />],
          nfs ? [words.free, <Bytes key="free" value={freeOf(store, space?.admitted)} />] : null,
          [words.provisioned, store.size === "0" ? text.datastores.noQuota : <Bytes key="size" value={store.size} />],
          space?.unique == null
            ? null
            : [
                words.blocks,
                words.uniqueAndShared(
                  space.unique_exact ? formatBytes(space.unique) : text.files.atMost(formatBytes(space.unique)),
                  space.shared == null ? null : formatBytes(space.shared),
                ),
              ],
          [words.load, (history && loadNow(history)) ?? words.noLoad],
          nfs
            ? [words.share, <code key="share">{store.share ?? "–"}</code>]
            : [words.target, <TargetAndLun key="target" store={store} />],
          [words.hosts, nfs ? <Mounts key="hosts" store={store} /> : <Paths key="hosts" store={store} />],
          [words.lastSnapshot, <LastSnapshot key="snapshot" store={store} />],
          [words.vaai, <Vaai key="vaai" store={store} />],
        ]}
      />
    </Panel>
  );
}

function OnDisk({ store }: { readonly store: Datastore }) {
  if (store.size === "0") return <Bytes value={store.referenced} />;
  return (
    <Fill
      label={text.datastores.usage(store.name)}
      part={store.referenced}
      whole={store.size}
      words={text.datastores.onDiskOf(formatBytes(store.referenced), formatBytes(store.size))}
      warning={store.soft_threshold ?? undefined}
    />
  );
}

function TargetAndLun({ store }: { readonly store: Datastore }) {
  const { data } = useQuery(readinessQuery);
  return (
    <>
      <code>{data?.target ?? "–"}</code>, {words.lun(store.lun ?? "–")}
    </>
  );
}

function Paths({ store }: { readonly store: Datastore }) {
  const { data: hosts } = useQuery(hostsQuery);
  const { data: sessions } = useQuery(sessionsQuery);
  if (hosts === undefined || sessions === undefined) return <>{text.hosts.state.unknown}</>;
  const reached = hostsWithPaths(store, hosts, sessions);
  if (reached.length === 0) return <>{text.common.none}</>;
  return (
    <>
      {reached.map(({ host, paths }, index) => (
        <span key={host.id}>
          {index > 0 && ", "}
          <Link to={`/hosts/${host.id}`}>{host.name}</Link> ({words.paths(paths)})
        </span>
      ))}
    </>
  );
}

function Mounts({ store }: { readonly store: Datastore }) {
  const { data: hosts } = useQuery(hostsQuery);
  const { data: clients } = useQuery(nfsClientsQuery);
  if (hosts === undefined || clients === undefined) return <>{text.hosts.state.unknown}</>;
  const using = mountersOf(store, hosts, clients).filter(({ client }) => client?.datastores.includes(store.id));
  return <>{using.length === 0 ? text.common.none : using.map(({ host, address }) => host?.name ?? address).join(", ")}</>;
}

function LastSnapshot({ store }: { readonly store: Datastore }) {
  const { data } = useQuery(snapshotsQuery(store.id));
  const last = data?.toSorted((first, other) => first.created_at.localeCompare(other.created_at)).at(-1);
  if (last === undefined) return <>{data === undefined ? "–" : text.datastores.detail.snapshots.empty.title}</>;
  return (
    <>
      {last.name}, <Time at={last.created_at} ago />
    </>
  );
}

function Vaai({ store }: { readonly store: Datastore }) {
  const { data: offloads } = useQuery(offloadsQuery);
  const { data: groups } = useQuery(groupsQuery);
  if (offloads === undefined || groups === undefined) return <>–</>;
  if (store.kind === "nfs") {
    if (offloads.nfs_problem != null) return <>{offloads.nfs_problem}</>;
    const counters = exportOf(offloads, store.id)?.operations;
    return <>{words.clones((counters?.clone.operations ?? 0) + (counters?.fast_clone.operations ?? 0))}</>;
  }
  const seeing = groups.filter((group) => store.host_groups.includes(group.id));
  return (
    <>
      {vaaiOf(
        seeing,
        lunsOf(offloads).find((lun) => lun.uuid === store.uuid),
      )}
    </>
  );
}
