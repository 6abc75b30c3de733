// SPDX-License-Identifier: Apache-2.0
/** One datastore. The address has the tab. */

import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { datastoreQuery } from "../../api/queries";
import type { Datastore, Job } from "../../api/types";
import { useBegun } from "../../parts/begun";
import { HistoryPanel } from "../../parts/history";
import { Screen } from "../../parts/page";
import { ScreenTabs } from "../../parts/screen-tabs";
import { QueryBoundary } from "../../parts/states";
import { May } from "../../session/session";
import { text } from "../../text";
import { ActionDialog, ActionMenu, type Chosen } from "./actions";
import { CapacityTab, OverviewTab } from "./overview-tab";
import { FilesTab } from "./files-tab";
import { EventsTab, HostsTab } from "./hosts-tab";
import { SnapshotsTab } from "./snapshots-tab";
import { StateLabel } from "./table";
import { useUnserved } from "./unserved";
import { VaaiTab } from "./vaai-tab";

const words = text.datastores.detail;
const TABS = ["overview", "files", "vaai", "capacity", "history", "snapshots", "hosts", "events"] as const;
const TABS_OF_MISSING = ["overview", "history", "hosts", "events"] as const;

export default function DatastoreScreen() {
  const { id = "" } = useParams();
  const query = useQuery(datastoreQuery(id));
  const unserved = useUnserved();
  return (
    <Screen
      title={query.data?.name ?? text.datastores.singular}
      parent={{ to: "/datastores", name: text.datastores.title }}
      lead={query.data && <StateLabel store={query.data} unserved={unserved?.get(id)} />}
      actions={
        query.data && (
          <May least="operator">
            <Actions store={query.data} />
          </May>
        )
      }
    >
      <QueryBoundary query={query} what={text.datastores.singular} lines={6}>
        {(store) => <DatastoreTabs store={store} />}
      </QueryBoundary>
    </Screen>
  );
}

/** Jobs after which the datastore no longer exists. */
const LAST_JOBS: readonly string[] = ["datastore.purge", "datastore.forget"];

/** The page follows the jobs that it has started. If its datastore no longer exists, the list is shown. */
function Actions({ store }: { readonly store: Datastore }) {
  const navigate = useNavigate();
  const leave = useCallback(
    (job: Job) => {
      if (job.state === "succeeded" && LAST_JOBS.includes(job.kind)) void navigate("/datastores", { replace: true });
    },
    [navigate],
  );
  const [begin, news] = useBegun(leave);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  return (
    <>
      <ActionMenu store={store} onChoose={setChosen} />
      {chosen && <ActionDialog {...chosen} onBegin={begin} onClose={() => setChosen(null)} />}
      {news}
    </>
  );
}

function DatastoreTabs({ store }: { readonly store: Datastore }) {
  const { tab: named } = useParams();
  const navigate = useNavigate();
  // Only hosts know the files of VMFS; deleted datastores have none. Of a missing one hardly anything is known.
  const tabs =
    store.state === "missing"
      ? TABS_OF_MISSING
      : TABS.filter((candidate) => candidate !== "files" || (store.kind === "nfs" && store.state === "active"));
  const tab = tabs.find((candidate) => candidate === named) ?? "overview";
  return (
    <ScreenTabs
      names={tabs}
      titles={words.tabs}
      label={words.tabsLabel}
      shown={tab}
      onShow={(name) => void navigate(`/datastores/${store.id}/${name}`, { replace: true })}
    >
      {tab === "overview" && <OverviewTab store={store} />}
      {tab === "files" && <FilesTab store={store} />}
      {tab === "vaai" && <VaaiTab store={store} />}
      {tab === "capacity" && <CapacityTab store={store} />}
      {tab === "history" && <HistoryPanel kind="datastores" id={store.id} />}
      {tab === "snapshots" && <SnapshotsTab store={store} />}
      {tab === "hosts" && <HostsTab store={store} />}
      {tab === "events" && <EventsTab store={store} />}
    </ScreenTabs>
  );
}
