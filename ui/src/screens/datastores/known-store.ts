// SPDX-License-Identifier: Apache-2.0
/** A datastore as the reader of a dialog about it knows it, and the API path for it. */

import { useQuery } from "@tanstack/react-query";
import { datastoreQuery, groupsQuery } from "../../api/queries";
import type { Datastore } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { text } from "../../text";

const { detail, columns, wizard } = text.datastores;

/** Facts of a datastore that changed while the dialog was open. */
function useFacts(): (store: Datastore) => readonly Fact[] {
  const { data: groups = [] } = useQuery(groupsQuery);
  return (store) => [
    [columns.name, store.name],
    [columns.state, text.datastores.state[store.state]],
    [store.kind === "nfs" ? detail.capacity.quota : detail.capacity.size, formatBytes(store.size)],
    [detail.overview.provisioning, store.thick ? text.datastores.thick : text.datastores.thin],
    [
      detail.overview.hosts,
      text.common.listed(store.host_groups.map((id) => groups.find((candidate) => candidate.id === id)?.name ?? id)),
    ],
    [wizard.hosts.clients, text.common.listed(store.clients)],
    [detail.overview.threshold, store.soft_threshold == null ? text.common.none : `${store.soft_threshold} %`],
    [columns.lun, store.lun == null ? text.common.none : String(store.lun)],
  ];
}

/** The datastore, as addresses of the API name it. */
export function pathOf(store: Datastore) {
  return { path: { datastore_id: store.id } };
}

export function useKnownStore(store: Datastore) {
  return useKnown(store, datastoreQuery(store.id), useFacts());
}

export function useStoreForm<Form extends object>(store: Datastore, formOf: (store: Datastore) => Form) {
  return useKnownForm(store, datastoreQuery(store.id), useFacts(), formOf);
}
